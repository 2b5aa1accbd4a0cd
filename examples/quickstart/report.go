package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"
)

// report is the outcome of a run. Its JSON form is what --json writes.
type report struct {
	*verdict
	Restarts    int     `json:"restarts"`
	Kills       int     `json:"kills"`
	Checkpoints int     `json:"checkpoints"`
	Seconds     float64 `json:"seconds"`

	history  history
	produced int
}

func newReport(v *verdict, h history, produced int, took time.Duration) *report {
	return &report{
		verdict: v, history: h, produced: produced,
		Restarts: h.restarts(), Kills: h.kills, Checkpoints: h.checkpoints,
		Seconds: math.Round(took.Seconds()*10) / 10,
	}
}

// replayed is how many records were read more than once. What a killed process
// had read since it last told is not in it.
func (r *report) replayed() int { return max(0, int(r.history.records())-r.produced) }

func (r *report) write(w io.Writer, asJSON bool) error {
	if err := r.writeTable(w); err != nil || !asJSON {
		return err
	}
	return json.NewEncoder(w).Encode(r)
}

func (r *report) writeTable(w io.Writer) error {
	for _, e := range r.examples {
		fmt.Fprintln(w, "  "+e)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, n int, note string) {
		fmt.Fprintf(t, "  %s\t%9s\t%s\n", name, thousands(n), note)
	}
	fmt.Fprintln(t)
	row("errors in an operator", r.history.failures, "recovered from inside the process")
	row("kills", r.Kills, "SIGKILL, and the same command again")
	row("restarts", r.Restarts, "")
	row("checkpoints", r.Checkpoints, "completed")
	row("records replayed", r.replayed(), "at least: read again after a restart")
	fmt.Fprintln(t)
	row("expected", r.Expected, "results of a page and a window, and late records")
	row("got", r.Got, fmt.Sprintf("%s of them late records", thousands(r.Late)))
	row("lost", r.Lost, "")
	row("duplicated", r.Duplicated, "")
	row("wrong", r.Wrong, "count not exact, a percentile off by more than 1 %, or not expected at all")
	fmt.Fprintln(t)
	word := "EXACT"
	if !r.exact() {
		word = "NOT EXACT"
	}
	fmt.Fprintf(t, "  %s, in %.1f s\n", word, r.Seconds)
	return t.Flush()
}

// newSay returns a function that writes a line of progress, with the seconds
// since the start in front. It may be called by several goroutines.
func newSay(w io.Writer, began time.Time) func(string, ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// thousands is n with commas: 1,234,567.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
