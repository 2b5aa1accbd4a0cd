// Package command is the program weir, with everything it touches passed in.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Program is what a run of weir touches.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Interactive tells that somebody sits at Stdin and can be asked.
	Interactive bool
	Now         func() time.Time
	// RuntimeDirs are where running jobs are announced.
	RuntimeDirs []string
}

const help = `weir controls running jobs, and looks at the snapshots and the ledger of jobs and
at their transactions.

Usage:
  weir list                            the jobs that run here
  weir savepoint JOB [DIR]             take a savepoint, and print where it lies
  weir savepoint --dispose PATH        delete a savepoint
  weir checkpoint JOB                  take a checkpoint besides the periodic ones
  weir stop JOB [--drain] [--savepoint DIR]
                                       stop a job with a savepoint
  weir cancel JOB                      end a job without a snapshot
  weir checkpoints DIR                 what a job has been started from, which
                                       snapshots there are, and what each is
                                       good for
  weir inspect PATH                    what a snapshot holds; with --state, the
                                       entries of a state
  weir diff PATH PATH                  what differs in two snapshots
  weir verify PATH                     read a snapshot whole, and list all damage
  weir check PROGRAM -s PATH           whether a job's program restores a snapshot
  weir kafka-transactions list         the open transactions of jobs in Kafka,
                                       and what each waits for
  weir kafka-transactions commit       end such transactions by hand, after
  weir kafka-transactions abort        saying what it costs
  weir help [COMMAND]                  flags of a command

Exit codes: 0 done, 1 failed or refused (verify, checkpoints --verify: or a
snapshot is damaged; diff: they differ), 2 wrong usage.
`

// usageError is a command line that is wrong.
type usageError struct{ error }

func misuse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run does what the arguments say and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	var wrong usageError
	var own exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &own):
		if !errors.Is(err, errQuiet) {
			fmt.Fprintf(p.Stderr, "weir: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
		}
		return own.code
	case errors.As(err, &wrong):
		fmt.Fprintf(p.Stderr, "weir: %v\nTry: weir help\n", err)
		return exitUsage
	}
	fmt.Fprintf(p.Stderr, "weir: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	return exitFailed
}

func (p *Program) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(p.Stderr, help)
		return misuse("no command")
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return p.help(ctx, rest)
	}
	if do := p.command(name); do != nil {
		return do(ctx, rest)
	}
	return misuse("unknown command %q; commands are list, savepoint, checkpoint, stop, cancel, checkpoints, inspect, diff, verify, check, kafka-transactions and help", name)
}

// command returns nil for a name that is none.
func (p *Program) command(name string) func(context.Context, []string) error {
	switch name {
	case "list":
		return p.list
	case "savepoint":
		return p.savepoint
	case "checkpoint":
		return p.checkpoint
	case "stop":
		return p.stop
	case "cancel":
		return p.cancel
	case "checkpoints":
		return p.checkpoints
	case "inspect":
		return p.inspect
	case "diff":
		return p.diff
	case "verify":
		return p.verify
	case "check":
		return p.check
	case "kafka-transactions":
		return p.transactions
	}
	return nil
}

func (p *Program) help(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(p.Stdout, help)
		return nil
	}
	if do := p.command(args[0]); do != nil {
		return do(ctx, []string{"--help"})
	}
	return misuse("no help on %q", args[0])
}

// flags are those of a command.
type flags struct {
	*flag.FlagSet
	usage  string
	rows   []string
	output string
	// forms are what output may be.
	forms []string
}

func newFlags(usage string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet("", flag.ContinueOnError), usage: usage, output: "text", forms: []string{"text", "json"}}
	f.SetOutput(io.Discard)
	f.text(&f.output, "output", "FORM", "text, or json for programs. Default text.")
	return f
}

func (f *flags) text(target *string, name, arg, help string) {
	f.StringVar(target, name, *target, "")
	f.rows = append(f.rows, fmt.Sprintf("  --%s %s\n        %s\n", name, arg, help))
}

func (f *flags) boolean(target *bool, name, help string) {
	f.BoolVar(target, name, false, "")
	f.rows = append(f.rows, fmt.Sprintf("  --%s\n        %s\n", name, help))
}

// parse reads flags and arguments in any order. It returns false if help was
// asked for, and given.
func (f *flags) parse(out io.Writer, args []string) (operands []string, proceed bool, err error) {
	for {
		if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
			slices.Sort(f.rows)
			fmt.Fprintf(out, "%s\nFlags:\n%s", f.usage, strings.Join(f.rows, ""))
			return nil, false, nil
		} else if err != nil {
			return nil, false, misuse("%s", strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag -", 1))
		}
		if f.NArg() == 0 {
			break
		}
		operands, args = append(operands, f.Arg(0)), f.Args()[1:]
	}
	if !slices.Contains(f.forms, f.output) {
		return nil, false, misuse("--output %q: allowed is one of %s", f.output, strings.Join(f.forms, ", "))
	}
	return operands, true, nil
}

func (p *Program) writeJSON(v any) error {
	enc := json.NewEncoder(p.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
