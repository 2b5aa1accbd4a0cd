package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/internal/checkpoint"
)

const transactionsUsage = `Usage: weir kafka-transactions list|commit|abort [flags]

List the open transactions of exactly-once sinks, by lineage, with what each
waits for, or end them by hand: where a job is gone for good, or readers wait
behind a transaction that nobody ends. Ids are those of exactly-once sinks,
<prefix>.<lineage>.<attempt>.<sink>.<subtask>.<slot>; others are left alone.

With --checkpoint-dir it can be told which transactions a snapshot lists: those
are to be committed, the others aborted, as a start of the job does. The job
must not run then, and cannot be started meanwhile. commit and abort say what
they cost before they do anything.
`

// transactionFlags say which transactions, and what may be done.
type transactionFlags struct {
	servers, dir, job   string
	prefix, lineage, id string
	timeout             time.Duration
	all, yes            bool
	acceptLoss          bool
	acceptDuplicates    bool
	output              string
}

func (p *Program) transactions(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return misuse("kafka-transactions needs a command: list, commit or abort")
	}
	f := newFlags(transactionsUsage)
	t := transactionFlags{servers: "localhost:9092", timeout: 30 * time.Second}
	f.text(&t.servers, "bootstrap-servers", "HOST:PORT,…", "Brokers to start from. Default localhost:9092.")
	f.text(&t.dir, "checkpoint-dir", "DIR", "The checkpoint directory, or a job's directory in it.")
	f.text(&t.job, "job", "NAME", "Transactions of this job in the checkpoint directory only.")
	f.text(&t.prefix, "prefix", "P", "Transactions with this prefix (of kafka.ExactlyOnce) only.")
	f.text(&t.lineage, "lineage", "L", "Transactions of this lineage only.")
	f.text(&t.id, "id", "ID", "The transaction with this transactional id only.")
	f.DurationVar(&t.timeout, "timeout", t.timeout, "")
	f.rows = append(f.rows, "  --timeout D\n        How long to wait for all brokers to answer. Default 30s.\n")
	command, help := args[0], slices.Contains([]string{"-h", "-help", "--help"}, args[0])
	if help {
		args = []string{"", "--help"}
	} else if !slices.Contains([]string{"list", "commit", "abort"}, command) {
		return misuse("unknown command kafka-transactions %s; commands are list, commit and abort", command)
	}
	if help || command == "list" {
		f.boolean(&t.all, "all", "list: ended transactions that the brokers remember as well.")
	}
	if help || command != "list" {
		f.boolean(&t.yes, "yes", "commit, abort: do it without asking.")
		f.boolean(&t.acceptLoss, "accept-loss", "abort: also what a snapshot lists, or may list; its output is lost for good.")
		f.boolean(&t.acceptDuplicates, "accept-duplicates", "commit: also what no snapshot lists, or perhaps none; if the job is started again, its output is published twice.")
	}
	operands, proceed, err := f.parse(p.Stdout, args[1:])
	switch t.output = f.output; {
	case err != nil || !proceed:
		return err
	case len(operands) > 0:
		return misuse("unexpected argument %q", operands[0])
	case t.job != "" && t.dir == "":
		return misuse("--job needs --checkpoint-dir")
	case command == "list":
		return p.listTransactions(ctx, t)
	}
	return p.endTransactions(ctx, t, command == "commit")
}

// picture is what the brokers and the directory say.
type picture struct {
	// entries are what the flags select.
	entries []entry
	listed  []kafka.ListedTransaction
	lines   []*checkpoint.Timeline
}

