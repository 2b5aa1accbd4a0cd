package runner

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/internal/config"
)

// invocation is a command with its flags.
type invocation struct {
	command string
	flags   *flag.FlagSet
	own     *flag.FlagSet

	entries       []config.Entry
	configFile    string
	rewind, fresh times
	standby       bool
	acceptLoss    int64
	output        string
	quiet         bool
}

// newInvocation declares the flags of a command, those of the job included.
func newInvocation(command string, own []func(*flag.FlagSet)) (*invocation, error) {
	inv := &invocation{command: command, flags: flag.NewFlagSet(command, flag.ContinueOnError), own: flag.NewFlagSet(command, flag.ContinueOnError)}
	inv.output = "text"
	inv.flags.SetOutput(io.Discard)
	for _, r := range inv.rows() {
		for _, name := range []string{r.long, r.short} {
			if name != "" {
				r.declare(name)
			}
		}
	}
	for _, define := range own {
		define(inv.own)
	}
	var errs []error
	inv.own.VisitAll(func(f *flag.Flag) {
		if inv.flags.Lookup(f.Name) != nil {
			errs = append(errs, fmt.Errorf("the job's flag --%s has the name of a flag of %s; rename it", f.Name, command))
			return
		}
		inv.flags.Var(f.Value, f.Name, f.Usage)
	})
	return inv, errors.Join(errs...)
}

// row is a flag as help shows it.
type row struct {
	long, short, arg, help string
	declare                func(name string)
}

func (inv *invocation) rows() []row {
	var rows []row
	for _, o := range config.Options() {
		if o.Flag == "" {
			continue
		}
		help := o.Help
		if o.Default != "" {
			help += " Default " + o.Default + "."
		} else {
			help += " Default: " + o.DefaultText + "."
		}
		rows = append(rows, row{o.Flag, o.Short, o.Arg, help, func(name string) {
			set := func(text string) error {
				inv.entries = append(inv.entries, config.Entry{Key: o.Key, Text: text, Where: dashes(name)})
				return nil
			}
			if o.Arg == "" {
				inv.flags.BoolFunc(name, "", set) // text is true where none is given
				return
			}
			inv.flags.Func(name, "", set)
		}})
	}
	text := func(target *string) func(string) {
		return func(n string) { inv.flags.StringVar(target, n, *target, "") }
	}
	boolean := func(target *bool) func(string) { return func(n string) { inv.flags.BoolVar(target, n, false, "") } }
	rows = append(rows,
		row{"config", "", "FILE", "Read options from this YAML file.", text(&inv.configFile)},
		row{"", "D", "KEY=VALUE", "Set any option by its key. May be given several times; \"help options\" lists the keys.", func(n string) { inv.flags.Func(n, "", inv.setKey) }})
	if inv.command == "graph" {
		return append(rows, row{"output", "", "FORM", "Form of the graph: text, json or mermaid. Default text.", text(&inv.output)})
	}
	if inv.command == "check" {
		return append(rows, row{"output", "", "FORM", "Form of the answer: text or json. Default text.", text(&inv.output)})
	}
	return append(rows,
		row{"rewind", "", "", "Let --restore go back behind output that is committed already. It is written a second time. The job goes to a place once, so that a supervisor can repeat the flags; --rewind=2 goes there a second time.", inv.times(&inv.rewind)},
		row{"fresh", "", "", "Begin anew, without the state of earlier runs. Once, too, as long as the job has not finished; --fresh=2 begins a second time.", inv.times(&inv.fresh)},
		row{"standby", "", "", "If another process runs the job, wait until it has ended, however it did, and go on then. It needs a --checkpoint-dir that both share, with locks.", boolean(&inv.standby)},
		row{"accept-loss", "", "ID", "Go on from the snapshot with this id although transactions that it holds are lost, or their outcome is unknown. Their output is missing for good. Counts for that snapshot only; a start that needs it names the id.",
			func(n string) { inv.flags.Func(n, "", inv.setAcceptLoss) }},
		row{"output", "", "FORM", "Form of the progress: text, or json for one object a line on standard output. Default text.", text(&inv.output)},
		row{"quiet", "q", "", "Show no progress, and log warnings and errors only.", boolean(&inv.quiet)})
}

// times is a flag that may say which time it is meant: 1 without a number, 0
// if it is not given.
type times int

func (t *times) String() string { return strconv.Itoa(int(*t)) }

// IsBoolFlag lets it stand without a value.
func (t *times) IsBoolFlag() bool { return true }

