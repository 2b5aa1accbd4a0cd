// Package killmatrix holds a test that kills a job again and again.
//
// The job has bounded input, keyed state, event-time windows and exactly-once
// output. It runs as a child process that gets SIGKILL at random moments and
// is started again, each time at another parallelism. In the end the output
// must be what a straight computation finds: nothing lost, duplicated or
// changed.
//
//	go test ./internal/killmatrix -kills 1000 -seed 7 -timeout 0
//
// With -servers HOST:PORT it uses a real Kafka instead of one inside the test.
package killmatrix
