//go:build unix

package lsm

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// BenchmarkFetch reads a batch of 1,024 of a million rows of 100 bytes, with
// a block cache for a tenth of them. cpu-ns/row is what counts where others
// use the machine.
func BenchmarkFetch(b *testing.B) {
	d, err := Open(Options{Dir: b.TempDir(), Memory: 40 << 20, Stores: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	t, err := d.Tier("bench")
	if err != nil {
		b.Fatal(err)
	}
	const rows, batch = 1_000_000, 1024
	rng := rand.New(rand.NewPCG(1, 2))
	row := make([]byte, 100)
	for n, c := 0, t.Change(); n < 2*rows; n++ {
		i := rng.IntN(rows)
		binary.LittleEndian.PutUint64(row, uint64(n))
		binary.LittleEndian.PutUint64(row[50:], rng.Uint64())
		if err := c.Put(benchKey(i), row); err != nil {
			b.Fatal(err)
		}
		if n%64 == 63 || n == 2*rows-1 {
			if err := c.Commit(); err != nil {
				b.Fatal(err)
			}
			c = t.Change()
		}
	}
	if err := t.db.Compact(b.Context(), []byte{0}, []byte{255}, true); err != nil {
		b.Fatal(err)
	}
	keys := make([][]byte, batch)
	found := 0
	begin := cpu()
	b.ResetTimer()
	for range b.N {
		for i := range keys {
			keys[i] = benchKey(rng.IntN(rows))
		}
		slices.SortFunc(keys, bytes.Compare)
		keys = slices.CompactFunc(keys, bytes.Equal)
		if err := t.Fetch(keys, func(int, []byte) error { found++; return nil }); err != nil {
			b.Fatal(err)
		}
		keys = keys[:batch]
	}
	b.ReportMetric(float64(cpu()-begin)/float64(b.N)/batch, "cpu-ns/row")
	b.ReportMetric(float64(found)/float64(b.N)/batch, "found/row")
	b.StopTimer()
	t.Close()
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkChange writes back batches of 256 of two million rows of 100 bytes,
// as evictions do, with what compactions take. amplification is how often a row
// is written to the disk, files the size of the database over that of its rows.
func BenchmarkChange(b *testing.B) {
	d, err := Open(Options{Dir: b.TempDir(), Memory: 160 << 20, Stores: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	t, err := d.Tier("bench")
	if err != nil {
		b.Fatal(err)
	}
	const rows, batch = 2_000_000, 256
	rng := rand.New(rand.NewPCG(1, 2))
	row := make([]byte, 100)
	order := rng.Perm(rows)
	keys := make([][]byte, batch)
	write := func(number func(i int) int) {
		for i := range keys {
			keys[i] = benchKey(number(i))
		}
		slices.SortFunc(keys, bytes.Compare)
		c := t.Change()
		for _, k := range keys {
			binary.LittleEndian.PutUint64(row[50:], rng.Uint64())
			if err := c.Put(k, row); err != nil {
				b.Fatal(err)
			}
		}
		if err := c.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	for n := 0; n+batch <= rows; n += batch {
		write(func(i int) int { return order[n+i] })
	}
	before := t.db.Metrics()
	begin := cpu()
	b.ResetTimer()
	for range b.N {
		write(func(int) int { return rng.IntN(rows) })
	}
	b.StopTimer()
	if err := t.db.Flush(); err != nil {
		b.Fatal(err)
	}
	written := func(m *pebble.Metrics) (n uint64) {
		for _, l := range m.Levels {
			n += l.TableBytesFlushed + l.TableBytesCompacted
		}
		return n
	}
	after := t.db.Metrics()
	size := float64(batch * (len(row) + len(keys[0])))
	b.ReportMetric(float64(cpu()-begin)/float64(b.N)/batch, "cpu-ns/row")
	b.ReportMetric(float64(written(after)-written(before))/float64(b.N)/size, "amplification")
	b.ReportMetric(float64(after.DiskSpaceUsage())/rows/float64(len(row)+len(keys[0])), "files")
	t.Close()
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}

func benchKey(i int) []byte {
	k := binary.BigEndian.AppendUint16(nil, uint16(i%64))
	k = binary.BigEndian.AppendUint32(k, uint32(i)*2654435761)
	return binary.LittleEndian.AppendUint64(k, uint64(i))
}

func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
