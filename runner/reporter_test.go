package runner

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/runner/embedded"
)

func reporterOn(width func() int) (*reporter, *fakeEngine, *bytes.Buffer) {
	var b bytes.Buffer
	e := &fakeEngine{suspended: make(chan struct{})}
	x := &execution{engine: e, tracker: newTracker(false)}
	return newReporter("j", x, &console{w: &b, width: width}), e, &b
}

func TestPlainProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e, b := reporterOn(nil)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { r.run(stop); close(done) }()
		r.x.tracker.event(embedded.Event{Kind: embedded.Started})
		e.in.Store(50_000)
		e.out.Store(10)
		<-time.After(plainEvery)
		synctest.Wait()
		r.x.tracker.event(embedded.Event{Kind: embedded.CheckpointCompleted, Checkpoint: 3, Duration: 12345 * time.Microsecond, Bytes: 2_500_000})
		r.x.tracker.event(embedded.Event{Kind: embedded.Failed})
		r.x.tracker.event(embedded.Event{Kind: embedded.Restarting})
		e.in.Store(10_050_000)
		<-time.After(plainEvery)
		synctest.Wait()
		r.x.tracker.event(embedded.Event{Kind: embedded.Started})
		<-time.After(plainEvery)
		synctest.Wait()
		<-time.After(plainEvery) // nothing new
		synctest.Wait()
		close(stop)
		<-done
		r.x.tracker.end(nil, false)
		r.end(false, nil)
		want := "j: running, in 50,000 at 10.0 k/s, out 10 at 2/s\n" +
			"j: restarting, in 10,050,000 at 2.00 M/s, out 10 at 0/s | 1 checkpoint, last 3 took 12ms, 2.5 MB | 1 restart\n" +
			"j: running, in 10,050,000 at 0/s, out 10 at 0/s | 1 checkpoint, last 3 took 12ms, 2.5 MB | 1 restart\n" +
			"j: finished after 20s: 10,050,000 records in at 502.5 k/s, 10 out, 1 checkpoint, 1 restart\n"
		if b.String() != want {
			t.Errorf("got\n%s\nwant\n%s", b, want)
		}
	})
}

func TestLiveProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e, b := reporterOn(func() int { return 20 })
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { r.run(stop); close(done) }()
		e.in.Store(1000)
		<-time.After(liveEvery)
		synctest.Wait()
		r.note("a line")
		close(stop)
		<-done
		want := clearLine + "starting, in 1,000 " + clearLine + "j: a line\n" + "starting, in 1,000 " + clearLine
		if b.String() != want {
			t.Errorf("got %q\nwant %q", b, want)
		}
	})
}

func TestLiveOnlyOnTerminalsThatAreFree(t *testing.T) {
	j, err := prepare("j", buildPipe, settings{})
	if err != nil {
		t.Fatal(err)
	}
	wide := func() int { return 80 }
	for name, tc := range map[string]struct {
		width   func() int
		inv     invocation
		environ []string
		want    bool
	}{
		"terminal": {wide, invocation{}, nil, true},
		"none":     {func() int { return 0 }, invocation{}, nil, false},
		"dumb":     {wide, invocation{}, []string{"TERM=dumb"}, false},
		"ci":       {wide, invocation{}, []string{"CI=true"}, false},
		"quiet":    {wide, invocation{quiet: true}, nil, false},
		"json":     {wide, invocation{output: "json"}, nil, false},
	} {
		p := &program{width: tc.width, environ: tc.environ}
		if got := p.live(&tc.inv, j); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	j.graph.Nodes[1].Kind = "print"
	if (&program{width: wide}).live(&invocation{}, j) {
		t.Error("a status line although the job prints")
	}
}

func TestTrackerEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*tracker)
		err  error
		ctx  bool
		want jobState
	}{
		"finished":              {func(*tracker) {}, nil, false, finished},
		"suspended":             {func(t *tracker) { t.suspend() }, nil, false, suspended},
		"input ended meanwhile": {func(t *tracker) { t.suspend(); t.event(embedded.Event{Kind: embedded.Finished}) }, nil, false, finished},
		"failed":                {func(*tracker) {}, errBoom, false, failed},
		"failed suspending":     {func(t *tracker) { t.suspend() }, errBoom, false, failed},
		"cancelled":             {func(*tracker) {}, errBoom, true, cancelled},
		"restart while suspending": {func(t *tracker) {
			t.suspend()
			t.event(embedded.Event{Kind: embedded.Restarting})
			t.event(embedded.Event{Kind: embedded.Started})
		}, nil, false, suspended},
	} {
		tr := newTracker(false)
		tc.do(tr)
		tr.end(tc.err, tc.ctx)
		if got := tr.state(); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestFormats(t *testing.T) {
	got := []string{
		thousands(0), thousands(999), thousands(1000), thousands(-1234567), perSecond(0.4), perSecond(9999), perSecond(81_300), perSecond(1_204_000),
		size(999), size(1500), size(2_500_000), size(7_100_000_000), short(123456 * time.Microsecond), short(12345 * time.Millisecond), short(90 * time.Second), plural(1, "x"), plural(2, "x"),
	}
	want := "0 999 1,000 -1,234,567 0/s 9999/s 81.3 k/s 1.20 M/s 999 B 1.5 kB 2.5 MB 7.1 GB 123ms 12.3s 1m30s 1 x 2 xs"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

var errBoom = errors.New("boom")
