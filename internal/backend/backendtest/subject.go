package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/pane"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/window"
)

const (
	groups   = 12
	lifetime = 50
	slide    = 10
)

// subject is a store with a state of every kind.
type subject[K comparable] struct {
	t      testing.TB
	store  *heap.Store[K]
	hash   func(K) uint32
	groups keygroup.Range
	cur    *entry.Cursor
	now    *int64
	pool   *memory.Pool
	closed bool

	number  state.Value[int64]
	text    state.Value[string]
	aging   state.Value[string]
	list    state.List[string]
	members state.Map[string, int64]
	stamps  state.List[string]
	recent  state.Map[int64, string]
	reduced state.Reducing[int64]
	sum     state.Aggregating[int64, int64, int64]
	panes   *pane.Store[int64]
}

func newSubject[K comparable](t testing.TB, b Backend, r keygroup.Range, now *int64, stored []*Stored) *subject[K] {
	t.Helper()
	s := &subject[K]{t: t, groups: r, cur: &entry.Cursor{}, now: now, pool: pool(t)}
	reg := state.NewRegistry("op").Bind(s.cur)
	s.number = state.ValueIn[int64](reg, "number")
	s.text = state.ValueIn[string](reg, "text")
	s.aging = state.ValueIn[string](reg, "aging", state.TTL(lifetime*time.Millisecond))
	s.list = state.ListIn[string](reg, "list")
	s.members = state.MapIn[string, int64](reg, "members")
	s.stamps = state.ListIn[string](reg, "stamps", state.TTL(lifetime*time.Millisecond))
	s.recent = state.MapIn[int64, string](reg, "recent", state.TTL(lifetime*time.Millisecond, state.OnReadAndWrite, state.CleanupIncremental(20)))
	s.reduced = state.ReducingIn[int64](reg, "reduced", func(a, b int64) int64 { return a*31 + b })
	add := agg.Sum(func(v int64) int64 { return v })
	s.sum = state.AggregatingIn[int64](reg, "sum", add)
	var err error
	if s.panes, err = pane.New(pane.Config[int64]{Name: "windows", Windows: window.Tumbling(slide * time.Millisecond),
		Kind: add.Kind(), Init: add.Init, Merge: add.Merge}); err != nil {
		t.Fatal(err)
	}
	fields := append(slices.Clone(reg.Fields()), s.panes.Field(), heap.NewTimerField(entry.EventTime), heap.NewTimerField(entry.ProcessingTime))
	o := heap.Options{Operator: "op", Fields: fields, Cursor: s.cur, MaxParallelism: groups, Range: r,
		Pool: s.pool, Clock: func() int64 { return *now }}
	if stored == nil {
		b.Prepare(t, &o)
	} else {
		b.Reopen(t, &o, stored)
	}
	if s.store, err = heap.New[K](o); err != nil {
		t.Fatal(err)
	}
	s.panes.Bind(s.cur)
	h, err := keygroup.NewHasher[K]()
	if err != nil {
		t.Fatal(err)
	}
	s.hash = h.Hash
	t.Cleanup(s.close)
	return s
}

func (s *subject[K]) close() {
	if !s.closed {
		s.closed = true
		s.store.Close()
	}
}

func (s *subject[K]) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// content is all that a key holds.
type content struct {
	Number  *int64
	Text    *string
	Aging   *string
	List    []string
	Members map[string]int64
	Reduced *int64
	Sum     *int64
	Panes   map[int64]int64
	Stamps  []string
	Recent  map[int64]string
	agedAt  int64
	// stampedAt and usedAt are the times of the elements of Stamps and Recent.
	stampedAt []int64
	usedAt    map[int64]int64
	timers    [2]map[int64]bool
}

func (c *content) clone() *content {
	d := *c
	d.List = slices.Clone(c.List)
	d.Members = maps.Clone(c.Members)
	d.Panes = maps.Clone(c.Panes)
	d.Stamps, d.stampedAt = slices.Clone(c.Stamps), slices.Clone(c.stampedAt)
	d.Recent, d.usedAt = maps.Clone(c.Recent), maps.Clone(c.usedAt)
	for i := range d.timers {
		d.timers[i] = maps.Clone(c.timers[i])
	}
	return &d
}

