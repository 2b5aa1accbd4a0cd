package exchange

import (
	"testing"
	"testing/synctest"

	"github.com/weirstream/weir/internal/stage"
)

func data(n int64) stage.Element { return stage.Element{Kind: stage.Data, Time: n} }

func TestOrderAndRoom(t *testing.T) {
	c := New(stage.NewWaker(), stage.NewWaker(), nil)
	for i := range int64(Bound) {
		if !c.HasRoom() {
			t.Fatalf("no room after %d of %d elements", i, Bound)
		}
		c.Push(data(i))
	}
	if c.HasRoom() {
		t.Fatal("room beyond the bound")
	}
	for i := range int64(3 * Bound) { // an overdraft, which makes the ring grow
		c.Push(data(Bound + i))
	}
	for i := range int64(4 * Bound) {
		e, ok := c.Poll()
		if !ok || e.Time != i {
			t.Fatalf("element %d: got %v, %v", i, e.Time, ok)
		}
		if c.HasRoom() != (3*Bound < i+1) {
			t.Fatalf("room after taking %d is %v", i+1, c.HasRoom())
		}
	}
	if _, ok := c.Poll(); ok {
		t.Fatal("an element out of nothing")
	}
}

func TestWakeUps(t *testing.T) {
	p, q := stage.NewWaker(), stage.NewWaker()
	c := New(p, q, nil)
	q.Doze()
	c.Push(data(0))
	<-q.C
	for i := range int64(Bound) {
		c.Push(data(i))
	}
	p.Doze()
	c.Poll() // Bound are left
	select {
	case <-p.C:
		t.Fatal("the producer was woken without room")
	default:
	}
	c.Poll()
	<-p.C
}

func TestDataBeyondTheOverdraftWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		abort := make(chan struct{})
		c := New(stage.NewWaker(), stage.NewWaker(), abort)
		for i := range int64(Bound + Overdraft) {
			c.Push(data(i))
		}
		pushed := 0
		go func() {
			c.Push(data(-1))
			pushed++
			for range Bound + Overdraft {
				c.Push(data(-2))
			}
			pushed++
		}()
		synctest.Wait()
		if pushed != 0 {
			t.Fatal("data was pushed beyond the overdraft")
		}
		c.Push(stage.Element{Kind: stage.Watermark}) // control elements do not wait
		for range Overdraft + 2 {                    // Bound - 1 are left
			c.Poll()
		}
		synctest.Wait()
		if pushed != 1 {
			t.Fatalf("%d of the pushes went on; want the first, and the rest to wait again", pushed)
		}
		close(abort)
		synctest.Wait()
		if pushed != 2 {
			t.Fatal("abort did not end the wait")
		}
	})
}
