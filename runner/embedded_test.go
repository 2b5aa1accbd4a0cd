package runner

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/stream"
)

// The whole way through the real engine: a job runs to its end, its results
// are published once, and the same command then finds nothing left to do.
func TestRealJob(t *testing.T) {
	sink := collect.NewExactlyOnce[string]()
	build := func(j *stream.Job) {
		numbers := stream.FromSlice(j, "numbers", []int{1, 2, 3, 4})
		texts := stream.Map(numbers, func(n int) string { return fmt.Sprint(n * n) })
		stream.To(texts, "squares", sink)
	}
	args := []string{"run", "-p", "2", "--checkpoint-interval", "1 h", "--checkpoint-dir", t.TempDir()}
	h := newHarness(build, newEmbedded)
	if code := h.run(args); code != exitDone {
		t.Fatalf("exit code %d: %s", code, h.err.String())
	}
	want := []string{"1", "16", "4", "9"}
	if got := slices.Sorted(slices.Values(sink.Values())); !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
	if !strings.Contains(h.err.String(), ": 4 records in at ") || !strings.Contains(h.err.String(), ", 4 out, ") {
		t.Errorf("the summary counts otherwise:\n%s", h.err.String())
	}
	again := newHarness(build, newEmbedded)
	if code := again.run(args); code != exitDone || !strings.Contains(again.err.String(), "already finished in an earlier run") {
		t.Errorf("again: exit code %d: %s", code, again.err.String())
	}
	if n := sink.Len(); n != 4 {
		t.Errorf("%d results after the second run", n)
	}
}

func TestRealJobInsideAProgram(t *testing.T) {
	sink := collect.New[int]()
	registry := prometheus.NewRegistry()
	var log strings.Builder
	err := Run(t.Context(), "inside", func(j *stream.Job) {
		stream.To(stream.FromSlice(j, "numbers", []int{1, 2, 3}), "out", sink)
	}, WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithRegisterer(registry), WithHTTP(":0"), WithParallelism(2))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(slices.Values(sink.Values())); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("results %v", got)
	}
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Errorf("metrics: %d families, %v", len(families), err)
	}
	if !strings.Contains(log.String(), "http://127.0.0.1:") || !strings.Contains(log.String(), `http.address=":0 (code runner.WithHTTP)"`) {
		t.Errorf("log:\n%s", log.String())
	}
}

// Jobs of one registry stand side by side, a job may run again, and the
// registry shows the run that is under way.
func TestRealJobsShareARegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	shared := prometheus.WrapRegistererWithPrefix("app_", registry)
	// seen are the jobs with metrics, running those whose operators have some.
	jobs := func() (seen, running []string) {
		families, err := registry.Gather()
		if err != nil {
			t.Error(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				switch {
				case f.GetName() == "app_weir_restarts_total":
					seen = append(seen, labels["job"])
				case f.GetName() == "app_weir_late_records_total" && labels["operator"] == "out":
					running = append(running, labels["job"])
				}
			}
		}
		return seen, running
	}
	run := func(name string, wantSeen ...string) {
		var log strings.Builder
		var seen, running []string
		err := Run(t.Context(), name, func(j *stream.Job) {
			numbers := stream.Map(stream.FromSlice(j, "numbers", []int{1}), func(n int) int {
				seen, running = jobs()
				return n
			})
			stream.To(numbers, "out", collect.New[int]())
		}, WithRegisterer(shared), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil || strings.Contains(log.String(), "level=WARN") {
			t.Errorf("%s: %v\n%s", name, err, log.String())
		}
		if !slices.Equal(seen, wantSeen) || !slices.Equal(running, []string{name}) {
			t.Errorf("while %s runs there are metrics of %q, and of the operators of %q", name, seen, running)
		}
	}
	run("one", "one")
	run("two", "one", "two")
	run("one", "one", "two")
}

// A failing job ends with its error and exit code 1, and says where.
func TestRealJobFails(t *testing.T) {
	h := newHarness(func(j *stream.Job) {
		odd := stream.TryMap(stream.FromSlice(j, "numbers", []int{1, 2, 3}), func(n int) (int, error) {
			if n == 2 {
				return 0, fmt.Errorf("number %d is even", n)
			}
			return n, nil
		}, stream.ID("odd"))
		stream.To(odd, "out", collect.New[int]())
	}, newEmbedded)
	if code := h.run([]string{"run"}); code != exitFailed || !strings.Contains(h.err.String(), "the job failed: ") || !strings.Contains(h.err.String(), "number 2 is even") {
		t.Errorf("exit code %d: %s", code, h.err.String())
	}
}
