package checkpoint

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/connector"
)

// However many other starts are refused, the loss is told.
func TestLossIsToldAfterManyRefusals(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	j.mustStart(StartOptions{})
	wantLossError(t, j.resolve(allLost("1.0")), nil)
	for range refusalsKept + 3 {
		wantRefusal(t, j.start(StartOptions{Fresh: true}), "--fresh would drop")
	}
	got := j.look(false)
	if got.Next.Last != 2 || !strings.Contains(got.Next.Why, "1 lost") {
		t.Errorf("next start: %+v", got.Next)
	}
	if n, err := readRefusals(t.Context(), j.blobs, "job"); err != nil || len(n) != refusalsKept+1 {
		t.Errorf("%d refusals are kept, %v", len(n), err)
	}
}

// What was unknown may have become known to an attempt that began since.
func TestUnknownOutcomeMayPass(t *testing.T) {
	for outcome, last := range map[error]int64{connector.ErrTransactionUnknown: 0, errExpired: 2} {
		j := newLossJob(t)
		j.publish(1, nil, "1.0")
		j.mustStart(StartOptions{})
		c := &lossyCommitter{fate: map[string]error{"1.0": outcome}}
		wantLossError(t, j.resolve(c), nil)
		if got := j.look(false).Next.Last; got != 2 {
			t.Errorf("%v: attempt %d was refused, not 2", outcome, got)
		}
		j.mustStart(StartOptions{})
		if got := j.look(false).Next.Last; got != last {
			t.Errorf("%v: after another start attempt %d was refused, not %d", outcome, got, last)
		}
	}
}

// A refusal noted under another ledger says nothing of this one's attempts.
func TestRefusalsOfALostLedger(t *testing.T) {
	for name, edit := range map[string]func(j *lossJob){
		"version 2": func(*lossJob) {},
		"version 1": func(j *lossJob) {
			err := j.blobs.Put(t.Context(), "job/"+refusedName, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, `{"version": 1, "attempt": 2, "time": 5, "why": "long ago"}`)
				return err
			})
			if err != nil {
				j.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newLossJob(t)
			j.publish(1, nil, "1.0")
			j.mustStart(StartOptions{})
			wantLossError(t, j.resolve(allLost("1.0")), nil)
			edit(j)
			j.emptyDirectory("job/ledger")
			j.mustStart(StartOptions{Fresh: true})
			j.publish(2, nil)
			j.mustStart(StartOptions{})
			j.publish(3, nil)
			for _, a := range j.look(false).Attempts {
				if a.Refused != "" || a.End == "refused" {
					t.Errorf("attempt %d: end %q, refused %q", a.Attempt, a.End, a.Refused)
				}
			}
		})
	}
}

// The only refusal that earlier versions noted is told.
func TestRefusalOfVersion1(t *testing.T) {
	got := parseRefusals([]byte(`{"version": 1, "attempt": 2, "time": 5, "why": "x", "losses": {"lineage": "L", "attempt": 1, "id": 3, "path": "job/chk-3"}}`))
	if len(got) != 1 || got[0].Attempt != 2 || got[0].Why != "x" || got[0].Losses == nil || got[0].Losses.ID != 3 {
		t.Errorf("%+v", got)
	}
	line := Timeline{Attempts: []TimelineAttempt{{Attempt: 1}, {Attempt: 2, Lineage: "L", Claimed: timeOf(4)}}}
	line.addRefusals(got)
	if line.Attempts[1].Refused != "x" || line.Attempts[0].Refused != "" {
		t.Errorf("%+v", line.Attempts)
	}
}

// FuzzRefusals: whatever is read is written back as it was, but for its age.
func FuzzRefusals(f *testing.F) {
	f.Add([]byte(`{"version": 1, "attempt": 2, "time": 5, "why": "x"}`))
	f.Add(encodeRefusals([]refusedStart{{Attempt: 1, Lineage: "L", Why: "y", Losses: &Ref{ID: 3}, Unknown: true}}))
	f.Add([]byte(`{"version": 2, "refusals": null}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all := parseRefusals(data)
		again := parseRefusals(encodeRefusals(all))
		if len(all) > refusalsKept {
			all, again = all[len(all)-refusalsKept:], again[max(0, len(again)-refusalsKept):]
		}
		same := func(a, b refusedStart) bool {
			return a.Attempt == b.Attempt && a.Time == b.Time && a.Unknown == b.Unknown && (a.Losses == nil) == (b.Losses == nil)
		}
		if !slices.EqualFunc(all, again, same) {
			t.Errorf("%+v, then %+v", all, again)
		}
		(&Timeline{Attempts: []TimelineAttempt{{Attempt: 1}}, Next: NextStart{From: &Ref{ID: 3}}}).addRefusals(all)
	})
}
