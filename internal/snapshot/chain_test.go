package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/mem"
)

// entries are the values of a state by key.
type entries map[string]uint64

// inOrder returns keys in the order of state tables.
func inOrder(keys ...string) []string {
	slices.SortFunc(keys, func(a, b string) int {
		return hashedKey{keygroup.HashEncoded([]byte(a)), []byte(a)}.compare(hashedKey{keygroup.HashEncoded([]byte(b)), []byte(b)})
	})
	return keys
}

func valuesOf(state string, e entries) section {
	var data []byte
	for _, k := range inOrder(slices.Collect(maps.Keys(e))...) {
		data = binary.LittleEndian.AppendUint64(AppendItem(data, 0, []byte(k)), e[k])
	}
	return section{SectionHeader{"op", keyFormat, State{Name: state, Kind: "value", Format: countState.Format}, len(e)}, data}
}

func keysOf(keys ...string) section {
	var data []byte
	for _, k := range inOrder(keys...) {
		data = AppendItem(data, 0, []byte(k))
	}
	return section{SectionHeader{"op", keyFormat, State{Kind: ChangedKeys}, len(keys)}, data}
}

func allKeys() section { return section{SectionHeader{"op", keyFormat, State{Kind: AllKeys}, 0}, nil} }

func rawOf(s string) section {
	return section{SectionHeader{"op", keyFormat, State{Name: "raw", Kind: RawKind}, 1}, []byte(s)}
}

// putChain writes a base and files of changes.
func putChain(t testing.TB, blobs storage.Blobs, files ...map[int][]section) []File {
	t.Helper()
	var out []File
	for i, groups := range files {
		f := File{Name: fmt.Sprint("file-", i)}
		check(t, blobs.Put(t.Context(), f.Name, func(w io.Writer) (err error) {
			fw := NewFileWriter(w, S2)
			if i > 0 {
				fw = NewChangesWriter(w, S2)
			}
			for _, g := range sortedKeys(groups) {
				check(t, fw.BeginGroup(g))
				for _, s := range groups[g] {
					check(t, fw.Section(s.Operator, s.KeyFormat, s.State, s.Count, s.Data))
				}
				check(t, fw.EndGroup())
			}
			f.Size, f.CRC, err = fw.Close()
			return err
		}))
		out = append(out, f)
	}
	return out
}

var anyGroup = keygroup.Range{First: 0, Last: 1 << 15}

// readChain returns what a chain holds of a key group, as "state key=value" and
// "raw bytes".
func readChain(ctx context.Context, blobs storage.Blobs, files []File, group int) ([]string, error) {
	c, err := OpenChain(ctx, blobs, "", files, anyGroup)
	if err != nil {
		return nil, err
	}
	r, err := c.ReadOperator(ctx, group, "op")
	if err != nil {
		return nil, err
	}
	sections, err := readAll(r)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range sections {
		if s.State.Kind == RawKind {
			out = append(out, "raw "+string(s.Data))
			continue
		}
		rest := s.Data
		for range s.Count {
			var k, v []byte
			if k, rest, err = Item(rest, s.KeyFormat.Size); err == nil {
				v, rest, err = Item(rest, s.State.Format.Size)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprintf("%s %s=%d", s.State.Name, k, binary.LittleEndian.Uint64(v)))
		}
		if len(rest) > 0 {
			return nil, errors.New("bytes are left")
		}
	}
	slices.Sort(out)
	return out, nil
}

// sampleChain is a base with three files of changes.
func sampleChain() []map[int][]section {
	return []map[int][]section{
		{1: {valuesOf("x", entries{"a": 1, "b": 2, "c": 3, "d": 4}), valuesOf("y", entries{"a": 5, "e": 6}), rawOf("old")},
			2: {valuesOf("x", entries{"p": 1})}, 3: {valuesOf("x", entries{"q": 1})}, 4: {valuesOf("x", entries{"gone": 1})}},
		{1: {keysOf("a", "b", "new"), valuesOf("x", entries{"b": 20, "new": 21}), valuesOf("y", entries{"b": 22}), rawOf("newer")}},
		{1: {keysOf("b", "c"), valuesOf("x", entries{"b": 30}), rawOf("newest")}, 3: {allKeys(), valuesOf("x", entries{"r": 31})}, 4: {allKeys()}},
		{3: {keysOf("s"), valuesOf("y", entries{"s": 41})}, 1: {rawOf("last")}},
	}
}

var wantChain = map[int]string{
	1: "raw last, x b=30, x d=4, x new=21, y e=6",
	2: "x p=1",
	3: "x r=31, y s=41",
	4: "",
	5: "",
}

func checkChain(t *testing.T, blobs storage.Blobs, files []File) {
	t.Helper()
	for g, want := range wantChain {
		got, err := readChain(t.Context(), blobs, files, g)
		if err != nil || strings.Join(got, ", ") != want {
			t.Errorf("group %d: %v, %v, want %s", g, got, err, want)
		}
	}
}

func TestChain(t *testing.T) {
	blobs := mem.New()
	files := putChain(t, blobs, sampleChain()...)
	checkChain(t, blobs, files)
	c, err := OpenChain(t.Context(), blobs, "", files, anyGroup)
	check(t, err)
	if got := c.Groups(); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("groups %v", got)
	}
	if got := c.Operators(); !slices.Equal(got, []string{"op"}) {
		t.Errorf("operators %v", got)
	}
	// The files before all of a group was written anew are not needed for it.
	if got, err := readChain(t.Context(), blobs, files[2:], 3); err != nil || strings.Join(got, ", ") != wantChain[3] {
		t.Errorf("the last files: %v, %v", got, err)
	}
	_, err = readChain(t.Context(), blobs, files[2:], 1)
	wantErr(t, err, ErrMalformed)
}

