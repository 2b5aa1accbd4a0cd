package watermark

import (
	"slices"
	"time"
)

// Splits computes the event time of one source subtask from the records of its
// splits. It is owned by one goroutine.
//
// OnBatch sees the records of a split before they are emitted; Tick moves the
// idle clocks; Advance, called at the watermark interval and when OnBatch asks
// for it, computes the output. The rules are those of Combiner, except that
// a split which is added holds time even if it begins behind the watermark, and
// that time never ends: a subtask without splits counts as one silent split
// until Unassigned says that it gets none for the time being.
type Splits[T any] struct {
	strategy Strategy[T]
	combined Combiner
	splits   map[string]*split[T]
	order    []*split[T]
	// busy are the splits that are not idle: those that are cost nothing.
	busy []*split[T]
	free []int
	last *split[T]
	// nothing stands for the splits while there are none, at channel 0.
	nothing *split[T]
	// told is the output that Advance and OnBatch have reported.
	told     int64
	toldIdle bool

	ticked int64
	clock  bool
	ahead  int64
}

// split is one split and how long nothing has come from it.
type split[T any] struct {
	id        string
	channel   int
	generator Generator[T]
	paused    bool
	// quiet is in milliseconds; stirred says that records came since the last tick.
	quiet   int64
	stirred bool
}

// NewSplits returns the tracker of a source subtask that has no split yet.
func NewSplits[T any](s Strategy[T]) *Splits[T] {
	return &Splits[T]{
		strategy: s,
		combined: *NewCombiner(1),
		splits:   map[string]*split[T]{},
		nothing:  &split[T]{stirred: true},
		told:     None,
	}
}

// Add registers a split before its first record: until that it holds time.
// Adding a split that is there does nothing.
func (s *Splits[T]) Add(id string) { s.get(id) }

// Unassigned says that there is no split for the subtask for the time being:
// without splits it is idle at once, whatever the idle timeout. Without being
// told, a subtask may be about to get its first split, and holds time.
func (s *Splits[T]) Unassigned() {
	if len(s.order) == 0 {
		s.combined.SetIdle(0)
	}
}

// Len is the number of splits.
func (s *Splits[T]) Len() int { return len(s.order) }

// Release takes out a split that is finished or was given away.
func (s *Splits[T]) Release(id string) {
	sp := s.splits[id]
	if sp == nil {
		return
	}
	s.raise(sp)
	if len(s.order) == 1 {
		*s.nothing = split[T]{quiet: sp.quiet, stirred: sp.stirred}
		s.combined.channels[0] = s.combined.channels[sp.channel]
	}
	s.combined.leave(sp.channel)
	s.free = append(s.free, sp.channel)
	delete(s.splits, id)
	isIt := func(o *split[T]) bool { return o == sp }
	s.order, s.busy = slices.DeleteFunc(s.order, isIt), slices.DeleteFunc(s.busy, isIt)
	s.last = nil
}

// Pause stops the idle clock of a split that is not read on purpose.
func (s *Splits[T]) Pause(id string) { s.get(id).paused = true }

// Resume ends a Pause.
func (s *Splits[T]) Resume(id string) { s.get(id).paused = false }

func (s *Splits[T]) get(id string) *split[T] {
	if s.last != nil && s.last.id == id {
		return s.last
	}
	sp := s.splits[id]
	if sp == nil {
		sp = s.add(id)
	}
	s.last = sp
	return sp
}

func (s *Splits[T]) add(id string) *split[T] {
	sp := &split[T]{id: id, channel: len(s.combined.channels), stirred: true}
	if n := len(s.free); n > 0 {
		sp.channel, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.combined.channels = append(s.combined.channels, channel{})
	}
	s.combined.channels[sp.channel] = channel{watermark: None}
	s.combined.channels[0].state = gone
	s.combined.settle(false) // active, before the split's first record
	if s.strategy.generate != nil {
		sp.generator = s.strategy.generate()
	}
	s.splits[id] = sp
	s.order, s.busy = append(s.order, sp), append(s.busy, sp)
	return sp
}

// Step is what OnBatch made of a batch.
type Step struct {
	// Taken is how many of the records it took. The others are shown to
	// OnBatch again after these were emitted.
	Taken int
	// Active: the output was idle; forward that it is active again, then emit.
	Active bool
	// Forward: call Advance right after the records taken were emitted, and
	// forward what it changed before anything else.
	Forward bool
}