func (c *content) String() string {
	p := func(v *int64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	}
	q := func(v *string) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.12q/%d", *v, len(*v))
	}
	list := make([]string, len(c.List))
	for i := range c.List {
		list[i] = q(&c.List[i])
	}
	return fmt.Sprintf("number %s text %s aging %s list %v members %v stamps %q recent %v reduced %s sum %s panes %v",
		p(c.Number), q(c.Text), q(c.Aging), list, c.Members, c.Stamps, c.Recent, p(c.Reduced), p(c.Sum), c.Panes)
}

// read returns what the current key holds.
func (s *subject[K]) read() *content {
	c := &content{}
	if v, ok, err := s.number.Lookup(); ok {
		c.Number = &v
	} else {
		s.check(err)
	}
	if v, ok, err := s.text.Lookup(); ok {
		c.Text = &v
	} else {
		s.check(err)
	}
	if v, ok, err := s.aging.Lookup(); ok {
		c.Aging = &v
	} else {
		s.check(err)
	}
	var err error
	if c.List, err = s.list.Get(); err != nil {
		s.t.Fatal(err)
	}
	last := ""
	for k, v := range s.members.All() {
		if c.Members == nil {
			c.Members = map[string]int64{}
		} else if k <= last {
			s.t.Fatalf("map key %q is visited after %q", k, last)
		}
		last = k
		c.Members[k] = v
	}
	s.check(s.members.Err())
	if c.Stamps, err = s.stamps.Get(); err != nil {
		s.t.Fatal(err)
	}
	for k, v := range s.recent.All() {
		if c.Recent == nil {
			c.Recent = map[int64]string{}
		}
		c.Recent[k] = v
	}
	s.check(s.recent.Err())
	if v, ok, err := s.reduced.Lookup(); ok {
		c.Reduced = &v
	} else {
		s.check(err)
	}
	if v, ok, err := s.sum.Get(); ok {
		c.Sum = &v
	} else {
		s.check(err)
	}
	for start := int64(0); start < 5*slide; start += slide {
		acc, ok, err := s.panes.Window(window.Span{Start: start, End: start + slide})
		s.check(err)
		if ok {
			if c.Panes == nil {
				c.Panes = map[int64]int64{}
			}
			c.Panes[start] = *acc
		}
	}
	return c
}

// expected is what the model has of a key at a time.
func (c *content) expected(now int64) *content {
	if c == nil {
		return &content{}
	}
	d := c.clone()
	if d.Aging != nil && d.agedAt+lifetime <= now {
		d.Aging = nil
	}
	for len(d.stampedAt) > 0 && d.stampedAt[0]+lifetime <= now {
		d.Stamps, d.stampedAt = d.Stamps[1:], d.stampedAt[1:]
	}
	if len(d.Stamps) == 0 {
		d.Stamps = nil
	}
	for k, at := range d.usedAt {
		if at+lifetime <= now {
			delete(d.Recent, k)
		}
	}
	if len(d.Recent) == 0 {
		d.Recent = nil
	}
	return d
}

// section is what a snapshot's writer got.
type section struct {
	group int
	st    snapshot.State
	count int
	data  []byte
}

type collector struct {
	group    int
	sections []section
}

func (c *collector) Section(st snapshot.State, count int, data []byte) error {
	c.sections = append(c.sections, section{c.group, st, count, bytes.Clone(data)})
	return nil
}

// encode encodes all groups.
func encode(f *heap.Frozen) ([]section, error) {
	c := &collector{}
	err := f.Settle(false)
	for g := f.Groups().First; g <= f.Groups().Last; g++ {
		c.group = g
		err = errors.Join(err, f.EncodeGroup(g, c))
	}
	return c.sections, err
}

// restore fills the store from the sections of its groups.
func (s *subject[K]) restore(sections []section, r keygroup.Range) {
	s.t.Helper()
	s.load(sections, r)
	s.check(s.store.Restored())
}

func (s *subject[K]) load(sections []section, r keygroup.Range) {
	s.t.Helper()
	for _, sec := range sections {
		if r.Contains(sec.group) {
			s.check(s.store.RestoreSection(sec.group, sec.st, sec.count, sec.data))
		}
	}
}
