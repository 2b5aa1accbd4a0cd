// Command quickstart shows what Weir is for, in one run: a job reads clicks
// from Kafka, drops repeated requests, computes latency percentiles for each
// page over sliding windows of event time and writes them to Kafka, exactly
// once, while one of its operators fails and its process is killed.
//
//	go run ./examples/quickstart
//
// The command is two programs. Without a first argument "job" it is the
// director: it starts a Kafka broker inside its process, produces the clicks,
// runs the job as a child process, has it fail and crash, and compares the
// output with a computation of its own. "quickstart job" is the job, a program
// like any other: see job.go, and try "quickstart job graph".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are the flags of the director.
type options struct {
	records     int
	seed        uint64
	servers     string
	parallelism int
	json        bool
	keep        bool
	timeout     time.Duration
}

func (o *options) define(f *flag.FlagSet) {
	f.IntVar(&o.records, "records", 1_000_000, "clicks to produce, at least 1000")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the clicks and of the moment of the kill")
	f.StringVar(&o.servers, "bootstrap-servers", "", "use this Kafka, HOST:PORT, instead of one inside the process")
	f.IntVar(&o.parallelism, "parallelism", 2, "subtasks of each operator")
	f.BoolVar(&o.json, "json", false, "write the verdict as one JSON object, as the last line of standard output")
	f.BoolVar(&o.keep, "keep", false, "keep the directory with checkpoints and log, and the topics of a real Kafka")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "give up after this time")
}

func (o *options) check() error {
	if o.records < 1000 {
		return fmt.Errorf("--records is %d: it must be at least 1000", o.records)
	}
	if o.parallelism < 1 {
		return fmt.Errorf("--parallelism is %d: it must be at least 1", o.parallelism)
	}
	return nil
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "job" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		new(job).main()
		return
	}
	var o options
	o.define(flag.CommandLine)
	flag.Parse()
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := direct(ctx, &o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
	if !r.exact() {
		os.Exit(1)
	}
}

// direct does one run, writes its report and returns it.
func direct(ctx context.Context, o *options, out io.Writer) (*report, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after %v", o.timeout))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	work, err := os.MkdirTemp("", "weir-quickstart-")
	if err != nil {
		return nil, err
	}
	s := &scenario{options: o, say: newSay(out, began)}
	if s.broker, err = openBroker(ctx, o.servers); err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	defer s.broker.close()
	s.say("broker     %s", s.broker.describe())

	s.child = newChild(s.broker, o, work, fail, s.say)
	got, err := s.prepareAndRun(ctx)
	s.child.stop()
	if err != nil {
		return nil, fmt.Errorf("%w\n(checkpoints and log are in %s)", err, work)
	}
	r := newReport(newVerdict(s.want, got.results, got.late), s.child.now(), len(s.traffic.clicks)+len(s.traffic.closing)+len(s.traffic.late), time.Since(began))
	return r, errors.Join(r.write(out, o.json), s.cleanUp(work, r.exact()))
}

func (s *scenario) prepareAndRun(ctx context.Context) (_ *output, err error) {
	s.traffic = newTraffic(s.options.records, s.options.seed)
	s.want = newReference(s.traffic)
	s.say("clicks     %s from seed %d, %s results and late records expected", thousands(len(s.traffic.clicks)), s.options.seed, thousands(s.want.size()))
	if s.producer, err = s.broker.producer(); err != nil {
		return nil, err
	}
	defer s.producer.close()
	return s.run(ctx)
}

// cleanUp removes what a run leaves behind, unless somebody may want to look.
func (s *scenario) cleanUp(work string, exact bool) error {
	if s.options.keep || !exact {
		s.say("kept       checkpoints and log in %s", filepath.Clean(work))
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(s.broker.deleteTopics(ctx), os.RemoveAll(work))
}