// OnBatch shows records of a split, with their event times, that are about to
// be emitted. wall is the wall clock in milliseconds.
func (s *Splits[T]) OnBatch(id string, vals []T, times []int64, wall int64) Step {
	if len(vals) == 0 {
		return Step{}
	}
	sp := s.get(id)
	sp.stirred = true
	var step Step
	if s.combined.channels[sp.channel].state == idle {
		s.raise(sp)
		s.combined.SetActive(sp.channel)
		s.busy = append(s.busy, sp)
		step.Forward = true
	}
	if s.toldIdle && !s.combined.idle {
		s.toldIdle, step.Active = false, true
	}
	times = times[:len(vals)]
	highest := s.offer(sp, vals, times, wall, &step)
	if far := after(wall, time.Hour.Milliseconds()); highest > far {
		for _, t := range times[:step.Taken] {
			if t > far {
				s.ahead++
			}
		}
	}
	return step
}

// Ahead is the number of records so far that were more than an hour ahead of
// the wall clock, whether or not they moved the watermark.
func (s *Splits[T]) Ahead() int64 { return s.ahead }

// offer shows the generator what may move the watermark and returns the
// highest time of all.
func (s *Splits[T]) offer(sp *split[T], vals []T, times []int64, wall int64, step *Step) int64 {
	lowest, highest := End, None
	for _, t := range times {
		lowest, highest = min(lowest, t), max(highest, t)
	}
	limit := s.strategy.limit(wall)
	var cut bool
	switch {
	case sp.generator == nil:
		step.Taken = len(vals)
	case lowest == None || highest > limit:
		step.Taken, cut = filtered(sp.generator, vals, times, limit)
	default:
		step.Taken, cut = show(sp.generator, vals, times)
	}
	step.Forward = step.Forward || cut
	return highest
}

// filtered shows a generator the runs of records that have a time up to limit.
func filtered[T any](g Generator[T], vals []T, times []int64, limit int64) (taken int, forward bool) {
	shown := func(t int64) bool { return t != None && t <= limit }
	for i := 0; i < len(times); {
		if !shown(times[i]) {
			i++
			continue
		}
		j := i + 1
		for j < len(times) && shown(times[j]) {
			j++
		}
		n, forward := show(g, vals[i:j], times[i:j])
		if forward {
			return i + n, true
		}
		i = j
	}
	return len(times), false
}

// show holds a generator to its contract: it takes a record at least, and one
// that leaves some wants to be asked for its watermark.
func show[T any](g Generator[T], vals []T, times []int64) (taken int, forward bool) {
	taken, forward = g.OnBatch(vals, times)
	taken = min(max(taken, 1), len(vals))
	return taken, forward || taken < len(vals)
}

// Tick moves the idle clocks to now, in milliseconds of a monotonic clock.
// running tells whether the source was free to emit all the time since the
// last Tick: time in which it was back-pressured, or stopped by an alignment,
// counts for no split. A split whose records came between two Ticks is quiet
// from the second on.
func (s *Splits[T]) Tick(now int64, running bool) {
	passed := now - s.ticked
	if !s.clock || !running {
		passed = 0
	}
	s.ticked, s.clock = now, true
	if len(s.order) == 0 {
		s.nothing.tick(passed)
	}
	for _, sp := range s.busy {
		sp.tick(passed)
	}
}

func (sp *split[T]) tick(passed int64) {
	switch {
	case sp.stirred:
		sp.quiet, sp.stirred = 0, false
	case !sp.paused:
		sp.quiet += passed
	}
}

// Advance computes the output from what the splits have brought and from their
// idle clocks, and returns what is to be forwarded.
func (s *Splits[T]) Advance() Change {
	for _, sp := range s.busy {
		s.raise(sp)
	}
	s.combined.settle(false)
	if s.strategy.idle > 0 {
		if len(s.order) == 0 {
			s.rest(s.nothing)
		}
		for _, sp := range s.busy {
			s.rest(sp)
		}
		s.busy = slices.DeleteFunc(s.busy, func(sp *split[T]) bool { return s.combined.channels[sp.channel].state == idle })
	}
	c := Change{s.combined.output > s.told, s.combined.idle != s.toldIdle}
	s.told, s.toldIdle = s.combined.output, s.combined.idle
	return c
}

// raise takes over the watermark of a split's generator, which never ends time.
func (s *Splits[T]) raise(sp *split[T]) {
	if sp.generator != nil {
		s.combined.raise(sp.channel, min(sp.generator.Current(), End-1))
	}
}

// rest makes a split idle that has been quiet for long enough.
func (s *Splits[T]) rest(sp *split[T]) {
	if !sp.stirred && sp.quiet >= s.strategy.idle {
		s.combined.SetIdle(sp.channel)
	}
}

// Watermark is the output that Advance has computed last, None before the
// first.
func (s *Splits[T]) Watermark() int64 { return s.told }

// Idle reports whether the output is idle: every split has been silent for the
// idle timeout.
func (s *Splits[T]) Idle() bool { return s.toldIdle }
