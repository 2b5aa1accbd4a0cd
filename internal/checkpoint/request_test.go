package checkpoint

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// A supervisor repeats its flags: what they ask for is not done again, though
// somebody went elsewhere by hand meanwhile, and however the place is spelled.
func TestRequestIsCarriedOutOnce(t *testing.T) {
	j := newLossJob(t)
	for id := range int64(3) {
		j.publish(id+1, nil)
	}
	begin := func(want int64, o StartOptions) string {
		t.Helper()
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		j.mustStart(o)
		if j.a.Restored.ID != want {
			t.Fatalf("%+v begins from %d, want %d", o.RestorePath, j.a.Restored.ID, want)
		}
		return log.String()
	}
	one, two := "memory:/job/chk-1", "memory:/job/chk-2"
	begin(1, StartOptions{RestorePath: one, Rewind: true})
	j.publish(4, nil)
	begin(2, StartOptions{RestorePath: two, Rewind: true})
	j.publish(5, nil)
	for name, data := range contents(t, j.blobs) {
		if rest, ok := strings.CutPrefix(name, "job/chk-1/"); ok {
			if err := j.blobs.PutIfAbsent(t.Context(), "copied/"+rest, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, place := range []string{one, one + "/_metadata", "memory:/copied"} {
		log := begin(5, StartOptions{RestorePath: place, Rewind: true})
		if !strings.Contains(log, "WARN") || !strings.Contains(log, "done by an earlier attempt") || !strings.Contains(log, "--rewind=2") {
			t.Errorf("the log does not say how to go there again: %s", log)
		}
	}
	// Once more, and a supervisor that repeats this.
	begin(1, StartOptions{RestorePath: one, Rewind: true, Nth: 2})
	j.publish(6, nil)
	begin(6, StartOptions{RestorePath: one, Rewind: true, Nth: 2})
	begin(6, StartOptions{RestorePath: one, Rewind: true})

	// --fresh the same, as long as the job has not finished.
	j.mustStart(StartOptions{Fresh: true})
	j.publish(7, nil)
	begin(7, StartOptions{Fresh: true})
	begin(7, StartOptions{RestorePath: one, Rewind: true})
	j.mustStart(StartOptions{Fresh: true, Nth: 2})
	if j.a.Restored != nil {
		t.Errorf("--fresh=2 begins from %d", j.a.Restored.ID)
	}
	j.publish(8, nil)
	begin(8, StartOptions{Fresh: true})
}

// The flags offered for a place that was gone to are ones that work.
func TestFlagsToGoBackOnceMore(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil)
	j.publish(2, nil)
	for n, want := range []string{"--rewind", "--rewind=2", "--rewind=3"} {
		got := j.look(false).Snapshots[0].Restore
		if got != "-s memory:/job/chk-1 "+want {
			t.Fatalf("offered by %q, want %q", got, want)
		}
		j.mustStart(StartOptions{RestorePath: "memory:/job/chk-1", Rewind: true, Nth: n + 1})
		if j.a.Restored.ID != 1 {
			t.Fatalf("%s begins from %d", got, j.a.Restored.ID)
		}
		j.publish(int64(3+n), nil)
	}
}
