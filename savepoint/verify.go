package savepoint

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/location"
	"github.com/weirstream/weir/storage"
)

// Report is what Verify found.
type Report struct {
	Path string `json:"path"`
	// Files and Bytes were read, Entries looked at.
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	Entries int64 `json:"entries"`
	// Damage is all that is wrong, none if the snapshot is as it was written.
	Damage []string `json:"damage"`
	// Unread is what only checksums speak for: state in the form of a backend.
	Unread []string `json:"unread,omitempty"`
}

// Verify reads the snapshot at path whole, a few MiB at a time: all checksums;
// that the mark of what is committed, which has none, names the snapshot;
// the structure of all files; that each state is there as _metadata lists it,
// with as many entries as its header says; and that each key lies once, in its key
// group, in order. It decodes no values. progress, unless nil, is told how many of
// how many bytes are read. The error says that it could not go on.
func Verify(ctx context.Context, path string, progress func(done, total int64)) (*Report, error) {
	blobs, dir, err := locate(path)
	if err != nil {
		return nil, err
	}
	return VerifyIn(ctx, blobs, dir, progress)
}

// VerifyIn is Verify of a snapshot in any storage: dir is relative to it.
func VerifyIn(ctx context.Context, blobs storage.Blobs, dir string, progress func(done, total int64)) (*Report, error) {
	m, err := snapshot.Salvage(ctx, blobs, dir)
	v := &verifier{ctx: ctx, progress: progress, bad: map[string]bool{}, report: &Report{Path: location.Join(blobs.String(), dir), Damage: []string{}}}
	if errors.Is(err, ErrNotSnapshot) && m == nil && errors.Is(err, storage.ErrNotFound) || errors.Is(err, ErrNewer) {
		return nil, err
	}
	if v.damaged(err) != nil {
		return nil, err
	}
	if m == nil {
		return v.report, nil
	}
	v.s = &Snapshot{meta: m, blobs: blobs, dir: dir, files: map[string]*snapshot.FileReader{}}
	for _, f := range m.Files {
		v.total += 2 * f.Size
	}
	v.operators()
	if err := v.mark(); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if err := v.file(f); err != nil {
			return nil, err
		}
	}
	return v.report, v.databases()
}

// mark checks the mark beside the snapshot, if there is one: what does not name
// the snapshot counts for nothing.
func (v *verifier) mark() error {
	b, err := v.s.blobs.Get(v.ctx, path.Join(v.s.dir, committedName))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err == nil && !marks(b, v.s.meta):
		v.wrong("%s is damaged, or that of another snapshot: it does not count, and what the snapshot has prepared counts as not committed", committedName)
	}
	return err
}

