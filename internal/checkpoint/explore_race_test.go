//go:build race

package checkpoint

// underRace tells that the race detector is on. One fiber runs at a time, so
// it finds little there and makes an exploration ten times as long.
const underRace = true
