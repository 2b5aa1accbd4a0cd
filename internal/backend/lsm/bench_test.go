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
	key := func(i int) []byte {
		k := binary.BigEndian.AppendUint16(nil, uint16(i%64))
		k = binary.BigEndian.AppendUint32(k, uint32(i)*2654435761)
		return binary.LittleEndian.AppendUint64(k, uint64(i))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	row := make([]byte, 100)
	for n, c := 0, t.Change(); n < 2*rows; n++ {
		i := rng.IntN(rows)
		binary.LittleEndian.PutUint64(row, uint64(n))
		binary.LittleEndian.PutUint64(row[50:], rng.Uint64())
		if err := c.Put(key(i), row); err != nil {
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
			keys[i] = key(rng.IntN(rows))
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

func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
