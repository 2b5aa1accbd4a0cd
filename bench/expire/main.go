// Command expire inserts ever new ids with a short time to live, at full
// speed, and watches that memory and probe lengths stay flat:
//
//	go run ./expire -duration 5m
//
// It ends with exit code 1 if either grew after the first fifth of the time.
package main

import (
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/state"
)

const (
	groups = 128
	batch  = 1024
)

func main() {
	duration := flag.Duration("duration", 5*time.Minute, "how long to run")
	ttl := flag.Duration("ttl", time.Second, "time to live of an id")
	flag.Parse()
	if err := run(*duration, *ttl); err != nil {
		fmt.Fprintln(os.Stderr, "expire:", err)
		os.Exit(1)
	}
}

// dedupe is the state of the deduplicating job.
type dedupe struct {
	pool  *memory.Pool
	store *heap.Store[string]
	seen  state.Value[bool]
	hash  keygroup.Hasher[string]
	ids   []string
	sums  []uint32
	text  []byte
	next  uint64
}

func newDedupe(ttl time.Duration) (*dedupe, error) {
	d := &dedupe{pool: memory.NewPool(0), ids: make([]string, batch), sums: make([]uint32, batch), text: make([]byte, batch*36)}
	cur := &entry.Cursor{}
	declared := state.NewRegistry("dedupe")
	state.ValueIn[bool](declared, "seen", state.TTL(ttl))
	r := declared.Bind(cur)
	d.seen = state.ValueIn[bool](r, "seen", state.TTL(ttl))
	var err error
	if d.hash, err = keygroup.NewHasher[string](); err != nil {
		return nil, err
	}
	d.store, err = heap.New[string](heap.Options{
		Operator: "dedupe", Fields: r.Fields(), Cursor: cur, MaxParallelism: groups,
		Range: keygroup.Range{First: 0, Last: groups - 1}, Pool: d.pool,
		Clock: func() int64 { return time.Now().UnixMilli() },
	})
	return d, err
}

// insert looks up a batch of ids never seen before and marks them seen.
func (d *dedupe) insert() error {
	for i := range d.ids {
		d.next++
		var raw [16]byte
		binary.BigEndian.PutUint64(raw[:], d.next*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(raw[8:], d.next)
		b := d.text[i*36 : i*36+36]
		hex.Encode(b, raw[:])
		copy(b[32:], "-req")
		d.ids[i] = unsafe.String(&b[0], len(b))
	}
	d.hash.HashAll(d.ids, d.sums)
	d.store.Bind(d.ids, d.sums)
	for i := range d.ids {
		d.store.Seek(i)
		dup, err := d.seen.Get()
		if err == nil && dup {
			err = fmt.Errorf("id %s was never seen, but is said to be", d.ids[i])
		}
		if err == nil {
			err = d.seen.Set(true)
		}
		if err != nil {
			return err
		}
	}
	d.store.Release()
	return nil
}

// sample is what is watched.
type sample struct {
	reserved  int64
	meanProbe float64
}

func run(duration, ttl time.Duration) error {
	d, err := newDedupe(ttl)
	if err != nil {
		return err
	}
	begin := time.Now()
	var settled, last sample
	fmt.Println("seconds  M inserts/s      keys  memory MB  probe mean  probe max")
	for report, before := begin, uint64(0); time.Since(begin) < duration; {
		for range 64 {
			if err := d.insert(); err != nil {
				return err
			}
		}
		if now := time.Now(); now.Sub(report) >= duration/30 {
			s := d.store.Stats()
			last = sample{d.pool.Reserved(), s.MeanProbe}
			if settled.reserved == 0 && now.Sub(begin) >= duration/5 {
				settled = last
			}
			fmt.Printf("%7.0f  %11.2f  %8d  %9d  %10.2f  %9d\n", now.Sub(begin).Seconds(),
				float64(d.next-before)/now.Sub(report).Seconds()/1e6, s.Keys, last.reserved>>20, s.MeanProbe, s.MaxProbe)
			report, before = time.Now(), d.next
		}
	}
	if last.reserved > settled.reserved*11/10 {
		return fmt.Errorf("memory grew from %d to %d bytes", settled.reserved, last.reserved)
	}
	if last.meanProbe > 1.5*settled.meanProbe+0.5 {
		return fmt.Errorf("the mean probe grew from %.2f to %.2f", settled.meanProbe, last.meanProbe)
	}
	return nil
}
