package command

import (
	"fmt"
	"strings"
	"time"
)

// jsonEntry is a transaction for programs.
type jsonEntry struct {
	ID             string     `json:"id"`
	Prefix         string     `json:"prefix"`
	Lineage        string     `json:"lineage"`
	Attempt        int64      `json:"attempt"`
	Operator       string     `json:"operator"`
	Subtask        int        `json:"subtask"`
	Slot           int        `json:"slot"`
	ProducerID     int64      `json:"producer_id"`
	Epoch          int16      `json:"epoch"`
	State          string     `json:"state"`
	Opened         *time.Time `json:"opened"`
	TimeoutSeconds float64    `json:"timeout_seconds"`
	Partitions     []string   `json:"partitions"`
	// Standing is needed, leftover or unclear.
	Standing standing `json:"standing"`
	Outcome  string   `json:"outcome"`
	Job      string   `json:"job,omitempty"`
	// JobRuns: the job has its directory locked now.
	JobRuns  bool   `json:"job_runs"`
	Snapshot string `json:"snapshot,omitempty"`
	Why      string `json:"why,omitempty"`
	Result   string `json:"result,omitempty"`
}

func (p *Program) writeEntries(all []entry) error {
	out := make([]jsonEntry, 0, len(all))
	for _, e := range all {
		j := jsonEntry{
			ID: e.ID, Prefix: e.Prefix, Lineage: e.Name.Lineage, Attempt: e.Name.Attempt, Operator: e.Name.Operator, Subtask: e.Name.Subtask, Slot: e.Name.Slot,
			ProducerID: e.ProducerID, Epoch: e.Epoch, State: e.State, TimeoutSeconds: e.Timeout.Seconds(), Partitions: append([]string{}, e.Partitions...),
			Standing: e.standing, Outcome: e.outcome, Job: e.job, JobRuns: e.runs, Why: e.why, Result: e.result,
		}
		if !e.Opened.IsZero() {
			opened := e.Opened.UTC()
			j.Opened = &opened
		}
		if e.snapshot != nil {
			j.Snapshot = e.snapshot.Path
		}
		out = append(out, j)
	}
	return p.writeJSON(struct {
		Transactions []jsonEntry `json:"transactions"`
	}{out})
}

// writeTransactions lists them by lineage.
func (p *Program) writeTransactions(all []entry) {
	if len(all) == 0 {
		fmt.Fprintln(p.Stdout, "No transaction of an exactly-once sink is open.")
		return
	}
	for i := 0; i < len(all); {
		lineage, job := all[i].Name.Lineage, all[i].job
		if i > 0 {
			fmt.Fprintln(p.Stdout)
		}
		fmt.Fprintf(p.Stdout, "Lineage %s", lineage)
		if job != "" {
			fmt.Fprintf(p.Stdout, ", job %s", job)
			if all[i].runs {
				fmt.Fprint(p.Stdout, ", which runs now")
			}
		}
		fmt.Fprintln(p.Stdout)
		t := table{head: []string{"id", "state", "attempt", "sink", "subtask", "age", "times out in"}}
		for ; i < len(all) && all[i].Name.Lineage == lineage; i++ {
			e := all[i]
			age, left := p.ages(e)
			t.add(e.notes(), e.ID, e.State, fmt.Sprint(e.Name.Attempt), e.Name.Operator, fmt.Sprint(e.Name.Subtask), age, left)
		}
		t.write(p.Stdout)
	}
}

func (e entry) notes() []string {
	notes := []string{e.waitsFor()}
	if len(e.Partitions) > 0 {
		notes = append(notes, "holds back readers of "+strings.Join(e.Partitions, ", "))
	}
	return notes
}

// ages are the age of a transaction, and the time until the brokers abort it.
func (p *Program) ages(e entry) (age, left string) {
	if e.Opened.IsZero() || !e.Open() {
		return "-", "-"
	}
	a := p.Now().Sub(e.Opened)
	rest := e.Timeout - a
	if rest <= 0 {
		return a.Round(time.Second).String(), "any moment"
	}
	return a.Round(time.Second).String(), rest.Round(time.Second).String()
}

// writePlan says what will be done and what it costs, before it is done.
func (p *Program) writePlan(all []entry, commit bool) {
	fmt.Fprintf(p.Stderr, "%s %s:\n", verb(commit), plural(len(all)))
	for _, e := range all {
		age, left := p.ages(e)
		fmt.Fprintf(p.Stderr, "  %s\n      attempt %d of lineage %s, sink %s, subtask %d; age %s, times out in %s; holds back readers of %s\n      %s\n",
			e.ID, e.Name.Attempt, e.Name.Lineage, e.Name.Operator, e.Name.Subtask, age, left, orDash(strings.Join(e.Partitions, ", ")), e.cost(commit))
	}
}