// find looks at what the flags select; locked tells that the jobs are locked by
// this process.
func (t transactionFlags) find(ctx context.Context, tool *kafka.Transactions, dir *directory, locked bool) (*picture, error) {
	p := &picture{}
	known := newRegister(nil, nil, nil)
	if dir != nil {
		var err error
		if p.lines, err = dir.look(ctx, false); err != nil {
			return nil, err
		}
		claimants, err := dir.claimants(ctx)
		if err != nil {
			return nil, err
		}
		runs := map[string]bool{}
		if !locked {
			if runs, err = dir.running(withTwins(dir.jobs, claimants)); err != nil {
				return nil, err
			}
		}
		known = newRegister(p.lines, claimants, runs)
	}
	selected := func(id, prefix string, n twophase.Name) bool {
		return (t.id == "" || t.id == id) && (t.prefix == "" || t.prefix == prefix) && (t.lineage == "" || t.lineage == n.Lineage) &&
			(t.job == "" || known.jobs[n.Lineage] != nil || known.unclaimed[n.Lineage] != nil)
	}
	var err error
	p.listed, err = tool.List(ctx, t.all || dir != nil || t.id != "", func(prefix string, n twophase.Name) bool { return selected(t.id, prefix, n) })
	if err != nil {
		return nil, err
	}
	for _, l := range p.listed {
		if selected(l.ID, l.Prefix, l.Name) && (l.Open() || t.all || t.id != "") {
			p.entries = append(p.entries, known.entryOf(l))
		}
	}
	for _, e := range known.ended(p.listed) {
		if selected(e.ID, e.Prefix, e.Name) {
			p.entries = slices.DeleteFunc(p.entries, func(o entry) bool { return o.ID == e.ID && !o.Open() })
			p.entries = append(p.entries, e)
		}
	}
	if t.id != "" && len(p.entries) == 0 {
		return nil, fmt.Errorf("the brokers at %s know no transaction of an exactly-once sink with id %q", t.servers, t.id)
	}
	sortEntries(p.entries)
	return p, nil
}

func (t transactionFlags) open(ctx context.Context) (*kafka.Transactions, *directory, error) {
	var dir *directory
	if t.dir != "" {
		var err error
		if dir, err = openDirectory(ctx, t.dir, t.job); err != nil {
			return nil, nil, err
		}
	}
	return kafka.NewTransactions(kafka.Brokers(strings.Split(t.servers, ",")...), kafka.StartTimeout(t.timeout)), dir, nil
}

func (p *Program) listTransactions(ctx context.Context, t transactionFlags) error {
	tool, dir, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer tool.Close()
	found, err := t.find(ctx, tool, dir, false)
	if err != nil {
		return err
	}
	if t.output == "json" {
		return p.writeEntries(found.entries)
	}
	p.writeTransactions(found.entries)
	return nil
}

// endTransactions commits or aborts what the flags select: all or nothing is
// refused, and each is then tried.
func (p *Program) endTransactions(ctx context.Context, t transactionFlags, commit bool) error {
	if t.id == "" && t.lineage == "" && t.prefix == "" && t.job == "" {
		return misuse("say which transactions: --id, --lineage, --prefix or --job")
	}
	if !t.yes && (!p.Interactive || t.output == "json") {
		return misuse("there is nobody to ask: add --yes once \"list\" shows what you mean")
	}
	tool, dir, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer tool.Close()
	found, err := t.find(ctx, tool, dir, false)
	if err != nil {
		return err
	}
	if dir != nil {
		if t.job == "" {
			dir.jobs = jobsOf(found.entries)
		}
		unlock, err := dir.lock(lockedFor(dir.jobs, found.entries))
		if err != nil {
			return err
		}
		defer unlock()
		// Only what is seen under the lock counts.
		if found, err = t.find(ctx, tool, dir, true); err != nil {
			return err
		}
	}
	todo := slices.DeleteFunc(slices.Clone(found.entries), func(e entry) bool { return !e.endable(commit) })
	if len(todo) == 0 {
		fmt.Fprintln(p.Stderr, "No transaction of that kind is open.")
		err = p.results(t, nil)
	} else {
		err = p.endThose(ctx, t, tool, todo, commit)
	}
	if commit && dir != nil && !errors.Is(err, errNothingDone) {
		err = errors.Join(err, p.mark(ctx, dir, found, todo))
	}
	return err
}

// errNothingDone says that the command was refused, or not confirmed.
var errNothingDone = errors.New("nothing was done")

func (p *Program) endThose(ctx context.Context, t transactionFlags, tool *kafka.Transactions, todo []entry, commit bool) error {
	p.writePlan(todo, commit)
	if missing := t.missing(todo, commit); missing != "" {
		return fmt.Errorf("refused, and %w: add %s to accept that, or choose others", errNothingDone, missing)
	}
	if !t.yes && !p.confirmed(ctx, len(todo), commit) {
		return errNothingDone
	}
	return p.end(ctx, t, tool, todo, commit)
}

