// Package killmatrix holds tests that kill a job again and again.
//
// The job has keyed state, event-time windows and two exactly-once sinks. It
// runs as a child process while its input is being written; it is killed at
// random moments and at every kill point of the code, stopped and resumed,
// paused and overtaken, and each time started again at another parallelism. In
// the end the output must be what a straight computation finds: nothing lost,
// duplicated or changed.
//
//	go test -tags killpoints ./internal/killmatrix -seeds 5
//	go test -tags killpoints ./internal/killmatrix -run Random -kills 50 -seeds 20 -timeout 0
//
// With -servers HOST:PORT it uses a real Kafka instead of one inside the test.
// Without the tag only random moments are tried. docs/kill-matrix.md has more.
package killmatrix
