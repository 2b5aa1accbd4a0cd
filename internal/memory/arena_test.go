package memory

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestSizeClassesAreContiguous(t *testing.T) {
	last, lastUnits := 0, uint32(0)
	for n := uint32(1); n < 1<<20; n++ {
		class, units := sizeClass(n)
		if units < n || units >= n+max(n/4, 1) && n > 8 {
			t.Fatalf("sizeClass(%d) = %d units", n, units)
		}
		if class != last && (class != last+1 || lastUnits != n-1) {
			t.Fatalf("class %d begins at %d after class %d of %d", class, n, last, lastUnits)
		}
		last, lastUnits = class, units
		if b := classBelow(n); b > n || n-b > n/4 {
			t.Fatalf("classBelow(%d) = %d", n, b)
		} else if _, u := sizeClass(b); u != b {
			t.Fatalf("classBelow(%d) = %d is no class", n, b)
		}
	}
}

func TestArenaSmallFootprint(t *testing.T) {
	p := NewPool(0)
	defer p.Close()
	a := NewArena(p)
	for range 100 {
		a.Alloc(200)
	}
	if got := p.InUse(); got != chunkBytes {
		t.Fatalf("100 blocks of 200 bytes take %d", got)
	}
	a.Close()
	if got := p.InUse(); got != 0 {
		t.Fatalf("%d bytes in use after Close", got)
	}
}

func TestArenaLargeBlockFirst(t *testing.T) {
	for _, n := range []int{chunkBytes - 8, chunkBytes, 5 << 20} {
		p := NewPool(0)
		a := NewArena(p)
		h := a.Alloc(n)
		g := a.Alloc(10)
		if h == 0 || g == 0 || a.Cap(h) < n {
			t.Fatalf("handles %d, %d, capacity %d", h, g, a.Cap(h))
		}
		b := a.Bytes(h, n)
		for i := range b {
			b[i] = 7
		}
		copy(a.Bytes(g, 10), "0123456789")
		if !bytes.Equal(b, bytes.Repeat([]byte{7}, n)) || string(a.View().Bytes(g, 10)) != "0123456789" {
			t.Fatal("blocks overlap")
		}
		a.Close()
		p.Close()
	}
}

// What an allocation that failed has left may be incomplete, so no snapshot is
// taken of it either.
func TestArenaBudgetPanics(t *testing.T) {
	p := NewPool(chunkBytes)
	defer p.Close()
	a := NewArena(p)
	panics := func(what string, fn func()) {
		t.Helper()
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, ErrBudget) {
				t.Fatalf("%s panics with %v, want ErrBudget", what, err)
			}
		}()
		fn()
	}
	a.Alloc(10)
	panics("Alloc", func() { a.Alloc(chunkBytes) })
	panics("Freeze", func() { a.Freeze() })
}

// A block freed while two snapshots read it comes back when both are done, in
// either order.
func TestArenaDefersReuse(t *testing.T) {
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		p := NewPool(0)
		a := NewArena(p)
		h := a.Alloc(40)
		if !a.Writable(h) {
			t.Fatal("a new block is not writable")
		}
		views := [2]View{a.Freeze(), a.Freeze()}
		if a.Writable(h) {
			t.Fatal("a frozen block is writable")
		}
		a.Free(h)
		young := a.Alloc(40)
		if young == h || !a.Writable(young) {
			t.Fatalf("block %d handed out again while frozen", h)
		}
		a.Thaw(views[order[0]])
		if got := a.Alloc(40); got == h {
			t.Fatal("reused with one snapshot pending")
		}
		a.Thaw(views[order[1]])
		if got := a.Alloc(40); got != h {
			t.Fatalf("got %d, want the freed block %d", got, h)
		}
		a.Close()
		p.Close()
	}
}

// A long snapshot does not hold back blocks that were born and freed after it.
func TestArenaYoungBlocksPassALongSnapshot(t *testing.T) {
	p := NewPool(0)
	defer p.Close()
	a := NewArena(p)
	long := a.Freeze()
	h := a.Alloc(100)
	for range 10_000 {
		v := a.Freeze()
		g := a.Alloc(100)
		a.Free(h)
		h = g
		a.Thaw(v)
	}
	if got := p.InUse(); got > 2*chunkBytes {
		t.Fatalf("%d bytes in use", got)
	}
	a.Thaw(long)
	a.Close()
}

