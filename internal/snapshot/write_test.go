package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// section is one section as tests write and compare it.
type section struct {
	SectionHeader
	Data []byte
}

var (
	keyFormat   = codec.Format{ID: "string", Version: 1}
	countState  = State{Name: "count", Kind: "value", Format: codec.Format{ID: "int64", Version: 1, Size: 8}, TTL: true}
	recordState = State{Name: "seen", Kind: "map", Format: codec.Format{ID: "avro", Version: 1, Schema: `{"type":"long"}`},
		Key: codec.Format{ID: "int64", Version: 1, Size: 8}, Detail: "sum"}
)

// writeFile writes a data file with the given sections and returns it.
func writeFile(t testing.TB, c Compression, groups map[int][]section) ([]byte, File) {
	t.Helper()
	var buf bytes.Buffer
	w := NewFileWriter(&buf, c)
	for _, g := range sortedKeys(groups) {
		check(t, w.BeginGroup(g))
		for _, s := range groups[g] {
			check(t, w.Operator(s.Operator, s.KeyFormat).Section(s.State, s.Count, s.Data))
		}
		check(t, w.EndGroup())
	}
	size, crc, err := w.Close()
	check(t, err)
	if size != int64(buf.Len()) || crc != checksum(buf.Bytes()) {
		t.Fatalf("size %d, CRC %08x; written %d, %08x", size, crc, buf.Len(), checksum(buf.Bytes()))
	}
	return buf.Bytes(), File{Name: "data", Size: size, CRC: crc}
}

func sortedKeys(groups map[int][]section) []int {
	var keys []int
	for g := range groups {
		keys = append(keys, g)
	}
	slices.Sort(keys)
	return keys
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want one that wraps %v", err, want)
	}
}

func store(t testing.TB, blobs storage.Blobs, name string, data []byte) {
	t.Helper()
	check(t, blobs.Put(t.Context(), name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}))
}

func readAll(r *GroupReader) (all []section, err error) {
	for {
		h, data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, section{h, data})
	}
}

// readFile reads everything in a data file.
func readFile(ctx context.Context, blobs storage.Blobs, name string, want File) (map[int][]section, error) {
	f, err := OpenFile(ctx, blobs, name, want)
	if err != nil {
		return nil, err
	}
	groups := map[int][]section{}
	for _, g := range f.Groups() {
		r, err := f.ReadGroup(ctx, g)
		if err != nil {
			return nil, err
		}
		if groups[g], err = readAll(r); err != nil {
			return nil, err
		}
	}
	return groups, f.Verify(ctx)
}

// sample is a small file's content; the data of one group span several chunks.
func sample(large int) map[int][]section {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, large)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	head := func(op string, st State, count int) SectionHeader {
		return SectionHeader{Operator: op, KeyFormat: keyFormat, State: st, Count: count}
	}
	return map[int][]section{
		0: {{head("dedupe", countState, 2), []byte("hello world")}, {head("dedupe", recordState, 0), nil}, {head("p99", countState, 1), bytes.Repeat([]byte("0123456789"), 1+large/5)}},
		5: {},
		7: {{head("p99", recordState, 1<<30), noise}, {head("p99", countState, 3), []byte("tail")}},
	}
}

