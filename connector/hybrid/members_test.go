package hybrid_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/connector/hybrid"
)

// Events, requests, gauges and completed checkpoints reach the source that they
// concern, while it is read.
func TestSourcesAreTalkedToInTheirTime(t *testing.T) {
	j := &journal{}
	first := &probe{Sequence: slice(0, 2), name: "first", journal: j}
	second := &probe{Sequence: slice(2, 4), name: "second", journal: j}
	c := &connectortest.Context{Hosts: []string{"", "h1"}}
	r, err := connectortest.StartSource(hybrid.Then(hybrid.New(first), second), 2, nil, c)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	r.Batch = 1
	must(t, r.Count(t.Context(), 1))
	_, err = r.Snapshot(1)
	must(t, err)
	must(t, r.Count(t.Context(), 3))
	must(t, r.Complete(1)) // which the second source knows nothing of
	_, err = r.Snapshot(2)
	must(t, err)
	must(t, r.Complete(2))
	must(t, r.Run(t.Context()))

	order := []string{
		"first has reader 1", "first told hello by 1", "first tells welcome to 1", "first closed: context canceled",
		"second has reader 1", "second told hello by 1", "second tells welcome to 1", "second completes 2", "second reader 0 completes 2",
	}
	for i := range order[1:] {
		if j.index(t, order[i]) > j.index(t, order[i+1]) {
			t.Errorf("%q came before %q", order[i+1], order[i])
		}
	}
	j.index(t, "first asked by 1 on h1")
	j.index(t, "first reader 0 closed")
	for _, line := range []string{"first completes 1", "first completes 2", "second completes 1", "second reader 0 completes 1"} {
		if j.has(line) {
			t.Errorf("%q happened", line)
		}
	}
	for _, id := range []string{"1/0", "2/0"} {
		if v, ok := c.Gauge("pending", id); v != 7 || !ok {
			t.Errorf("gauge of split %s is %d, set: %t", id, v, ok)
		}
	}
}

// One source calls again and again, of the next a call is under way when its
// time is over: neither gets a result afterwards, and each is closed when no
// call is left.
func TestCallsEndWithTheirSource(t *testing.T) {
	j := &journal{}
	begun, gone, let := make(chan struct{}), make(chan struct{}), make(chan struct{})
	polling := &probe{
		Sequence: slice(0, 3), name: "polling", journal: j,
		poll: func(context.Context) (any, error) { return nil, nil },
	}
	slow := &probe{
		Sequence: slice(3, 6), name: "slow", journal: j, once: true,
		poll: func(ctx context.Context) (any, error) {
			close(begun)
			<-ctx.Done() // at the switch
			close(gone)
			<-let
			return nil, nil
		},
	}
	r := start(t, hybrid.Then(hybrid.Then(hybrid.New(polling), slow), slice(6, 7)), 1, nil)
	r.Batch = 1
	must(t, r.Count(t.Context(), 1))
	must(t, r.Pause(0, []string{"1/0"}, nil))
	must(t, r.Until(t.Context(), func() bool { return j.has("polling called") }))
	must(t, r.Pause(0, nil, []string{"1/0"}))
	must(t, r.Count(t.Context(), 4))
	must(t, r.Pause(0, []string{"2/0"}, nil))
	<-begun
	must(t, r.Pause(0, nil, []string{"2/0"}))
	must(t, r.Count(t.Context(), 7))
	<-gone
	if j.has("slow closed: context canceled") {
		t.Error("an enumerator was closed while its call was under way")
	}
	close(let)
	must(t, r.Until(t.Context(), func() bool {
		return j.has("slow closed: context canceled") && j.has("polling closed: context canceled")
	}))
	over := j.lines[j.index(t, "polling reader 0 closed"):]
	if slices.Contains(over, "polling called") || j.has("slow called") {
		t.Errorf("a source whose time is over got the result of a call: %q", over)
	}
}

// What a reader that failed said before must not be taken for the word of its
// successor, which reads again.
func TestAReaderThatFailedIsNotOver(t *testing.T) {
	for steps := range 12 { // the failure comes before and after each step
		r := start(t, hybrid.Then(hybrid.New(numbers(0, 4)), slice(4, 6)), 2, nil)
		r.Batch = 1
		for range steps {
			_, err := r.Step()
			must(t, err)
		}
		must(t, r.FailReader(1))
		_, err := r.Step()
		must(t, err)
		must(t, r.Pause(1, []string{"1/1"}, nil))
		for range 100 { // time to switch, which must not be used
			_, err := r.Step()
			must(t, err)
			runtime.Gosched()
		}
		must(t, r.Pause(1, nil, []string{"1/1"}))
		must(t, r.Run(t.Context()))
		got := r.Values()
		slices.Sort(got)
		if want := upTo(6); !slices.Equal(got, want) {
			t.Errorf("a reader failed after %d steps: %v, want %v", steps, got, want)
		}
	}
}

// A reader fails while the position is looked for, and has not read all of the
// source before when it is found.
func TestAReaderFailsDuringTheSwitch(t *testing.T) {
	asked, let := make(chan struct{}, 2), make(chan struct{})
	chain := hybrid.ThenAt(hybrid.New(slice(0, 4)), hybrid.Switch[int64, datagen.Split, datagen.Enumeration]{
		Position: func(context.Context, []byte) ([]byte, error) {
			asked <- struct{}{}
			<-let
			return []byte("20"), nil
		},
		Source: from,
	})
	r := start(t, chain, 2, nil)
	r.Batch = 1
	must(t, r.Count(t.Context(), 4))
	for len(asked) == 0 {
		_, err := r.Step()
		must(t, err)
	}
	must(t, r.FailReader(0))
	_, err := r.Step()
	must(t, err)
	must(t, r.Pause(0, []string{"1/0"}, nil))
	close(let)
	for range 100 {
		_, err := r.Step()
		must(t, err)
	}
	must(t, r.Pause(0, nil, []string{"1/0"}))
	must(t, r.Run(t.Context()))
	if got, want := r.Values(), []int64{0, 1, 2, 3, 20, 21, 22, 23}; !slices.Equal(got, want) {
		t.Errorf("emitted %v, want %v", got, want)
	}
}

