package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func TestPoolAlignsAndZeroes(t *testing.T) {
	p := NewPool(0)
	defer p.Close()
	for range 3 {
		var runs [][]byte
		for _, n := range []int{1, 63, 64, 65, 2048, 100_000, 3 << 20} {
			b, err := p.Alloc(n)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) != n || cap(b)%align != 0 || uintptr(unsafe.Pointer(&b[0]))%align != 0 {
				t.Fatalf("Alloc(%d): len %d cap %d at %p", n, len(b), cap(b), &b[0])
			}
			for i, c := range b {
				if c != 0 {
					t.Fatalf("Alloc(%d): byte %d is %d", n, i, c)
				}
			}
			for i := range b {
				b[i] = 0xff
			}
			runs = append(runs, b)
		}
		for _, b := range runs {
			p.Free(b)
		}
	}
	if got := p.InUse(); got != 0 {
		t.Fatalf("InUse after freeing everything: %d", got)
	}
}

func TestPoolReusesFreedRuns(t *testing.T) {
	p := NewPool(0)
	defer p.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	var live [][]byte
	var peak int64
	for i := range 20_000 {
		if len(live) > 100 || (len(live) > 0 && rng.IntN(2) == 0) {
			k := rng.IntN(len(live))
			p.Free(live[k])
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		b, err := p.Alloc(1 + rng.IntN(50_000))
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, b)
		if i == 2000 {
			peak = p.Reserved()
		}
	}
	if got := p.Reserved(); got > 2*peak {
		t.Fatalf("reserved %d after 20000 steps, %d after 2000", got, peak)
	}
	for _, b := range live {
		p.Free(b)
	}
	for _, r := range p.regions {
		if len(r.free) > 1 {
			t.Fatalf("%d free runs in a region nothing is used of", len(r.free))
		}
	}
}

func TestPoolBudget(t *testing.T) {
	p := NewPool(1 << 20)
	defer p.Close()
	b, err := p.Alloc(1 << 19)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Alloc(1<<19 + 1); !errors.Is(err, ErrBudget) {
		t.Fatalf("error %v, want ErrBudget", err)
	}
	p.Free(b)
	if _, err := p.Alloc(1 << 19); err != nil {
		t.Fatalf("freed memory is not reused within the budget: %v", err)
	}
}

// The error of a used-up budget tells who takes most, subtasks together.
func TestBudgetNamesTheLargest(t *testing.T) {
	p := NewPool(1 << 20)
	defer p.Close()
	for i := range 7 {
		a := p.OpenAccount(fmt.Sprintf("state %d", i))
		a.Set(int64(100 * i))
	}
	second := p.OpenAccount("state 2")
	second.Set(1000)
	gone := p.OpenAccount("gone")
	gone.Set(5000)
	p.CloseAccount(gone)
	if _, err := p.Alloc(1 << 19); err != nil {
		t.Fatal(err)
	}
	_, err := p.Alloc(1 << 20)
	want := "524288 of 1048576 bytes are in use and 1048576 more are wanted; the largest, in bytes: state 2 1200, state 6 600, state 5 500, state 4 400, state 3 300, others. Raise"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nlacks %q", err, want)
	}
}

func TestPoolClosedFails(t *testing.T) {
	p := NewPool(0)
	if _, err := p.Alloc(8); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Alloc(8); err == nil {
		t.Fatal("Alloc of a closed pool succeeds")
	}
}

func TestPoolConcurrent(t *testing.T) {
	p := NewPool(0)
	defer p.Close()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			for range 500 {
				b, err := p.Alloc(1 + rng.IntN(9000))
				if err != nil {
					t.Error(err)
					return
				}
				for i := range b {
					b[i] = byte(g)
				}
				for _, c := range b {
					if c != byte(g) {
						t.Errorf("run shared: %d in a run of %d", c, g)
						return
					}
				}
				p.Free(b)
			}
		})
	}
	wg.Wait()
}
