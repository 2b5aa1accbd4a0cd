package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"

	"github.com/weirstream/weir/internal/storage"
)

// maxInline is the size up to which a byte field stays in _metadata itself.
const maxInline = 4 << 10

// Dir returns the directory of a snapshot given as the directory or as its
// _metadata.
func Dir(name string) string {
	if path.Base(name) == MetadataName {
		name = path.Dir(name)
	}
	if name = path.Clean(name); name == "." {
		return ""
	}
	return name
}

// Store writes m as _metadata of the directory, which makes the directory a
// snapshot: all data files must have been stored before, shared ones included. Enumerator state,
// committables, splits and list items above 4 KB go into a file beside it
// first. An error that wraps storage.ErrExists says that the directory is a
// snapshot already. m stays as it is.
func Store(ctx context.Context, blobs storage.Blobs, dir string, m *Metadata) error {
	m, blob := moveOut(m)
	if len(blob) > 0 {
		name := path.Join(dir, m.Outside[0].File)
		err := blobs.Put(ctx, name, func(w io.Writer) error {
			_, err := w.Write(blob)
			return err
		})
		if err != nil {
			return fmt.Errorf("store snapshot %s in %s: %w", dir, blobs, err)
		}
	}
	b, err := EncodeMetadata(m)
	if err == nil {
		err = blobs.PutIfAbsent(ctx, path.Join(dir, MetadataName), b)
	}
	if err != nil {
		return fmt.Errorf("store snapshot %s in %s: %w", dir, blobs, err)
	}
	return nil
}

// Load reads the snapshot at dir, which may name the directory or its
// _metadata. Its errors wrap those of DecodeMetadata; ErrNotSnapshot where
// there is nothing.
func Load(ctx context.Context, blobs storage.Blobs, dir string) (*Metadata, error) {
	dir = Dir(dir)
	m, err := load(ctx, blobs, dir)
	if err != nil {
		return nil, fmt.Errorf("load snapshot %s in %s: %w", path.Join(dir, MetadataName), blobs, err)
	}
	return m, nil
}

// Salvage is Load of a snapshot that may be damaged: where only byte fields in
// other files are, it returns the rest of the metadata besides the errors of all
// of them.
func Salvage(ctx context.Context, blobs storage.Blobs, dir string) (*Metadata, error) {
	dir = Dir(dir)
	m, err := load(ctx, blobs, dir)
	if err != nil {
		return m, fmt.Errorf("load snapshot %s in %s: %w", path.Join(dir, MetadataName), blobs, err)
	}
	return m, nil
}

func load(ctx context.Context, blobs storage.Blobs, dir string) (*Metadata, error) {
	b, err := blobs.Get(ctx, path.Join(dir, MetadataName))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("%w: the directory has no %s (%w)", ErrNotSnapshot, MetadataName, err)
	}
	if err != nil {
		return nil, err
	}
	m, err := DecodeMetadata(b)
	if err != nil {
		return nil, err
	}
	return m, m.moveIn(func(o Outside) ([]byte, error) {
		b, err := blobs.GetRange(ctx, path.Join(dir, o.File), o.Offset, o.Size)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("file %s: %w: %w", o.File, ErrTruncated, err)
		case err != nil:
			return nil, fmt.Errorf("file %s: %w", o.File, err)
		case checksum(b) != o.CRC:
			return nil, fmt.Errorf("file %s: %w in %s", o.File, ErrChecksum, o.Field)
		}
		return b, nil
	})
}

// Verify reads every data file of a snapshot that Load returned, a few MiB at
// a time, and returns the errors of all that are damaged.
func Verify(ctx context.Context, blobs storage.Blobs, dir string, m *Metadata) error {
	var errs []error
	native := m.nativeFiles()
	for _, file := range m.Files {
		name := path.Join(Dir(dir), file.Name)
		// The checksum first: a damaged file says anything of its footer's size.
		f := &FileReader{blobs: blobs, name: name, want: file}
		err := f.Verify(ctx)
		if err == nil && !native[file.Name] {
			_, err = OpenFile(ctx, blobs, name, file)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// moveOut returns m with its large byte fields moved to the blob. m itself
// stays as it is.
func moveOut(m *Metadata) (*Metadata, []byte) {
	var blob []byte
	var outside []Outside
	out := m.clone()
	out.byteFields(func(field string, b *[]byte) {
		if len(*b) <= maxInline {
			return
		}
		outside = append(outside, Outside{Field: field, Offset: int64(len(blob)), Size: int64(len(*b)), CRC: checksum(*b)})
		blob = append(blob, *b...)
		*b = nil
	})
	// Named by its content, too: a second Store into the directory cannot
	// replace what a snapshot there refers to.
	file := fmt.Sprintf("blob-a%d-%08x", m.Attempt, checksum(blob))
	for i := range outside {
		outside[i].File = file
	}
	out.Outside = outside
	return out, blob
}

// moveIn puts back what moveOut moved.
func (m *Metadata) moveIn(read func(Outside) ([]byte, error)) error {
	if len(m.Outside) == 0 {
		return nil
	}
	fields := map[string]*[]byte{}
	m.byteFields(func(field string, b *[]byte) { fields[field] = b })
	var errs []error
	for _, o := range m.Outside {
		b, ok := fields[o.Field]
		if !ok || storage.CheckName(o.File) != nil || path.Base(o.File) != o.File {
			errs = append(errs, malformed("outside: field %q in file %q", o.Field, o.File))
			continue
		}
		content, err := read(o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*b = content
	}
	m.Outside = nil
	return errors.Join(errs...)
}

// byteFields calls fn with every field that may be moved out, and the JSON
// pointer to it.
func (m *Metadata) byteFields(fn func(field string, b *[]byte)) {
	each := func(prefix string, items [][]byte) {
		for i := range items {
			fn(prefix+strconv.Itoa(i), &items[i])
		}
	}
	for i := range m.Operators {
		op := &m.Operators[i]
		at := "/operators/" + strconv.Itoa(i)
		fn(at+"/enumerator", &op.Enumerator)
		for j := range op.Committables {
			fn(at+"/committables/"+strconv.Itoa(j)+"/data", &op.Committables[j].Data)
		}
		for j := range op.Subtasks {
			sub := at + "/subtasks/" + strconv.Itoa(j)
			each(sub+"/splits/", op.Subtasks[j].Splits)
			for k := range op.Subtasks[j].Lists {
				each(sub+"/lists/"+strconv.Itoa(k)+"/items/", op.Subtasks[j].Lists[k].Items)
			}
		}
	}
}

// clone copies m so far that byteFields of the copy leave m alone.
func (m *Metadata) clone() *Metadata {
	c := *m
	c.Operators = slices.Clone(m.Operators)
	for i := range c.Operators {
		op := &c.Operators[i]
		op.Committables = slices.Clone(op.Committables)
		op.Subtasks = slices.Clone(op.Subtasks)
		for j := range op.Subtasks {
			sub := &op.Subtasks[j]
			sub.Splits = slices.Clone(sub.Splits)
			sub.Lists = slices.Clone(sub.Lists)
			for k := range sub.Lists {
				sub.Lists[k].Items = slices.Clone(sub.Lists[k].Items)
			}
		}
	}
	return &c
}
