package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

// sampleMetadata has every field; large is the size of one committable and of
// one split.
func sampleMetadata(large int) *Metadata {
	watermark := int64(-1 << 63)
	bytesFormat := &codec.Format{ID: "bytes", Version: 1}
	big := bytes.Repeat([]byte{0, 1, 0xFE, 0xFF}, large/4)
	return &Metadata{
		FormatVersion: 1, Weir: "v0.1.0", Job: "page-latency", Lineage: "3f9c", Attempt: 3, ID: 7,
		Kind: Checkpoint, Triggered: 1_700_000_000_000, Completed: 1_700_000_000_120, KeyHash: "xxh3-32/v1",
		Deletes: []string{"page-latency/chk-4"},
		Operators: []Operator{{
			ID: "clicks", Kind: "source", Parallelism: 2, SplitFormat: bytesFormat, EnumeratorFormat: bytesFormat,
			Enumerator: []byte("known splits"),
			Subtasks:   []Subtask{{Index: 0, Splits: [][]byte{[]byte("s0"), big, {}}, Watermark: &watermark}, {Index: 1}},
		}, {
			ID: "dedupe", Kind: "process", Parallelism: 1, MaxParallelism: 128, States: []State{countState, recordState},
			Subtasks: []Subtask{{Index: 0, File: Name("dedupe", 0, 3), Lists: []ListState{{Name: "buffer", Format: *bytesFormat, Items: [][]byte{[]byte("e1")}}}}},
		}, {
			ID: "rows", Kind: "sink", Parallelism: 1, CommittableFormat: bytesFormat, Subtasks: []Subtask{{}},
			Committables: []Committable{{Checkpoint: 6, Subtask: 0, Data: []byte("t6")}, {Checkpoint: 7, Subtask: 0, Data: big}},
		}},
		Files: []File{{Name: Name("dedupe", 0, 3), Size: 1234, CRC: 0xdeadbeef}},
	}
}

// sampleMetadata2 has what version 2 has beyond that.
func sampleMetadata2(large int) *Metadata {
	m := sampleMetadata(large)
	m.FormatVersion = 2
	text := codec.Format{ID: "string", Version: 1}
	op := &m.Operators[1]
	op.States = append(op.States, State{Name: "cells", Kind: RawKind, Format: codec.Format{ID: "raw", Version: 1}})
	op.Subtasks[0].Lists = append(op.Subtasks[0].Lists,
		ListState{Name: "partitions", Kind: UnionList, Format: text, Items: [][]byte{[]byte("p0"), []byte("p1")}},
		ListState{Name: "rules", Kind: BroadcastMap, Format: text, Key: keyFormat, Items: [][]byte{bytes.Repeat([]byte("k\x01v\x01"), large/4)}},
		ListState{Name: "model", Kind: RawParts, Format: codec.Format{ID: "raw", Version: 1}, Items: [][]byte{{0, 1, 2}, {}}})
	return m
}

// sampleMetadata3 has what version 3 has beyond that: files shared with other
// snapshots.
func sampleMetadata3(large int) *Metadata {
	m := sampleMetadata2(large)
	m.FormatVersion = 3
	base, delta := SharedName("3f9c", 2, "dedupe", 0, 1), SharedName("3f9c", 3, "dedupe", 0, 4)
	sst := SharedName("3f9c", 3, "counts", 0, 1)
	op := &m.Operators[1]
	op.Subtasks[0].File, op.Subtasks[0].Increments = base, []string{delta}
	m.Operators = append(m.Operators, Operator{
		ID: "counts", Kind: "process", Parallelism: 1, MaxParallelism: 128, KeyFormat: &keyFormat, States: []State{countState},
		Subtasks: []Subtask{{Native: &Native{Format: "pebble/1", Files: []NativeFile{{Local: "000005.sst", File: sst}}}}},
	})
	m.Files = []File{{Name: base}, {Name: delta}, {Name: sst}}
	return m
}

func TestStoreLoad(t *testing.T) {
	for version, sample := range map[int]func(int) *Metadata{1: sampleMetadata, 2: sampleMetadata2, 3: sampleMetadata3} {
		for _, large := range []int{8, maxInline, maxInline + 4, 3 << 20} {
			t.Run(fmt.Sprintf("version %d, %d bytes", version, large), func(t *testing.T) {
				storeAndLoad(t, mem.New(), sample, large)
				storeAndLoad(t, file.New(t.TempDir()), sample, large)
			})
		}
	}
}

