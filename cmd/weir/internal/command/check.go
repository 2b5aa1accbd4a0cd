package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/savepoint"
)

const checkUsage = `Usage: weir check PROGRAM -s PATH [flags] [-- ARGUMENTS]

Tell whether a job's program restores a snapshot, before anybody stops anything:
all reasons if it does not, with operator, state, stored and wanted form. PROGRAM
is a binary made with runner.Main, or a directory with a Go package to build. The
program is called with its command check; it builds the job, and opens, claims and
writes nothing. Where the program has the storage, PATH may be a URL. ARGUMENTS are flags of the job, as for run: its own, -p, -n, -D.
Exit code 0: it restores the snapshot, 1: it does not, 2: wrong usage.
`

func (p *Program) check(ctx context.Context, args []string) error {
	own, jobArgs := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		own, jobArgs = args[:i], args[i+1:]
	}
	f := newFlags(checkUsage)
	var path string
	f.StringVar(&path, "s", "", "")
	f.text(&path, "restore", "PATH", "The snapshot: the directory of a savepoint or checkpoint, or its _metadata. Also -s.")
	operands, proceed, err := f.parse(p.Stdout, own)
	switch {
	case err != nil || !proceed:
		return err
	case len(operands) != 1:
		return misuse("check needs one program: weir check PROGRAM -s PATH")
	case path == "":
		return misuse("check needs a snapshot: weir check PROGRAM -s PATH")
	}
	if !strings.Contains(path, "://") {
		// What is no snapshot is no matter of the program.
		s, err := savepoint.Open(ctx, path)
		if err != nil {
			return err
		}
		path = s.Path()
	}
	program, remove, err := p.binary(ctx, operands[0])
	if err != nil {
		return err
	}
	defer remove()
	call := append([]string{"check", "--restore", path, "--output", f.output}, jobArgs...)
	cmd := exec.CommandContext(ctx, program, call...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, p.Stdout, p.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == exitFailed:
		return exitError{exitFailed, errQuiet}
	case errors.As(err, &exit) && exit.ExitCode() == exitUsage:
		return exitError{exitUsage, fmt.Errorf("%s refuses to be called with %q: is it a program of runner.Main, of this version of Weir?", operands[0], strings.Join(call, " "))}
	case err != nil:
		return fmt.Errorf("run %s: %w", operands[0], err)
	}
	return nil
}

// binary is the program at path, built if it is a Go package. remove is called
// when it is not needed any more.
func (p *Program) binary(ctx context.Context, path string) (program string, remove func(), err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, err
	}
	if !info.IsDir() {
		program, err = filepath.Abs(path)
		return program, func() {}, err
	}
	dir, err := os.MkdirTemp("", "weir-check-")
	if err != nil {
		return "", nil, err
	}
	remove = func() {
		_ = os.RemoveAll(dir) // it is temporary
	}
	program = filepath.Join(dir, "job")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	cmd.Dir, cmd.Stdout, cmd.Stderr = path, p.Stderr, p.Stderr
	if err := cmd.Run(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build %s: %w", path, err)
	}
	return program, remove, nil
}