// Splits of a source that was made at the switch go back to its enumerator, if
// that deals them out anew.
func TestAMadeSourceReassigns(t *testing.T) {
	back := 0
	chain := hybrid.ThenAt(hybrid.New(slice(0, 2)), hybrid.Switch[int64, datagen.Split, datagen.Enumeration]{
		Source: func([]byte) (connector.Source[int64, datagen.Split, datagen.Enumeration], error) {
			return counted{slice(2, 9), &back}, nil
		},
	})
	r := start(t, chain, 1, nil)
	r.Batch = 1
	must(t, r.Count(t.Context(), 5))
	snap, err := r.Snapshot(1)
	must(t, err)
	again := start(t, chain, 3, snap)
	must(t, again.Run(t.Context()))
	if got := append(r.Values(), again.Values()...); !slices.Equal(got, upTo(9)) || back != 1 {
		t.Errorf("emitted %v, and %d splits came back; want each once, and 1", got, back)
	}
}

// counted is a source that counts the splits which it gets back.
type counted struct {
	*datagen.Sequence[int64]
	back *int
}

func (counted) ReassignSplits() bool { return true }

func (c counted) NewEnumerator(ctx connector.EnumeratorContext[datagen.Split], restored *datagen.Enumeration) (connector.Enumerator[datagen.Split, datagen.Enumeration], error) {
	e, err := c.Sequence.NewEnumerator(ctx, restored)
	return countingBack{e, c.back}, err
}

type countingBack struct {
	connector.Enumerator[datagen.Split, datagen.Enumeration]
	back *int
}

func (c countingBack) AddSplitsBack(splits []datagen.Split, subtask int) error {
	*c.back += len(splits)
	return c.Enumerator.AddSplitsBack(splits, subtask)
}

// Both readers fail when they are in the third source, and one goes back to the
// first, the other to the second. A snapshot of that is restored: with one
// reader, that has splits of both.
func TestReadersThatAreFarBehind(t *testing.T) {
	chain := hybrid.Then(hybrid.Then(hybrid.New(numbers(0, 6)), slice(6, 12)), slice(12, 20))
	r := start(t, chain, 2, nil)
	r.Batch = 1
	complete := func(id int64) {
		t.Helper()
		_, err := r.Snapshot(id)
		must(t, err)
		must(t, r.Complete(id))
	}
	must(t, r.Count(t.Context(), 2)) // one of each reader
	complete(1)
	must(t, r.Count(t.Context(), 8)) // in the second source
	must(t, r.FailReader(1))
	_, err := r.Step()
	must(t, err)
	complete(2)
	must(t, r.Until(t.Context(), func() bool { return slices.Contains(r.Values(), 13) }))
	must(t, r.FailReader(0))
	must(t, r.FailReader(1))
	before := slices.Clone(r.Values())
	snap, err := r.Snapshot(3)
	must(t, err)
	in := map[int]bool{}
	for _, b := range snap.Splits {
		split, err := chain.SplitCodec().Decode(b)
		must(t, err)
		in[split.Member] = true
	}
	if !in[0] || !in[1] {
		t.Fatalf("readers have splits of sources %v, want 0 and 1", in)
	}
	all := func(records []int64, when string) {
		t.Helper()
		slices.Sort(records)
		if !slices.Equal(records, upTo(20)) {
			t.Errorf("%s: %v, want 20 numbers", when, records)
		}
	}
	for _, parallelism := range []int{1, 2, 3} {
		again := start(t, chain, parallelism, snap)
		must(t, again.Run(t.Context()))
		all(append(slices.Clone(before), again.Values()...), fmt.Sprint("restored with readers: ", parallelism))
	}
	must(t, r.Run(t.Context()))
	all(r.Values(), "gone on")
}

// A restored split that its source does not deal out anew is the reader's it was
// given to, also when that one fails.
func TestRestoredSplitsStayWithTheirReader(t *testing.T) {
	chain := hybrid.Then(hybrid.New(numbers(0, 7)), reassigned{slice(7, 10)})
	r := start(t, chain, 3, nil) // splits 0 to 2, 3 and 4, 5 and 6
	r.Batch = 1
	must(t, r.Count(t.Context(), 3))
	must(t, r.Pause(0, []string{"1/0"}, nil))
	must(t, r.Pause(2, []string{"1/2"}, nil))
	must(t, r.Count(t.Context(), 4))
	_, err := r.Step()
	must(t, err)
	snap, err := r.Snapshot(1)
	must(t, err)
	if n := len(snap.Splits); n != 2 {
		t.Fatalf("%d splits, want the two that are paused", n)
	}
	again := start(t, chain, 2, snap)
	again.Batch = 1
	_, err = again.Step()
	must(t, err)
	must(t, again.FailReader(1))
	must(t, again.Run(t.Context()))
	got := append(r.Values(), again.Values()...)
	slices.Sort(got)
	if !slices.Equal(got, upTo(10)) {
		t.Errorf("emitted %v, want 10 numbers", got)
	}
}