func storeAndLoad(t *testing.T, blobs storage.Blobs, sample func(int) *Metadata, large int) {
	t.Helper()
	dir := CheckpointDir("page-latency", 7)
	m := sample(large)
	check(t, Store(t.Context(), blobs, dir, m))
	if !reflect.DeepEqual(m, sample(large)) {
		t.Error("Store changed its argument")
	}
	for _, at := range []string{dir, dir + "/", dir + "/" + MetadataName} {
		got, err := Load(t.Context(), blobs, at)
		check(t, err)
		if !reflect.DeepEqual(got, m) {
			t.Errorf("from %s: loaded\n%+v, want\n%+v", at, got, m)
		}
	}
	var files []string
	check(t, blobs.List(t.Context(), dir, func(name string, size int64) error {
		files = append(files, name)
		if strings.HasSuffix(name, MetadataName) && size > 24<<10 {
			t.Errorf("%s has %d bytes", name, size)
		}
		return nil
	}))
	if want := 1; large > maxInline && len(files) != want+1 || large <= maxInline && len(files) != want {
		t.Errorf("files %q", files)
	}
	wantErr(t, Store(t.Context(), blobs, dir, sample(large)), storage.ErrExists)
}

func TestLoadRefuses(t *testing.T) {
	blobs := mem.New()
	store(t, blobs, "dir/data", []byte("x"))
	for name, test := range map[string]struct {
		content string
		want    error
	}{
		"empty":       {"", ErrTruncated},
		"text":        {"hello\n", ErrNotSnapshot},
		"json":        {withCRC("{}\n"), ErrNotSnapshot},
		"flink":       {"\x00\x00\x00\x04some other engine's metadata", ErrNotSnapshot},
		"no checksum": {"{\n  \"format_version\": 1\n}\n", ErrTruncated},
		"newer":       {withCRC("{\n  \"format_version\": 4\n}\n"), ErrNewer},
		"zero":        {withCRC("{\n  \"format_version\": 0\n}\n"), ErrMalformed},
		"wrong type":  {withCRC("{\n  \"format_version\": 1, \"job\": 5\n}\n"), ErrMalformed},
		"outside":     {withCRC(`{"format_version": 1, "outside": [{"field": "/operators/0/enumerator", "file": "x"}]}` + "\n"), ErrMalformed},
	} {
		store(t, blobs, "dir/_metadata", []byte(test.content))
		_, err := Load(t.Context(), blobs, "dir")
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), "dir/_metadata") {
			t.Errorf("%s: error %v, want one that names the file and wraps %v", name, err, test.want)
		}
	}
	for _, dir := range []string{"nothing", "dir/data", "dir/data/_metadata"} {
		_, err := Load(t.Context(), blobs, dir)
		wantErr(t, err, ErrNotSnapshot)
		wantErr(t, err, storage.ErrNotFound)
	}
	// Unknown fields of the same version are skipped.
	store(t, blobs, "dir/_metadata", []byte(withCRC("{\"format_version\": 1, \"job\": \"j\", \"later\": {}}\n")))
	m, err := Load(t.Context(), blobs, "dir")
	check(t, err)
	if m.Job != "j" {
		t.Errorf("job %q", m.Job)
	}
}

func withCRC(body string) string {
	return string(appendCRCLine([]byte(body)))
}

func TestNewerDataFile(t *testing.T) {
	data, file := writeFile(t, None, sample(0))
	data[8] = Version + 1
	copy(data[12:], le32(checksum(data[:12])))
	blobs := mem.New()
	store(t, blobs, "data", data)
	_, err := OpenFile(t.Context(), blobs, "data", file)
	wantErr(t, err, ErrNewer)
}

func TestStorageFailures(t *testing.T) {
	lost := errors.New("connection lost")
	blobs := storagetest.NewFaulty(mem.New())
	blobs.Script(storagetest.Fault{Op: storagetest.PutIfAbsent, Err: lost},
		storagetest.Fault{Op: storagetest.Put, Name: "job/chk-1/blob-*", Partial: 100, Err: lost},
		storagetest.Fault{Op: storagetest.List, Err: lost})
	wantErr(t, Store(t.Context(), blobs, "job/chk-1", sampleMetadata(8)), lost)
	wantErr(t, Store(t.Context(), blobs, "job/chk-1", sampleMetadata(8<<10)), lost)
	_, err := List(t.Context(), blobs, "job")
	wantErr(t, err, lost)
	found, err := Dirs(t.Context(), blobs, "job")
	check(t, err)
	if len(found) != 0 {
		t.Errorf("failed stores left %v", found)
	}
	check(t, Store(t.Context(), blobs, "job/chk-1", sampleMetadata(8<<10)))
	var blob string
	check(t, blobs.List(t.Context(), "job/chk-1", func(name string, _ int64) error {
		if strings.Contains(name, "/blob-") {
			blob = name
		}
		return nil
	}))
	check(t, blobs.Vanish(blob))
	_, err = Load(t.Context(), blobs, "job/chk-1")
	wantErr(t, err, storage.ErrNotFound)
	if !strings.Contains(err.Error(), blob) {
		t.Errorf("error %v does not name %s", err, blob)
	}
}

