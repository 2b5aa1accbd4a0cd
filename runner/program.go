package runner

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weirstream/weir/stream"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// program is one run of a job's binary, with everything it touches passed in.
type program struct {
	name           string
	build          func(*stream.Job)
	opts           options
	environ        []string
	stdout, stderr io.Writer
	signals        <-chan os.Signal
	// width is the width of the terminal that stderr is, 0 if it is none.
	width     func() int
	newEngine engineMaker
	// http is where the job listens if nothing else is said, "" for nowhere.
	http string
	// runtimeDirs are where it is announced.
	runtimeDirs []string
}

// run does what the arguments say and returns the exit code.
func (p *program) run(args []string) int {
	if len(args) == 0 {
		writeHelp(p.stderr, p.name)
		return exitUsage
	}
	command, rest := args[0], args[1:]
	switch command {
	case "run":
		return p.withFlags(command, rest, p.runJob)
	case "graph":
		return p.withFlags(command, rest, p.showGraph)
	case "check":
		return p.withFlags(command, rest, p.checkRestore)
	case "help", "-h", "-help", "--help":
		return p.help(rest)
	}
	if strings.HasPrefix(command, "-") {
		return p.misuse("", "%s stands before the command; write: %s run %s", command, p.name, strings.Join(args, " "))
	}
	return p.misuse("", "unknown command %q; commands are run, graph, check and help", command)
}

func (p *program) help(args []string) int {
	topic := ""
	if len(args) > 0 {
		topic = args[0]
	}
	switch topic {
	case "":
		writeHelp(p.stdout, p.name)
	case "run", "graph", "check":
		inv, err := newInvocation(topic, p.opts.flags)
		if err != nil {
			return p.misuse("", "%v", err)
		}
		inv.writeHelp(p.stdout, p.name)
	case "options":
		writeOptions(p.stdout)
	default:
		return p.misuse("", "no help on %q; topics are run, graph, check and options", topic)
	}
	return exitDone
}

// withFlags parses the flags of a command and does it.
func (p *program) withFlags(command string, args []string, do func(*invocation) int) int {
	inv, err := newInvocation(command, p.opts.flags)
	if err == nil {
		err = inv.parse(args)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		inv.writeHelp(p.stdout, p.name)
		return exitDone
	case err != nil:
		return p.misuse(command, "%v", err)
	}
	return do(inv)
}

// misuse reports a command line that is wrong.
func (p *program) misuse(command, format string, args ...any) int {
	fmt.Fprintf(p.stderr, "%s: %s\n", p.name, fmt.Sprintf(format, args...))
	fmt.Fprintf(p.stderr, "Try: %s\n", strings.TrimSpace(p.name+" help "+command))
	return exitUsage
}

// prepare builds the job; the code is not exitDone if it is wrong, which has
// been reported then.
func (p *program) prepare(inv *invocation) (*job, int) {
	file := inv.configFile
	if file == "" {
		file = p.opts.configFile
	}
	environ := p.environ
	if p.opts.environ != nil {
		environ = p.opts.environ
	}
	j, err := prepare(p.name, p.build, settings{configFile: file, environ: environ, calls: p.opts.entries, flags: inv.entries, http: p.http})
	var wrongJob buildError
	switch {
	case errors.As(err, &wrongJob):
		p.report("the job cannot be built", err)
		return nil, exitFailed
	case err != nil:
		p.report("the configuration is wrong", err)
		return nil, exitUsage
	}
	return j, exitDone
}

// report writes an error for people: on one line if it has one, else one line
// for each problem.
func (p *program) report(what string, err error) {
	text := strings.TrimSpace(err.Error())
	if strings.Contains(text, "\n") {
		text = "\n  " + strings.ReplaceAll(text, "\n", "\n  ")
	} else {
		text = " " + text
	}
	fmt.Fprintf(p.stderr, "%s: %s:%s\n", p.name, what, text)
}