func equalGroups(t *testing.T, got, want map[int][]section) {
	t.Helper()
	for g := range want {
		for i := range want[g] {
			if len(want[g][i].Data) == 0 {
				want[g][i].Data = []byte{}
			}
		}
		if len(want[g]) == 0 {
			want[g] = nil
		}
	}
	for g := range got {
		for i := range got[g] {
			if len(got[g][i].Data) == 0 {
				got[g][i].Data = []byte{}
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("read %d groups that differ from the %d written", len(got), len(want))
	}
}

func TestRoundTrip(t *testing.T) {
	for _, c := range []Compression{None, S2, Zstd} {
		for _, large := range []int{0, 100, maxChunk - 3, maxChunk, 3*maxChunk + 17} {
			t.Run(fmt.Sprintf("%d/%d", c, large), func(t *testing.T) {
				data, file := writeFile(t, c, sample(large))
				blobs := mem.New()
				store(t, blobs, "job/chk-1/data", data)
				got, err := readFile(t.Context(), blobs, "job/chk-1/data", file)
				check(t, err)
				equalGroups(t, got, sample(large))
			})
		}
	}
}

func TestCompressionShrinks(t *testing.T) {
	text := map[int][]section{1: {{SectionHeader{Operator: "op", State: countState}, bytes.Repeat([]byte("abcdefgh"), 1<<16)}}}
	plain, _ := writeFile(t, None, text)
	for _, c := range []Compression{S2, Zstd} {
		if packed, _ := writeFile(t, c, text); len(packed) > len(plain)/20 {
			t.Errorf("compression %d: %d bytes of %d", c, len(packed), len(plain))
		}
	}
}

// What does not shrink is not compressed again and again, but what follows it is:
// in the same section before long, in the next one at once.
func TestCompressionGivesUpAndComesBack(t *testing.T) {
	noise := make([]byte, 40*fastChunk)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	text := bytes.Repeat([]byte("abcdefgh"), 40*fastChunk/8)
	other := countState
	other.Name = "other"
	mixed := map[int][]section{1: {
		{SectionHeader{Operator: "op", State: countState}, slices.Concat(noise, text)},
		{SectionHeader{Operator: "op", State: other}, text},
	}}
	data, file := writeFile(t, S2, mixed)
	if most := len(noise) + 17*fastChunk + 2*len(text)/20; len(data) > most {
		t.Errorf("%d bytes, want at most %d", len(data), most)
	}
	blobs := mem.New()
	store(t, blobs, "data", data)
	got, err := readFile(t.Context(), blobs, "data", file)
	check(t, err)
	equalGroups(t, got, mixed)
}

func TestReadOperator(t *testing.T) {
	content := sample(2*maxChunk + 5)
	data, file := writeFile(t, S2, content)
	blobs := mem.New()
	store(t, blobs, "data", data)
	f, err := OpenFile(t.Context(), blobs, "data", file)
	check(t, err)
	if got := f.Operators(); !slices.Equal(got, []string{"dedupe", "p99"}) {
		t.Errorf("operators %q", got)
	}
	for g, want := range content {
		for _, op := range f.Operators() {
			r, err := f.ReadOperator(t.Context(), g, op)
			check(t, err)
			got, err := readAll(r)
			check(t, err)
			of := func(s section) bool { return s.Operator != op }
			equalGroups(t, map[int][]section{g: got}, map[int][]section{g: slices.DeleteFunc(slices.Clone(want), of)})
		}
	}
}

func TestGroupsInAnyOrder(t *testing.T) {
	var buf bytes.Buffer
	w := NewFileWriter(&buf, S2)
	op := w.Operator("op", keyFormat)
	for _, g := range []int{9, 2, 4} {
		check(t, w.BeginGroup(g))
		check(t, op.Section(countState, g, []byte{byte(g)}))
		check(t, w.EndGroup())
	}
	size, crc, err := w.Close()
	check(t, err)
	blobs := mem.New()
	store(t, blobs, "data", buf.Bytes())
	got, err := readFile(t.Context(), blobs, "data", File{Size: size, CRC: crc})
	check(t, err)
	for _, g := range []int{2, 4, 9} {
		if len(got[g]) != 1 || got[g][0].Count != g || got[g][0].Data[0] != byte(g) {
			t.Errorf("group %d: %v", g, got[g])
		}
	}
}

// TestPayloadAlone writes a payload without a file around it.
func TestPayloadAlone(t *testing.T) {
	var buf bytes.Buffer
	w := NewGroupWriter(&buf, S2, 12)
	check(t, w.Operator("op", keyFormat).Section(countState, 1, []byte("x")))
	size, crc, err := w.Close()
	check(t, err)
	if size != int64(buf.Len()) || crc != checksum(buf.Bytes()) {
		t.Errorf("size %d, CRC %08x", size, crc)
	}
	r, err := ReadPayload(buf.Bytes())
	check(t, err)
	all, err := readAll(r)
	check(t, err)
	if r.Group != 12 || len(all) != 1 || string(all[0].Data) != "x" || all[0].State != countState || all[0].KeyFormat != keyFormat {
		t.Errorf("group %d: %+v", r.Group, all)
	}
}

func TestWriterMisuse(t *testing.T) {
	w := NewFileWriter(io.Discard, None)
	errs := []error{w.EndGroup(), w.Section("op", keyFormat, countState, 0, nil), w.BeginGroup(-1)}
	check(t, w.BeginGroup(3))
	errs = append(errs, w.BeginGroup(4))
	check(t, w.EndGroup())
	check(t, w.BeginGroup(3))
	check(t, w.EndGroup())
	_, _, err := w.Close()
	errs = append(errs, err, w.BeginGroup(5))
	_, _, err = w.Close()
	errs = append(errs, err)
	for i, err := range errs {
		if err == nil {
			t.Errorf("misuse %d: no error", i)
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteErrorsStick(t *testing.T) {
	full := errors.New("disk full")
	w := NewFileWriter(brokenWriter{full}, None)
	check(t, w.BeginGroup(0))
	wantErr(t, w.Section("op", keyFormat, countState, 1, make([]byte, 3*maxChunk)), full)
	wantErr(t, w.EndGroup(), full)
	wantErr(t, w.BeginGroup(1), full)
	check2 := func(_ int64, _ uint32, err error) { wantErr(t, err, full) }
	check(t, nil)
	wantErr(t, w.EndGroup(), full)
	check2(w.Close())
}

func TestItems(t *testing.T) {
	for _, size := range []int{0, 8} {
		var src []byte
		var want [][]byte
		for i := range 300 {
			item := bytes.Repeat([]byte{byte(i)}, i)
			if size > 0 {
				item = binary.LittleEndian.AppendUint64(nil, uint64(i))
			}
			want = append(want, item)
			src = AppendItem(src, size, item)
		}
		if size > 0 && len(src) != 300*size {
			t.Errorf("%d bytes for fixed items", len(src))
		}
		for i := range want {
			item, rest, err := Item(src, size)
			check(t, err)
			if !bytes.Equal(item, want[i]) {
				t.Fatalf("item %d: %x, want %x", i, item, want[i])
			}
			src = rest
		}
		if len(src) != 0 {
			t.Errorf("%d bytes left", len(src))
		}
	}
	for _, bad := range []string{"", "\x05abcd", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", strings.Repeat("\xff", 11)} {
		if item, _, err := Item([]byte(bad), 0); err == nil {
			t.Errorf("%q: item %x", bad, item)
		}
	}
	if _, _, err := Item([]byte("1234567"), 8); err == nil {
		t.Error("short fixed item: no error")
	}
}

// BenchmarkWrite writes a million entries of 8-byte keys and counts in 128
// key groups: ns/op is the cost of a million.
func BenchmarkWrite(b *testing.B) {
	const entries, groups = 1_000_000, 128
	data := make([][]byte, groups)
	for i := range uint64(entries) {
		x := i * 0x9e3779b97f4a7c15
		x ^= x >> 31
		g := i % groups
		data[g] = binary.LittleEndian.AppendUint64(data[g], x%entries)
		data[g] = binary.LittleEndian.AppendUint64(data[g], i%100)
	}
	for name, c := range map[string]Compression{"none": None, "s2": S2, "zstd": Zstd} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(entries * 16)
			b.ReportAllocs()
			var size int64
			for b.Loop() {
				w := NewFileWriter(io.Discard, c)
				op := w.Operator("op", keyFormat)
				for g := range groups {
					check(b, w.BeginGroup(g))
					check(b, op.Section(countState, len(data[g])/16, data[g]))
					check(b, w.EndGroup())
				}
				n, _, err := w.Close()
				check(b, err)
				size = n
			}
			b.ReportMetric(float64(size), "file-bytes")
		})
	}
}