// TestListFindsCompleteSnapshotsOnly also has directories of other jobs and
// names that only look like those of snapshots.
func TestListFindsCompleteSnapshotsOnly(t *testing.T) {
	blobs := mem.New()
	for _, name := range []string{
		"job/chk-10/_metadata", "job/chk-9/_metadata", "job/chk-9/data", "job/chk-11/data", "job/savepoint-job-10/_metadata",
		"job/chk-7/sub/_metadata", "job/chk-x/_metadata", "job/chk-007/_metadata", "job/chk--1/_metadata", "job/_metadata",
		"job/ledger/1", "job/savepoint-other-3/_metadata", "job-2/chk-99/_metadata", "chk-5/_metadata", "job/chk-12",
	} {
		store(t, blobs, name, nil)
	}
	found, err := List(t.Context(), blobs, "job")
	check(t, err)
	want := []Found{{"job/chk-9", 9, Checkpoint, true}, {"job/chk-10", 10, Checkpoint, true}, {"job/savepoint-job-10", 10, Savepoint, true}}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	all, err := Dirs(t.Context(), blobs, "job")
	check(t, err)
	if len(all) != 5 || all[0] != (Found{"job/chk-7", 7, Checkpoint, false}) || all[4] != (Found{"job/chk-11", 11, Checkpoint, false}) {
		t.Errorf("directories %v", all)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 300)
	names := map[string]string{}
	for _, stage := range []string{"dedupe", "p99-x", "a b", "a/b", "a_b", "", "ü", long, long + "y"} {
		name := Name(stage, 3, 12)
		if err := storage.CheckName(name); err != nil || len(name) > 150 || strings.Contains(name, "/") || !strings.HasSuffix(name, "-3-a12") {
			t.Errorf("%q: name %q, %v", stage, name, err)
		}
		if other, ok := names[name]; ok {
			t.Errorf("%q and %q have the same name", stage, other)
		}
		names[name] = stage
	}
	if got := Name("dedupe", 0, 1); got != "dedupe-0-a1" {
		t.Errorf("name %q", got)
	}
	for in, want := range map[string]string{"a/b": "a/b", "a/b/": "a/b", "a/_metadata": "a", "_metadata": "", ".": "", "": ""} {
		if got := Dir(in); got != want {
			t.Errorf("directory of %q: %q, want %q", in, got, want)
		}
	}
	if got := SavepointDir("job", 8); got != "savepoint-job-8" {
		t.Errorf("savepoint directory %q", got)
	}
}

// storeSnapshot stores a snapshot with one data file and an outside file, and
// returns what it consists of.
func storeSnapshot(t testing.TB, blobs storage.Blobs, c Compression) (names []string, m *Metadata) {
	t.Helper()
	return storeMetadata(t, blobs, c, sampleMetadata(maxInline+4))
}

func storeMetadata(t testing.TB, blobs storage.Blobs, c Compression, with *Metadata) (names []string, m *Metadata) {
	t.Helper()
	data, f := writeFile(t, c, sample(40))
	m = with
	native := m.nativeFiles()
	for i := range m.Files {
		f, data := f, data
		if f.Name = m.Files[i].Name; native[f.Name] {
			data = []byte("a table of a backend")
			f.Size, f.CRC = int64(len(data)), checksum(data)
		}
		m.Files[i] = f
		store(t, blobs, path.Join("job/chk-7", f.Name), data)
	}
	check(t, Store(t.Context(), blobs, "job/chk-7", m))
	check(t, blobs.List(t.Context(), "", func(name string, _ int64) error {
		names = append(names, name)
		return nil
	}))
	return names, m
}

// restore reads a snapshot as a restore does: _metadata and all key groups, but not
// whole files.
func restore(t testing.TB, blobs storage.Blobs) (*Metadata, map[int][]section, error) {
	m, err := Load(t.Context(), blobs, "job/chk-7")
	if err != nil {
		return nil, nil, err
	}
	f, err := OpenFile(t.Context(), blobs, path.Join("job/chk-7", m.Files[0].Name), m.Files[0])
	if err != nil {
		return m, nil, err
	}
	groups := map[int][]section{}
	for _, g := range f.Groups() {
		r, err := f.ReadGroup(t.Context(), g)
		if err != nil {
			return m, nil, err
		}
		if groups[g], err = readAll(r); err != nil {
			return m, nil, err
		}
	}
	return m, groups, nil
}

