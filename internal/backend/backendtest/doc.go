// Package backendtest is the acceptance suite of keyed state backends: random
// operations on every kind of state, with timers, time to live and windows,
// compared with a plain model; snapshots at random moments, also while earlier
// ones are being written; restored at other parallelisms and into other
// backends.
package backendtest