// Files of changes are read together, not a key group at a time.
func TestChainReadsChangesTogether(t *testing.T) {
	blobs := &counting{Blobs: mem.New()}
	files := putChain(t, blobs, sampleChain()...)
	c, err := OpenChain(t.Context(), blobs, "", files, anyGroup)
	check(t, err)
	opened := blobs.reads
	for _, g := range c.Groups() {
		_, err := c.ReadOperator(t.Context(), g, "op")
		check(t, err)
	}
	if n := blobs.reads - opened; n != 2 {
		t.Errorf("%d reads of 4 key groups, want those of the base that are needed, 2", n)
	}
}

type counting struct {
	storage.Blobs
	reads int
}

func (c *counting) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	c.reads++
	return c.Blobs.GetRange(ctx, name, off, n)
}

func TestChainRefuses(t *testing.T) {
	base := map[int][]section{1: {valuesOf("x", entries{"a": 1, "b": 2})}}
	disorder, twice, long, shortBase := keysOf("a", "b", "c"), keysOf("a"), keysOf("a"), valuesOf("x", entries{"a": 1})
	disorder.Data = AppendItem(AppendItem(nil, 0, []byte(inOrder("a", "b")[1])), 0, []byte(inOrder("a", "b")[0]))
	disorder.Count = 2
	twice.Data, twice.Count = append(bytes.Clone(twice.Data), twice.Data...), 2
	long.Data = append(bytes.Clone(long.Data), 0)
	shortBase.Count = 2
	for name, c := range map[string]struct {
		files []map[int][]section
		want  string
	}{
		"keys out of order": {[]map[int][]section{base, {1: {disorder}}}, "changed key 2 of 2 is out of order"},
		"a key twice":       {[]map[int][]section{base, {1: {twice}}}, "changed key 2 of 2 is out of order"},
		"bytes behind":      {[]map[int][]section{base, {1: {long}}}, "1 bytes behind"},
		"keys come twice":   {[]map[int][]section{base, {1: {keysOf("a"), keysOf("b")}}}, "come twice"},
		"no keys":           {[]map[int][]section{base, {1: {valuesOf("x", entries{"a": 1})}}}, `state "x" stands before the keys`},
		"a short base":      {[]map[int][]section{{1: {shortBase}}, {1: {keysOf("a")}}}, "entry 2 of 2"},
	} {
		blobs := mem.New()
		_, err := readChain(t.Context(), blobs, putChain(t, blobs, c.files...), 1)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "key group 1") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	blobs := mem.New()
	files := putChain(t, blobs, base)
	_, err := OpenChain(t.Context(), blobs, "", append(files, files...), anyGroup)
	wantErr(t, err, ErrMalformed)
	w := NewFileWriter(io.Discard, None)
	check(t, w.BeginGroup(0))
	if err := w.Section("op", keyFormat, State{Kind: ChangedKeys}, 0, nil); err == nil {
		t.Error("changes in a file that holds all state are accepted")
	}
	_, _, err = w.Close()
	if err == nil {
		t.Error("a file with a group under way is closed")
	}
}

// TestGoldenChain opens a chain as it was first written.
func TestGoldenChain(t *testing.T) {
	dir := filepath.Join("testdata", "chain")
	blobs := file.New(dir)
	if _, err := os.Stat(dir); os.IsNotExist(err) && *writeGolden {
		putChain(t, blobs, sampleChain()...)
	}
	var files []File
	for i := range sampleChain() {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("file-", i)))
		check(t, err)
		files = append(files, File{Name: fmt.Sprint("file-", i), Size: int64(len(b)), CRC: checksum(b)})
	}
	checkChain(t, blobs, files)
}

// What is read of a chain is each key once, in its newest form.
func FuzzChain(f *testing.F) {
	old, keys, changed := valuesOf("x", entries{"a": 1, "b": 2, "c": 3}), keysOf("b", "d"), valuesOf("x", entries{"d": 4})
	f.Add(old.Count, old.Data, keys.Count, keys.Data, changed.Count, changed.Data)
	f.Add(1, []byte("\x0112345678"), 1, []byte("\x01a"), 0, []byte{})
	f.Fuzz(func(t *testing.T, oldCount int, old []byte, keyCount int, keys []byte, count int, data []byte) {
		if min(oldCount, keyCount, count) < 0 || count == 0 && len(data) > 0 || oldCount == 0 && len(old) > 0 {
			return
		}
		with := func(s section, count int, data []byte) section {
			s.Count, s.Data = count, data
			return s
		}
		state, list := valuesOf("x", nil), keysOf()
		blobs := mem.New()
		files := putChain(t, blobs, map[int][]section{1: {with(state, oldCount, old)}},
			map[int][]section{1: {with(list, keyCount, keys), with(state, count, data)}})
		got, err := readChain(t.Context(), blobs, files, 1)
		if err != nil {
			return
		}
		before, _ := readChain(t.Context(), blobs, files[:1], 1)
		gone := map[string]bool{}
		for rest := keys; len(rest) > 0; {
			var k []byte
			k, rest, err = Item(rest, 0)
			check(t, err)
			gone[string(k)] = true
		}
		var want []string
		for _, e := range before {
			if key, _, _ := strings.Cut(strings.TrimPrefix(e, "x "), "="); !gone[key] {
				want = append(want, e)
			}
		}
		blobs = mem.New()
		newer, err := readChain(t.Context(), blobs, putChain(t, blobs, map[int][]section{1: {with(state, count, data)}}), 1)
		check(t, err)
		want = slices.Sorted(slices.Values(append(want, newer...)))
		if !slices.Equal(got, want) && !strings.Contains(string(old)+string(keys), "=") {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