// model drives an arena with the operations in ops and checks every block and
// every view against copies. Views are read on another goroutine.
func model(t *testing.T, ops []byte) {
	p := NewPool(0)
	defer p.Close()
	a := NewArena(p)
	type block struct {
		h    Handle
		want []byte
	}
	type frozen struct {
		v    View
		done chan struct{}
	}
	var live []*block
	var pending []frozen
	var readers sync.WaitGroup
	rng := rand.New(rand.NewPCG(uint64(len(ops)), 7))
	fill := func(b []byte) {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	thaw := func(i int) {
		<-pending[i].done
		a.Thaw(pending[i].v)
		pending = append(pending[:i], pending[i+1:]...)
	}
	for _, op := range ops {
		switch k := int(op >> 3); op & 7 {
		case 0, 1:
			n := 1 + rng.IntN(1<<(k%18))
			b := &block{h: a.Alloc(n), want: make([]byte, n)}
			fill(b.want)
			copy(a.Bytes(b.h, n), b.want)
			live = append(live, b)
		case 2:
			if len(live) > 0 {
				i := rng.IntN(len(live))
				a.Free(live[i].h)
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			}
		case 3, 4: // change in place, or copy
			if len(live) > 0 {
				b := live[rng.IntN(len(live))]
				if !a.Writable(b.h) {
					old := b.h
					b.h = a.Alloc(len(b.want))
					a.Free(old)
				}
				fill(b.want)
				copy(a.Bytes(b.h, len(b.want)), b.want)
			}
		case 5: // append in place
			if len(live) > 0 {
				b := live[rng.IntN(len(live))]
				n := len(b.want)
				if room := a.Cap(b.h) - n; room > 0 {
					more := make([]byte, 1+rng.IntN(room))
					fill(more)
					b.want = append(b.want, more...)
					copy(a.Bytes(b.h, len(b.want))[n:], more)
				}
			}
		case 6:
			f := frozen{a.Freeze(), make(chan struct{})}
			type pair struct {
				h    Handle
				want []byte
			}
			var all []pair
			for _, b := range live {
				all = append(all, pair{b.h, bytes.Clone(b.want)})
			}
			readers.Go(func() {
				defer close(f.done)
				for _, b := range all {
					if got := f.v.Bytes(b.h, len(b.want)); !bytes.Equal(got, b.want) {
						t.Errorf("block %d of %d bytes changed under a view", b.h, len(b.want))
						return
					}
				}
			})
			pending = append(pending, f)
		case 7:
			if len(pending) > 0 {
				thaw(rng.IntN(len(pending)))
			}
		}
	}
	for _, b := range live {
		if !bytes.Equal(a.Bytes(b.h, len(b.want)), b.want) {
			t.Fatalf("block %d differs", b.h)
		}
	}
	for len(pending) > 0 {
		thaw(0)
	}
	readers.Wait()
	a.Close()
	if got := p.InUse(); got != 0 {
		t.Fatalf("%d bytes in use after Close", got)
	}
}

func TestArenaModel(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		ops := make([]byte, 2000)
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		model(t, ops)
	}
}

func FuzzArena(f *testing.F) {
	f.Add([]byte{0, 8, 6, 3, 2, 7, 0, 255, 130, 6, 5, 5, 7})
	f.Fuzz(func(t *testing.T, ops []byte) {
		model(t, ops[:min(len(ops), 4000)]) // longer ones find nothing more and take long
	})
}

func BenchmarkArenaAllocFree(b *testing.B) {
	p := NewPool(0)
	defer p.Close()
	a := NewArena(p)
	b.ReportAllocs()
	for b.Loop() {
		a.Free(a.Alloc(100))
	}
}

func BenchmarkArenaBytes(b *testing.B) {
	p := NewPool(0)
	defer p.Close()
	a := NewArena(p)
	h := a.Alloc(100)
	var sum byte
	for b.Loop() {
		sum += a.Bytes(h, 8)[0]
	}
	_ = sum
}