// endable reports whether there is something to do: it is open or, for a
// commit, a snapshot needs it and it is not seen to be committed. Then the
// brokers are asked, and what is lost is reported.
func (e entry) endable(commit bool) bool {
	return e.State == "Ongoing" || commit && e.standing == needed && e.outcome != "committed"
}

// mark marks the snapshots whose transactions are all seen to be committed: a
// start may then begin from them even where nothing else proves that.
func (p *Program) mark(ctx context.Context, dir *directory, found *picture, ended []entry) error {
	committed := map[identity]bool{}
	for _, e := range ended {
		if e.result == "committed" && e.saved != nil {
			committed[identityOf(*e.saved)] = true
		}
	}
	state := map[string]kafka.ListedTransaction{}
	for _, l := range found.listed {
		state[l.ID] = l
	}
	unproven := func(o checkpoint.OpenCommittable) bool {
		txn, ours, err := transactionOf(o)
		return err != nil || !ours || !committed[identityOf(txn)] && state[txn.ID].Outcome(txn) != "committed"
	}
	for _, t := range found.lines {
		for _, s := range t.Snapshots {
			if !slices.Contains(dir.jobs, t.Job) || s.External || len(s.Open) == 0 || slices.ContainsFunc(s.Open, unproven) {
				continue
			}
			if err := checkpoint.MarkCommitted(ctx, dir.blobs, s.Ref, p.Now()); err != nil {
				return fmt.Errorf("mark snapshot %s as committed: %w", s.Path, err)
			}
			fmt.Fprintf(p.Stderr, "All that snapshot %s lists is committed: marked so.\n", s.Path)
		}
	}
	return nil
}

func jobsOf(all []entry) (jobs []string) {
	for _, e := range all {
		if e.job != "" && !slices.Contains(jobs, e.job) {
			jobs = append(jobs, e.job)
		}
	}
	return jobs
}

// lockedFor are the jobs to lock: those, and whatever else claims a lineage of
// the entries.
func lockedFor(jobs []string, all []entry) []string {
	jobs = slices.Clone(jobs)
	for _, e := range all {
		jobs = append(jobs, e.claimants...)
	}
	slices.Sort(jobs)
	return slices.Compact(jobs)
}

// withTwins adds to jobs those that share a lineage with another.
func withTwins(jobs []string, claimants map[string][]string) []string {
	jobs = slices.Clone(jobs)
	for _, twins := range claimants {
		if len(twins) > 1 {
			jobs = append(jobs, twins...)
		}
	}
	return jobs
}

// missing is the flag that the action lacks.
func (t transactionFlags) missing(all []entry, commit bool) string {
	for _, e := range all {
		if need := e.need(commit); need == "--accept-loss" && !t.acceptLoss || need == "--accept-duplicates" && !t.acceptDuplicates {
			return need
		}
	}
	return ""
}

// confirmed asks. A signal is a no; what still reads then ends with the process.
func (p *Program) confirmed(ctx context.Context, n int, commit bool) bool {
	fmt.Fprintf(p.Stderr, "%s %s? [y/N] ", verb(commit), plural(n))
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(p.Stdin).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case answer := <-answers:
		return answer == "y" || answer == "yes"
	case <-ctx.Done():
		fmt.Fprintln(p.Stderr)
		return false
	}
}

func verb(commit bool) string {
	if commit {
		return "Commit"
	}
	return "Abort"
}

func plural(n int) string {
	if n == 1 {
		return "1 transaction"
	}
	return fmt.Sprintf("%d transactions", n)
}

// end ends the transactions by the identity saved in a snapshot, or else by
// that listed.
func (p *Program) end(ctx context.Context, t transactionFlags, tool *kafka.Transactions, all []entry, commit bool) error {
	var errs []error
	act, done := tool.Abort, "aborted"
	if commit {
		act, done = tool.Commit, "committed"
	}
	for i := range all {
		e := &all[i]
		txn := e.Transaction
		if e.saved != nil {
			txn = *e.saved
		}
		e.result = done
		if err := act(ctx, txn); err != nil {
			errs = append(errs, err)
			e.result = "failed: " + err.Error()
		}
		if t.output == "text" {
			fmt.Fprintf(p.Stdout, "%s: %s\n", e.ID, e.result)
		}
	}
	return errors.Join(p.results(t, all), errors.Join(errs...))
}

func (p *Program) results(t transactionFlags, all []entry) error {
	if t.output != "json" {
		return nil
	}
	return p.writeEntries(all)
}
