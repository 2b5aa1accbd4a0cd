package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

var (
	errNoReduce         = errors.New("the reduce function is nil")
	errNoAggregator     = errors.New("the aggregator is nil")
	errAccumulatorCodec = errors.New("an accumulator is kept as the aggregator defines it; a codec cannot be given")
)

// Registry is where a function declares its state. A constructor gets one
// and passes it on to ValueIn, ListIn, MapIn and so on.
//
// The constructor runs more than once: when the job is built, and in each
// subtask. It must declare the same states in the same order every time.
//
// The methods are for the engine.
type Registry struct {
	operator string
	// declared is what an earlier run of the constructor declared, nil in
	// the first.
	declared *Registry
	cur      *entry.Cursor
	names    []string
	fields   []*entry.Field
	domains  []entry.Domain
	lists    []operatorState
	raws     []*rawGroups
	// groups are the key groups of the subtask, maxParallelism is the number of
	// all, 0 before BindGroups.
	groups         keygroup.Range
	maxParallelism int
	// broadcast says whether there is broadcast state, and writable whether it
	// may be written now.
	broadcast, writable bool
	errs                []error
}

// NewRegistry returns a registry that records what is declared for an
// operator. Handles declared in it return ErrNoKey.
func NewRegistry(operator string) *Registry {
	return &Registry{operator: operator, cur: new(entry.Cursor)}
}

// Bind returns a registry for another run of the constructor, in a subtask:
// its handles work on the entry at the cursor, once entry.Plan has placed its
// Fields. Err then tells whether all is declared as in r.
func (r *Registry) Bind(cur *entry.Cursor) *Registry {
	return &Registry{operator: r.operator, declared: r, cur: cur}
}

// Fields returns the keyed states in the order they were declared. Those of
// timers are not among them: see TimerDomains.
func (r *Registry) Fields() []*entry.Field { return r.fields }

// TimerDomains returns the domains of timers that were declared, in the order
// of their constants.
func (r *Registry) TimerDomains() []entry.Domain { return r.domains }

// Err returns what is wrong with the declarations, nil if nothing is.
func (r *Registry) Err() error {
	errs := r.errs
	if n := len(r.fields) + len(r.domains); n > entry.MaxFields {
		errs = append(slices.Clip(errs), fmt.Errorf("operator %q: %d keyed states and time domains of timers; at most %d are possible", r.operator, n, entry.MaxFields))
	}
	if d := r.declared; d != nil {
		errs = append(slices.Clip(errs), d.compare(r)...)
	}
	return errors.Join(errs...)
}

// cell returns what a handle needs to work.
func (r *Registry) cell(o options) cell {
	return cell{cur: r.cur, ttl: o.ttl, migrations: o.migrations}
}

// declare adds a keyed state; init completes its field.
func (r *Registry) declare(f *entry.Field, o options, init func() error) {
	if !r.name(f.Name) {
		return
	}
	f.Lifetime, f.Sweep = o.ttl.millis, o.ttl.sweep
	r.fields = append(r.fields, f)
	if err := init(); err != nil {
		r.fail(f.Name, err)
	}
	if o.err != nil {
		r.fail(f.Name, o.err)
	}
}

// name takes a name, which must be free.
func (r *Registry) name(name string) bool {
	switch {
	case name == "":
		r.errs = append(r.errs, fmt.Errorf("operator %q: a state has no name", r.operator))
	case name == eventTimers || name == processingTimers:
		r.fail(name, errors.New("the name is that of the engine's own timers; choose another"))
	case slices.Contains(r.names, name):
		r.fail(name, errors.New("it is declared twice; names are unique within an operator"))
	default:
		r.names = append(r.names, name)
		return true
	}
	return false
}

func (r *Registry) fail(name string, err error) {
	r.errs = append(r.errs, fmt.Errorf("operator %q: state %q: %w", r.operator, name, err))
}

// compare returns how the declarations of a later run differ from r's.
func (r *Registry) compare(later *Registry) (errs []error) {
	was, is := r.forms(), later.forms()
	for i := range max(len(was), len(is)) {
		a, b := "nothing", "nothing"
		if i < len(was) {
			a = was[i]
		}
		if i < len(is) {
			b = is[i]
		}
		if a != b {
			errs = append(errs, fmt.Errorf("operator %q: its constructor declared %s when the job was built and %s in a subtask; "+
				"it must declare the same each time", r.operator, a, b))
		}
	}
	return errs
}

// forms describes all declarations.
func (r *Registry) forms() (forms []string) {
	for _, s := range r.keyedStates() {
		forms = append(forms, fmt.Sprintf("state %q, %s", s.Name, describe(s)))
	}
	for _, d := range r.domains {
		forms = append(forms, string(timerKind(d)))
	}
	for _, l := range r.lists {
		s := l.describe()
		forms = append(forms, fmt.Sprintf("state %q, %s", s.Name, describeList(s)))
	}
	return forms
}

// keyedStates describes the keyed states but those of timers.
func (r *Registry) keyedStates() []snapshot.State {
	var states []snapshot.State
	for _, f := range r.fields {
		states = append(states, stateOf(f))
	}
	return append(states, r.RawStates()...)
}

// Check tells whether the keyed states of a snapshot of the operator can be
// restored: each must be declared as the same kind, in a form that what is stored
// can be converted to. That one has a TTL and the other has none is no
// difference.
func (r *Registry) Check(stored []snapshot.State) error {
	declared := declarations(r.fields)
	for _, d := range r.domains {
		k := string(timerKind(d))
		declared[k] = declaration{state: snapshot.State{Name: k, Kind: k}}
	}
	for _, s := range r.RawStates() {
		declared[s.Name] = declaration{state: s}
	}
	return checkStates(r.operator, declared, r.declaredAs, stored)
}