// TestEveryFlippedBitIsFound also truncates every file at every length.
func TestEveryFlippedBitIsFound(t *testing.T) {
	for _, c := range []Compression{None, S2, Zstd} {
		blobs := mem.New()
		names, m := storeSnapshot(t, blobs, c)
		if len(names) != 3 {
			t.Fatalf("files %q", names)
		}
		_, groups, err := restore(t, blobs)
		check(t, err)
		equalGroups(t, groups, sample(40))
		check(t, Verify(t.Context(), blobs, "job/chk-7", m))
		for _, name := range names {
			isData := !strings.Contains(name, "/blob-") && !strings.HasSuffix(name, MetadataName)
			if !isData && c != S2 {
				continue // the same in all three
			}
			original, err := blobs.Get(t.Context(), name)
			check(t, err)
			damage := func(what string, at int, data []byte) {
				store(t, blobs, name, data)
				_, _, err := restore(t, blobs)
				if err == nil || !strings.Contains(err.Error(), name[strings.LastIndex(name, "/")+1:]) {
					t.Fatalf("compression %d, %s, %s at %d of %d: error %v", c, name, what, at, len(original), err)
				}
				if !errors.Is(err, ErrChecksum) && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrNotSnapshot) {
					t.Fatalf("compression %d, %s, %s at %d: error %v is of no kind", c, name, what, at, err)
				}
				if isData && Verify(t.Context(), blobs, "job/chk-7", m) == nil {
					t.Fatalf("%s at %d of %s: Verify finds nothing", what, at, name)
				}
			}
			// Every bit, but of the 8 KB of the outside file every 97th.
			step := 1
			if len(original) > 8000 {
				step = 97
			}
			for bit := 0; bit < 8*len(original); bit += step {
				data := bytes.Clone(original)
				data[bit/8] ^= 1 << (bit % 8)
				damage("bit flipped", bit, data)
			}
			for n := 0; n < len(original); n += step {
				damage("truncated", n, original[:n:n])
			}
			store(t, blobs, name, original)
		}
	}
}

func TestVerifyFindsAppendedBytes(t *testing.T) {
	blobs := mem.New()
	names, m := storeSnapshot(t, blobs, S2)
	for _, name := range names {
		if strings.HasSuffix(name, m.Files[0].Name) {
			data, err := blobs.Get(t.Context(), name)
			check(t, err)
			store(t, blobs, name, append(data, 0))
		}
	}
	wantErr(t, Verify(t.Context(), blobs, "job/chk-7", m), ErrMalformed)
}

func le32(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }

func appendCRCLine(body []byte) []byte {
	b, err := io.ReadAll(io.MultiReader(bytes.NewReader(body), strings.NewReader("crc32c "+hex32(checksum(body))+"\n")))
	if err != nil {
		panic(err)
	}
	return b
}

func hex32(v uint32) string {
	const digits = "0123456789abcdef"
	var b []byte
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&15])
	}
	return string(b)
}

// widest records the longest range that is read of a blob.
type widest struct {
	storage.Blobs
	bytes int64
}

func (w *widest) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	w.bytes = max(w.bytes, n)
	return w.Blobs.GetRange(ctx, name, off, n)
}

// A start verifies files larger than the memory it may use.
func TestVerifyReadsInPieces(t *testing.T) {
	data, want := writeFile(t, None, sample(9<<20))
	blobs := &widest{Blobs: mem.New()}
	store(t, blobs, "job/chk-1/data", data)
	m := &Metadata{Files: []File{want}}
	check(t, Verify(t.Context(), blobs, "job/chk-1", m))
	if want.Size < 9<<20 || blobs.bytes > 4<<20 {
		t.Errorf("a file of %d bytes was read in pieces of up to %d", want.Size, blobs.bytes)
	}
	data[len(data)-trailerSize+2] ^= 0x80 // the footer's size, now 8 MiB more
	store(t, blobs, "job/chk-1/data", data)
	wantErr(t, Verify(t.Context(), blobs, "job/chk-1", m), ErrChecksum)
	if blobs.bytes > 4<<20 {
		t.Errorf("the damaged file was read in pieces of up to %d", blobs.bytes)
	}
}