func (t *times) Set(text string) error {
	if on, err := strconv.ParseBool(text); err == nil && text != "1" && text != "0" {
		*t = 0
		if on {
			*t = 1
		}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("allowed is a number from 1, for the first, second, third time")
	}
	*t = times(n)
	return nil
}

func (inv *invocation) times(target *times) func(string) {
	return func(name string) { inv.flags.Var(target, name, "") }
}

func (inv *invocation) setKey(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is not of the form KEY=VALUE", text)
	}
	inv.entries = append(inv.entries, config.Entry{Key: strings.TrimSpace(key), Text: value, Where: "-D"})
	return nil
}

func (inv *invocation) setAcceptLoss(text string) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return fmt.Errorf("%q is not the id of a snapshot; a start that needs the flag names it", text)
	}
	inv.acceptLoss = id
	return nil
}

func (inv *invocation) parse(args []string) error {
	if err := inv.flags.Parse(splitD(args)); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errors.New(strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag -", 1))
	}
	if inv.flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; flags that follow it were not read", inv.flags.Arg(0))
	}
	allowed := []string{"text", "json"}
	if inv.command == "graph" {
		allowed = append(allowed, "mermaid")
	}
	if !slices.Contains(allowed, inv.output) {
		return fmt.Errorf("--output %q: allowed is one of %s", inv.output, strings.Join(allowed, ", "))
	}
	return nil
}

// splitD turns -Dkey.name=value, as Flink's command line writes it, into two
// arguments.
func splitD(args []string) []string {
	var out []string
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		key, _, ok := strings.Cut(a, "=")
		if ok && strings.HasPrefix(a, "-D") && strings.Contains(key, ".") {
			out = append(out, "-D", a[2:])
			continue
		}
		out = append(out, a)
	}
	return out
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func writeHelp(w io.Writer, name string) {
	fmt.Fprintf(w, `%[1]s is a stream processing job.

Usage:
  %[1]s run [flags]      run the job until its input ends or it is stopped
  %[1]s graph [flags]    show the plan and every option with its value and origin
  %[1]s check -s PATH    tell whether the job restores a snapshot, and change nothing
  %[1]s help [topic]     help on run, graph, check or options

A signal (Ctrl-C, SIGTERM) stops the job with a final snapshot; the same
command goes on from there. A second signal ends it at once, which is safe, too.
Exit codes: 0 finished or stopped, 1 failed, 2 wrong usage, 130 second signal.
`, name)
}

func (inv *invocation) writeHelp(w io.Writer, name string) {
	what := "run the job until its input ends or it is stopped"
	switch inv.command {
	case "graph":
		what = "show the plan and every option with its value and origin"
	case "check":
		what = "tell whether the job restores the snapshot of -s with these flags, with all reasons if it does not; nothing is opened, claimed or written. Exit code 1 if it does not"
	}
	fmt.Fprintf(w, "Usage: %s %s [flags]\n\n%s\nFlags:\n", name, inv.command, wrap(strings.ToUpper(what[:1])+what[1:]+".", ""))
	for _, r := range inv.rows() {
		left := "    "
		if r.short != "" {
			left = "-" + r.short
			if r.long != "" {
				left += ", "
			}
		}
		if r.long != "" {
			left += "--" + r.long
		}
		fmt.Fprintf(w, "  %s\n%s", strings.TrimRight(left+" "+r.arg, " "), wrap(r.help, "        "))
	}
	first := true
	inv.own.VisitAll(func(f *flag.Flag) {
		if first {
			fmt.Fprintf(w, "\nFlags of this job:\n")
			first = false
		}
		arg, usage := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  %s\n%s", strings.TrimRight("    "+dashes(f.Name)+" "+arg, " "), wrap(usage, "        "))
	})
}

// wrap breaks text into lines of at most 80 columns, each indented.
func wrap(text, indent string) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line) > len(indent) && len(line)+1+len(word) > 80 {
			b.WriteString(line + "\n")
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += word
	}
	if line != indent {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// writeOptions lists all options by key.
func writeOptions(w io.Writer) {
	fmt.Fprint(w, `Options, in the order in which a later place wins: default, file (--config),
environment (WEIR_ and the key in capitals, dots and hyphens as underscores),
code, flags (-D KEY=VALUE, or the flag named).

`)
	for _, o := range config.Options() {
		def := "default " + o.Default
		if o.Default == "" {
			def = "default: " + o.DefaultText
		}
		places := config.Env(o.Key)
		if o.Flag != "" {
			places = dashes(o.Flag) + ", " + places
		}
		fmt.Fprintf(w, "%s (%s, %s)\n%s%s", o.Key, o.Kind.Name, def, wrap(o.Help, "    "), wrap(places, "    "))
	}
}
