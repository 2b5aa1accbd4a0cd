//go:build unix

package heap

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/mem"
)

func incremental(o *Options) { o.Incremental = true }

// BenchmarkCountIncremental is BenchmarkCount with changes known.
func BenchmarkCountIncremental(b *testing.B) {
	for _, keys := range []int{1000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("int64/keys=%d", keys), func(b *testing.B) { count(b, int64Key, keys, incremental) })
	}
	for _, keys := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("string36/keys=%d", keys), func(b *testing.B) { count(b, stringKey, keys, incremental) })
	}
}

// BenchmarkCheckpoint encodes and compresses the state of 10 million keys, all
// of it or what has changed, of keys spread evenly.
func BenchmarkCheckpoint(b *testing.B) {
	const keys = 10_000_000
	n := newNumber("count")
	x := newBenchWith(b, int64Key, keys, incremental, n.Field)
	x.each(0, keys, func() { n.add(x.cur) })
	rng := rand.New(rand.NewPCG(1, 2))
	for _, changed := range []int{0, 10_000, 100_000, 1_000_000, keys} {
		name := fmt.Sprintf("changed=%d", changed)
		if changed == 0 {
			name = "whole"
		}
		b.Run(name, func(b *testing.B) {
			var cpu, bytes int64
			for range b.N {
				b.StopTimer()
				last := x.store.Freeze()
				last.Completed(last.Number())
				last.Release()
				x.each(rng.IntN(keys), changed, func() { n.add(x.cur) })
				f := x.store.Freeze()
				w := &chainWriter{part: numberPart{f, x.store.KeyFormat(), x.store.States()}, operator: "op", all: keygroup.Range{First: 0, Last: -1}}
				if changed > 0 {
					w.since = last.Number()
				}
				b.StartTimer()
				before := cpuTime(b)
				var to counted
				if err := w.write(b.Context(), &to); err != nil {
					b.Fatal(err)
				}
				cpu, bytes = cpu+cpuTime(b)-before, bytes+int64(to)
			}
			b.ReportMetric(float64(cpu)/float64(b.N)/1e6, "cpu-ms/op")
			b.ReportMetric(float64(bytes)/float64(b.N), "B/op-written")
		})
	}
}

type counted int64

func (c *counted) Write(p []byte) (int, error) {
	*c += counted(len(p))
	return len(p), nil
}

// BenchmarkRestore restores 10 million keys from a base, and from a base with
// ten files of changes.
func BenchmarkRestore(b *testing.B) {
	b.Run("base", func(b *testing.B) { benchRestore(b, 0) })
	b.Run("changes=10", func(b *testing.B) { benchRestore(b, 10) })
}

func benchRestore(b *testing.B, files int) {
	const keys = 10_000_000
	n := newNumber("count")
	x := newBenchWith(b, int64Key, keys, incremental, n.Field)
	blobs, chain := mem.New(), []snapshot.File(nil)
	write := func(since uint32) uint32 {
		f := x.store.Freeze()
		defer f.Release()
		w := &chainWriter{part: numberPart{f, x.store.KeyFormat(), x.store.States()}, operator: "op", since: since, all: keygroup.Range{First: 0, Last: -1}}
		name := fmt.Sprint("file-", len(chain))
		var size int64
		if err := blobs.Put(b.Context(), name, func(to io.Writer) error {
			var n counted
			err := w.write(b.Context(), io.MultiWriter(to, &n))
			size = int64(n)
			return err
		}); err != nil {
			b.Fatal(err)
		}
		chain = append(chain, snapshot.File{Name: name, Size: size})
		return f.Number()
	}
	x.each(0, keys, func() { n.add(x.cur) })
	last := write(0)
	for i := range files {
		x.each(i*keys/100, keys/20, func() { n.add(x.cur) })
		last = write(last)
	}
	b.ResetTimer()
	start := cpuTime(b)
	for range b.N {
		o := newBenchWith(b, int64Key, 1, incremental, newNumber("count").Field)
		c, err := snapshot.OpenChain(b.Context(), blobs, "", chain, whole(128))
		if err != nil {
			b.Fatal(err)
		}
		for _, g := range c.Groups() {
			r, err := c.ReadOperator(b.Context(), g, "op")
			for err == nil {
				var h snapshot.SectionHeader
				var data []byte
				if h, data, err = r.Next(); err == nil {
					err = o.store.RestoreSection(g, h.State, h.Count, data)
				}
			}
			if !errors.Is(err, io.EOF) {
				b.Fatal(err)
			}
		}
		if o.store.Len() != keys {
			b.Fatal(o.store.Len())
		}
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N)/1e6, "cpu-ms/op")
}