// databases checks the entries of state that is in files of a backend.
func (v *verifier) databases() error {
	for i := range v.s.meta.Operators {
		op := &v.s.meta.Operators[i]
		for j := range op.Subtasks {
			sub := &op.Subtasks[j]
			if sub.Native == nil || readable(op) != nil || v.isDamaged(sub) {
				continue
			}
			if err := v.damaged(v.database(op, sub)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isDamaged tells whether a checksum of the subtask's files is wrong: then their
// backend has nothing to read.
func (v *verifier) isDamaged(sub *snapshot.Subtask) bool {
	return slices.ContainsFunc(sub.DataFiles(), func(name string) bool { return v.bad[name] })
}

func (v *verifier) database(op *snapshot.Operator, sub *snapshot.Subtask) error {
	places, err := v.s.databasePlaces(op, sub)
	if err != nil {
		return err
	}
	for _, p := range places {
		at := fmt.Sprintf("operator %q, subtask %d, key group %d", op.ID, sub.Index, p.group)
		sc, err := p.scan(v.ctx, op.ID)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if _, err := v.sections(sc, at, p.group, op); err != nil {
			return err
		}
	}
	return nil
}

// verifier goes through a snapshot.
type verifier struct {
	ctx         context.Context
	s           *Snapshot
	report      *Report
	progress    func(done, total int64)
	done, total int64
	// bad are the files whose checksums are wrong.
	bad       map[string]bool
	key, last []byte
}

// damaged notes damage. Other errors, of the storage, it returns.
func (v *verifier) damaged(err error) error {
	switch {
	case err == nil:
		return nil
	case v.ctx.Err() != nil:
		return context.Cause(v.ctx)
	}
	for _, kind := range []error{snapshot.ErrNotSnapshot, snapshot.ErrTruncated, snapshot.ErrChecksum, snapshot.ErrMalformed, storage.ErrNotFound} {
		if errors.Is(err, kind) {
			v.report.Damage = append(v.report.Damage, strings.Split(err.Error(), "\n")...)
			return nil
		}
	}
	return err
}

func (v *verifier) wrong(format string, args ...any) {
	v.report.Damage = append(v.report.Damage, fmt.Sprintf(format, args...))
}

func (v *verifier) read(n int64) {
	v.done += n
	if v.progress != nil {
		v.progress(v.done, v.total)
	}
}

// operators checks what _metadata alone says.
func (v *verifier) operators() {
	m := v.s.meta
	if m.KeyHash != keygroup.HashName {
		v.wrong("keys are hashed by %q, which this version does not know", m.KeyHash)
	}
	ids := map[string]bool{}
	for i := range m.Operators {
		op := &m.Operators[i]
		if ids[op.ID] {
			v.wrong("operator %q is listed twice", op.ID)
		}
		ids[op.ID] = true
		if err := readable(op); err != nil {
			v.report.Unread = append(v.report.Unread, err.Error())
		}
		if len(op.States) > 0 && (op.KeyFormat == nil || keygroup.Check(max(op.Parallelism, 1), op.MaxParallelism) != nil) {
			v.wrong("operator %q has keyed state, and no possible key format and max parallelism", op.ID)
		}
		v.subtasks(op)
	}
}

func (v *verifier) subtasks(op *snapshot.Operator) {
	last := -1
	for _, sub := range op.Subtasks {
		if sub.Index <= last || sub.Index >= max(op.Parallelism, 1) {
			v.wrong("operator %q: subtask %d is out of order, or not below the parallelism %d", op.ID, sub.Index, op.Parallelism)
		}
		last = sub.Index
		for _, l := range sub.Lists {
			if err := checkList(l); err != nil {
				v.wrong("operator %q, subtask %d, state %q: %v", op.ID, sub.Index, l.Name, err)
			}
		}
	}
}

func checkList(l snapshot.ListState) error {
	if _, ok := listKinds[l.Kind]; !ok {
		return fmt.Errorf("it is of the unknown kind %q", l.Kind)
	}
	if l.Kind != snapshot.BroadcastMap {
		return nil
	}
	for _, rest := range l.Items {
		for len(rest) > 0 {
			_, after, err := snapshot.Item(rest, l.Key.Size)
			if err == nil {
				_, after, err = snapshot.Item(after, l.Format.Size)
			}
			if err != nil {
				return err
			}
			rest = after
		}
	}
	return nil
}

// file checks a file as a whole, then what is in it.
func (v *verifier) file(f snapshot.File) error {
	v.report.Files, v.report.Bytes = v.report.Files+1, v.report.Bytes+f.Size
	end := v.done + 2*f.Size
	defer func() { v.read(end - v.done) }()
	name := path.Join(v.s.dir, f.Name)
	err := snapshot.VerifyFile(v.ctx, v.s.blobs, name, f, v.read)
	v.bad[f.Name] = err != nil
	if err := v.damaged(err); err != nil {
		return err
	}
	native, owners := v.owners(f.Name)
	if native {
		return nil
	}
	if len(owners) == 0 {
		v.wrong("data file %s belongs to no operator", f.Name)
	}
	r, err := v.s.file(v.ctx, f.Name)
	if err != nil {
		return v.damaged(err)
	}
	for _, g := range r.Groups() {
		if err := v.group(r, f.Name, g, owners); err != nil {
			return err
		}
		v.read(f.Size / int64(len(r.Groups())))
	}
	return nil
}

// owner is an operator's subtask whose state a file holds.
type owner struct {
	op  *snapshot.Operator
	sub *snapshot.Subtask
}

func (v *verifier) owners(file string) (native bool, owners []owner) {
	for i := range v.s.meta.Operators {
		op := &v.s.meta.Operators[i]
		for j := range op.Subtasks {
			sub := &op.Subtasks[j]
			if slices.Contains(sub.DataFiles(), file) {
				owners, native = append(owners, owner{op, sub}), native || sub.Native != nil
			}
		}
	}
	return native, owners
}

// group checks a key group of a file.
func (v *verifier) group(r *snapshot.FileReader, file string, g int, owners []owner) error {
	total, ids, err := r.CheckGroup(v.ctx, g)
	if err != nil {
		if err := v.damaged(err); err != nil {
			return err
		}
	}
	whole, raw := err == nil, uint64(0)
	for i, id := range ids {
		at := fmt.Sprintf("%s: key group %d, operator %q", file, g, id)
		o := slices.IndexFunc(owners, func(o owner) bool { return o.op.ID == id })
		switch {
		case slices.Contains(ids[:i], id):
			v.wrong("%s: it is there twice", at)
			continue
		case o < 0:
			v.wrong("%s: it is not in %s, or its state is in another file there", at, snapshot.MetadataName)
			whole = false
			continue
		}
		op, sub := owners[o].op, owners[o].sub
		if p, m := op.Parallelism, op.MaxParallelism; keygroup.Check(p, m) == nil && !keygroup.RangeOf(sub.Index, p, m).Contains(g) {
			v.wrong("%s: subtask %d of %d does not have that group of %d", at, sub.Index, p, m)
		}
		n, err := v.sections(r.Scan(v.ctx, g, op.ID), at, g, op)
		raw += n
		if err != nil {
			whole = false
			if err := v.damaged(err); err != nil {
				return err
			}
		}
	}
	if whole && raw != total {
		v.wrong("%s: key group %d has %d bytes, its end marker says %d", file, g, raw, total)
	}
	return nil
}
