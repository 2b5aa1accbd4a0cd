package stage

import "testing"

// A snapshot taken before the input has ended anew says still that it had, until
// something comes.
func TestAnEndIsRememberedUntilInputComes(t *testing.T) {
	for name, c := range map[string]struct {
		restore *Restore
		done    bool
		in, out int64
		want    bool
	}{
		"fresh":                {nil, false, 0, 0, false},
		"ended":                {nil, true, 3, 3, true},
		"restored":             {&Restore{}, false, 0, 0, false},
		"restored, over":       {&Restore{Ended: true}, false, 0, 0, true},
		"records in since":     {&Restore{Ended: true}, false, 1, 0, false},
		"records out since":    {&Restore{Ended: true}, false, 0, 1, false},
		"records, ended again": {&Restore{Ended: true}, true, 1, 1, true},
	} {
		op := &ticking{snapshot: func() (Part, error) { return Part{}, nil }}
		task, _ := tickingTask(nil, op)
		ctx := task.Contexts[0]
		ctx.Restore, task.done = c.restore, c.done
		ctx.Metrics.RecordsIn.Store(c.in)
		ctx.Metrics.RecordsOut.Store(c.out)
		parts, err := task.freeze(&Barrier{ID: 1})
		if err != nil || parts[0].Ended != c.want {
			t.Errorf("%s: ended is %v, want %v (%v)", name, parts[0].Ended, c.want, err)
		}
		if over := ctx.Over(); over != (c.want && !c.done) {
			t.Errorf("%s: over is %v", name, over)
		}
	}
}
