package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// contents are the names and bytes of all blobs.
func contents(t *testing.T, blobs storage.Blobs) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range files(t, blobs, "") {
		data, err := blobs.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(data)
	}
	return all
}

// look looks, and holds that nothing was written.
func (j *lossJob) look(verify bool) *Timeline {
	j.Helper()
	before := contents(j.T, j.blobs)
	t, err := Look(j.Context(), LookOptions{Job: "job", Blobs: j.blobs, Verify: verify,
		OpenPath: func(p string) (storage.Blobs, string, error) { return j.blobs, strings.TrimPrefix(p, "memory:/"), nil }})
	if err != nil {
		j.Fatal(err)
	}
	if !maps.Equal(before, contents(j.T, j.blobs)) {
		j.Error("looking changed something")
	}
	return t
}

func verdicts(t *Timeline) (lines []string) {
	for _, s := range t.Snapshots {
		line := fmt.Sprintf("%d %s alive=%v open=%d/%d", s.ID, s.Kind, s.Alive, len(s.Open), s.Committables)
		switch {
		case s.Damage != "":
			line += " damaged: " + s.Refused
		case s.Next:
			line += " next"
		case s.Refused != "":
			line += " refused"
		default:
			line += " by " + strings.TrimSpace(s.Restore)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestTimeline(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	j.publish(2, nil, "2.0")
	j.publish(3, nil, "3.0")
	j.mustStart(StartOptions{RestorePath: "memory:/job/chk-2", Rewind: true})
	j.publish(4, []int64{1}, "4.0", "4.1")
	j.publish(5, nil, "4.1", "5.0")
	if err := putNothing(t, j.blobs, "job/chk-6/part"); err != nil {
		t.Fatal(err)
	}
	s := &start{StartOptions: StartOptions{Job: "job", Blobs: j.blobs, Host: "host-9", PID: 5, Now: func() int64 { return 1000 }}, ledger: newLedger(j.blobs, "job")}
	if err := s.begin(t.Context()); err != nil { // and dies
		t.Fatal(err)
	}

	got := j.look(false)
	wantStrings(t, "snapshots", verdicts(got),
		"1 checkpoint alive=true open=0/1 refused", // its deletion has begun
		"2 checkpoint alive=true open=0/1 by -s memory:/job/chk-2 --rewind=2",
		"3 checkpoint alive=false open=1/1 refused",
		"4 checkpoint alive=true open=1/2 by -s memory:/job/chk-4 --rewind",
		"5 checkpoint alive=true open=2/2 next")
	if got.Next.Does != GoesOn || got.Next.From == nil || got.Next.From.ID != 5 {
		t.Errorf("next start %+v", got.Next)
	}
	three := got.Snapshots[2]
	if want := "attempt 2 began from job/chk-2 (id 2, attempt 1), before it"; three.Void != want {
		t.Errorf("void because %q, want %q", three.Void, want)
	}
	if !strings.Contains(three.Refused, "is void") || !strings.Contains(got.Snapshots[0].Refused, "is being deleted by the completion of job/chk-4") {
		t.Errorf("refusals %q, %q", three.Refused, got.Snapshots[0].Refused)
	}
	if cost := got.Snapshots[3].Cost; !strings.Contains(cost, "lies behind job/chk-5") {
		t.Errorf("cost %q", cost)
	}
	if !slices.Equal(got.ExactlyOnceSinks, []string{"rows"}) || len(got.Unfinished) != 1 || got.Unfinished[0].Path != "job/chk-6" {
		t.Errorf("sinks %v, unfinished %v", got.ExactlyOnceSinks, got.Unfinished)
	}
	a := got.Attempts
	if len(a) != 3 || a[0].From != nil || !a[0].Chose || a[1].From.ID != 2 || a[1].Asked != "-s memory:/job/chk-2 --rewind" || a[2].Chose || a[2].Host != "host-9" || a[2].Claimed.UnixMilli() != 1000 {
		t.Errorf("attempts %+v", a)
	}
	wantStrings(t, "ends", []string{a[0].End, a[1].End, a[2].End},
		"failed, and was restarted in the process as attempt 2", "ended without a word before attempt 3", "has chosen nothing yet, was refused, or died before")
}

func putNothing(t *testing.T, blobs storage.Blobs, name string) error {
	return blobs.PutIfAbsent(t.Context(), name, nil)
}

// What a look says of each way to start is what a start then does.
func TestTimelineKeepsItsWord(t *testing.T) {
	for name, set := range map[string]func(j *lossJob){
		"plain": func(j *lossJob) { j.publish(1, nil, "1.0"); j.publish(2, nil, "2.0") },
		"void": func(j *lossJob) {
			j.publish(1, nil)
			j.publish(2, nil, "2.0")
			j.mustStart(StartOptions{RestorePath: "memory:/job/chk-1", Rewind: true})
		},
		"fresh": func(j *lossJob) { j.publish(1, nil); j.mustStart(StartOptions{Fresh: true}); j.publish(2, nil, "2.0") },
		"damaged": func(j *lossJob) {
			j.publish(1, nil, "1.0")
			j.publish(2, nil, "2.0")
			rewriteBlob(j.T, j.blobs, "job/chk-2/_metadata", flipLastBit)
		},
		"deleting":  func(j *lossJob) { j.publish(1, nil); j.publish(2, []int64{1}, "2.0") },
		"no ledger": func(j *lossJob) { j.publish(1, nil, "1.0"); deleteLedger(j.T, j.blobs) },
	} {
		t.Run(name, func(t *testing.T) {
			j := newLossJob(t)
			set(j)
			look := j.look(true)
			try := func(o StartOptions) (*Attempt, error) {
				c := &lossJob{T: t, blobs: mem.New()}
				for name, data := range contents(t, j.blobs) {
					if err := c.blobs.PutIfAbsent(t.Context(), name, []byte(data)); err != nil {
						t.Fatal(err)
					}
				}
				err := c.start(o)
				return c.a, err
			}
			a, err := try(StartOptions{})
			switch look.Next.Does {
			case GoesOn:
				if err != nil || a.Restored.ID != look.Next.From.ID {
					t.Errorf("start: %+v, %v; the look said %+v", a, err, look.Next)
				}
			case IsRefused:
				if err == nil || !strings.Contains(err.Error(), look.Next.Why) {
					t.Errorf("start: %v; the look said %q", err, look.Next.Why)
				}
			default:
				t.Errorf("the next start %s", look.Next.Does)
			}
			for _, s := range look.Snapshots {
				req, rewind := strings.CutSuffix(s.Restore, " --rewind")
				p := strings.TrimPrefix(req, "-s ")
				if s.Restore == "" {
					p, rewind = "memory:/"+s.Path, true
				}
				a, err := try(StartOptions{RestorePath: p, Rewind: rewind})
				switch {
				case s.Restore != "" && (err != nil || a.Restored.ID != s.ID):
					t.Errorf("snapshot %d by %s: %v", s.ID, s.Restore, err)
				case s.Refused != "" && err == nil:
					t.Errorf("snapshot %d: %s, but a start takes it", s.ID, s.Refused)
				}
			}
		})
	}
}

func TestTimelineOfDamage(t *testing.T) {
	blobs := twoCheckpoints(t)
	rewriteBlob(t, blobs, "job/chk-2/count-0-a1", flipLastBit)
	look := func(verify bool) *Timeline {
		got, err := Look(t.Context(), LookOptions{Job: "job", Blobs: blobs, Verify: verify})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := look(false); got.Snapshots[1].Damage != "" || got.Next.From.ID != 2 {
		t.Errorf("a flipped bit was found without looking for it: %+v", got.Snapshots[1])
	}
	got := look(true)
	if s := got.Snapshots[1]; !strings.Contains(s.Damage, "job/chk-2/count-0-a1") || s.Restore != "" || s.Next {
		t.Errorf("damaged: %+v", s)
	}
	if got.Next.Does != GoesOn || got.Next.From.ID != 1 { // no exactly-once sinks
		t.Errorf("next start %+v", got.Next)
	}
	if err := blobs.Delete(t.Context(), "job/chk-2/count-0-a1"); err != nil {
		t.Fatal(err)
	}
	if got := look(false); !strings.Contains(got.Snapshots[1].Damage, "data file count-0-a1 is missing") {
		t.Errorf("incomplete: %+v", got.Snapshots[1])
	}
	rewriteBlob(t, blobs, "job/ledger/0000000002", func([]byte) []byte { return []byte("gone\n") })
	if got := look(false); got.Next.Does != IsRefused || !strings.Contains(got.Next.Why, "0000000002") || len(got.Attempts) != 1 || len(got.Snapshots) != 2 {
		t.Errorf("damaged ledger: %+v", got)
	}
}

func TestTimelineOfEnds(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	ref := &Ref{Lineage: j.a.Lineage, Attempt: 1, ID: 1, Path: snapshot.CheckpointDir("job", 1)}
	if err := j.a.record(t.Context(), StoppingRecord, ref, ""); err != nil {
		t.Fatal(err)
	}
	if got := j.look(false).Attempts[0]; !strings.HasPrefix(got.End, "was ending: its final snapshot job/chk-1") || got.Ended == nil {
		t.Errorf("stopping: %+v", got)
	}
	if err := j.a.record(t.Context(), StoppedRecord, ref, Finished); err != nil {
		t.Fatal(err)
	}
	got := j.look(false)
	if got.Attempts[0].End != "finished" || got.Next.Does != HasFinished || len(got.Snapshots[0].Open) != 0 {
		t.Errorf("finished: %+v, next %+v", got.Attempts[0], got.Next)
	}

	j = newLossJob(t)
	j.publish(1, nil, "1.0")
	j.mustStart(StartOptions{AcceptLoss: 1})
	if err := j.resolve(allLost("1.0")); err != nil {
		t.Fatal(err)
	}
	got = j.look(false)
	if len(got.Losses) != 1 || got.Losses[0].Snapshot.ID != 1 || got.Losses[0].Host != "host-7" || len(got.Losses[0].Losses) != 1 || len(got.Snapshots[0].Open) != 0 {
		t.Errorf("losses: %+v", got.Losses)
	}
}

// A look says that, and why, the last start was refused.
func TestTimelineOfRefusals(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil)
	j.publish(2, nil, "2.0")
	j.mustStart(StartOptions{AcceptLoss: 7})
	if err := j.resolve(allLost("2.0")); err == nil {
		t.Fatal("no refusal")
	}
	got := j.look(false)
	a := got.Attempts[1]
	if got.Next.Does != GoesOn || got.Next.Last != 2 || !strings.Contains(got.Next.Why, "1 lost") || a.End != "refused" || !strings.Contains(a.Refused, "1 lost") || a.Asked != "--accept-loss 7" {
		t.Errorf("after a loss: next %+v, attempt %+v", got.Next, a)
	}
	// A refusal of something else says nothing of the ordinary command, and both
	// stay known.
	wantRefusal(t, j.start(StartOptions{RestorePath: "memory:/job/chk-1"}), "lies behind")
	got = j.look(false)
	if a := got.Attempts[2]; got.Next.Does != GoesOn || got.Next.Last != 2 || !strings.HasPrefix(a.Refused, "job/chk-1 (id 1, attempt 1) lies behind") {
		t.Errorf("after -s: next %+v, attempt %+v", got.Next, a)
	}
	if a := got.Attempts[1]; a.End != "refused" || !strings.Contains(a.Refused, "1 lost") {
		t.Errorf("after -s: attempt %+v", a)
	}
	j.mustStart(StartOptions{AcceptLoss: 2})
	if err := j.resolve(allLost("2.0")); err != nil {
		t.Fatal(err)
	}
	if got := j.look(false); got.Next.Last != 0 || got.Attempts[3].Refused != "" {
		t.Errorf("after it was accepted: %+v", got.Next)
	}
}

func TestJobs(t *testing.T) {
	blobs := mem.New()
	for _, name := range []string{"one/ledger/0000000001", "two/chk-3/_metadata", "three/other/x", "savepoint-x/_metadata", "two/chk-4/x",
		"chk-5/ledger/0000000001", "ledger/chk-1/_metadata", "above/ledger/ledger", "above/chk-loader/x"} {
		if err := putNothing(t, blobs, name); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Jobs(t.Context(), blobs)
	if err != nil {
		t.Fatal(err)
	}
	wantStrings(t, "jobs", got, "chk-5", "ledger", "one", "two")
}

// deleting is the storage of a job that runs: as checkpoint 2 is looked at, in a
// way that on recognises, the job completes checkpoint 3 and deletes 2; from then
// on, with more, it does so each time with the next ones.
type deleting struct {
	storage.Blobs
	t    *testing.T
	on   func(call, name string) bool
	next int64
	more bool
}

func (d *deleting) met(call, name string) {
	dir := snapshot.CheckpointDir("job", d.next)
	if !strings.HasPrefix(name, dir+"/") || !d.on(call, name) || d.next > 2 && !d.more {
		return
	}
	d.next++
	l := newLedger(d.Blobs, "job")
	err := l.load(d.t.Context())
	m := &snapshot.Metadata{Job: "job", Lineage: l.history().lineage(), Attempt: 1, ID: d.next, Kind: snapshot.Checkpoint}
	f, failed := putFile(d.t.Context(), d.Blobs, snapshot.CheckpointDir("job", d.next), "count-0-a1")
	m.Files = []snapshot.File{f}
	err = errors.Join(err, failed, snapshot.Store(d.t.Context(), d.Blobs, snapshot.CheckpointDir("job", d.next), m), deleteDirectory(d.t.Context(), d.Blobs, dir))
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *deleting) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	d.met("get range", name)
	return d.Blobs.GetRange(ctx, name, off, n)
}

func (d *deleting) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	d.met("list", prefix)
	return d.Blobs.List(ctx, prefix, fn)
}

// A running job deletes what is being looked at: that is no damage.
func TestTimelineOfARunningJob(t *testing.T) {
	for _, call := range []string{"get range", "list"} {
		for _, verify := range []bool{true, false} {
			t.Run(fmt.Sprint(call, " verify=", verify), func(t *testing.T) {
				running := &deleting{Blobs: twoCheckpoints(t), t: t, next: 2, on: func(c, _ string) bool { return c == call }}
				if call == "get range" && !verify {
					running.met(call, "job/chk-2/") // none is read then
				}
				got, err := Look(t.Context(), LookOptions{Job: "job", Blobs: running, Verify: verify})
				if err != nil {
					t.Fatal(err)
				}
				wantStrings(t, "snapshots", verdicts(got),
					"1 checkpoint alive=true open=0/0 by -s memory:/job/chk-1",
					"3 checkpoint alive=true open=0/0 next")
				if got.Next.Does != GoesOn || got.Next.From.ID != 3 {
					t.Errorf("next start %+v", got.Next)
				}
			})
		}
	}
}

// One that does so at every look is no reason to call anything damaged.
func TestTimelineOfAJobThatIsFaster(t *testing.T) {
	running := &deleting{Blobs: twoCheckpoints(t), t: t, next: 2, more: true, on: func(c, _ string) bool { return c == "list" }}
	got, err := Look(t.Context(), LookOptions{Job: "job", Blobs: running})
	if err != nil {
		t.Fatal(err)
	}
	if running.next < looks {
		t.Fatalf("looked until %d", running.next)
	}
	if len(got.Snapshots) != 1 || got.Snapshots[0].Damage != "" || got.Snapshots[0].Next {
		t.Errorf("snapshots %+v", got.Snapshots)
	}
	if got.Next.Does != GoesOn || got.Next.From.ID != running.next {
		t.Errorf("next start %+v, newest is %d", got.Next, running.next)
	}
}
