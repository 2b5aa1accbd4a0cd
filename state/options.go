package state

import (
	"fmt"
	"math"
	"time"

	"github.com/weirstream/weir/codec"
)

// Option sets something about a state where it is declared.
type Option func(*options)

type options struct {
	ttl ttl
	// codec and keyCodec hold a codec.Codec of the state's type; nil is the default.
	codec, keyCodec any
	migrations      migrations
	err             error
}

// Codec has values of T (elements of a list, values of a map) encoded by c,
// instead of being kept as the package comment says. A T that is kept in line by default is then
// encoded and decoded at each access.
func Codec[T any](c codec.Codec[T]) Option {
	return func(o *options) { o.codec = c }
}

// KeyCodec has the keys of a map state encoded by c. Equal keys must have equal
// encodings. It is needed for keys of types that hold pointers or interfaces.
func KeyCodec[K comparable](c codec.Codec[K]) Option {
	return func(o *options) { o.keyCodec = c }
}

// TTLOption changes how a time to live is counted, what expired values look
// like, or how they are removed.
type TTLOption interface{ apply(*ttl) error }

type ttlMode int

const (
	// OnCreateAndWrite counts the time to live from the last write. It is the default.
	OnCreateAndWrite ttlMode = iota
	// OnReadAndWrite counts it from the last read or write.
	OnReadAndWrite
	// NeverReturnExpired hides expired values even while they are still stored. It is the default.
	NeverReturnExpired
	// ReturnExpiredIfNotCleanedUp lets a read return an expired value that is
	// still stored, once: the read removes it.
	ReturnExpiredIfNotCleanedUp
	// DisableCleanupInBackground leaves expired values stored until they are read
	// or a snapshot is restored. What is never read again then takes memory for ever.
	DisableCleanupInBackground
)

func (m ttlMode) apply(t *ttl) error {
	switch m {
	case OnCreateAndWrite, OnReadAndWrite:
		t.onRead = m == OnReadAndWrite
	case NeverReturnExpired, ReturnExpiredIfNotCleanedUp:
		t.lenient = m == ReturnExpiredIfNotCleanedUp
	case DisableCleanupInBackground:
		t.sweep = 0
	default:
		return fmt.Errorf("unknown TTL option %d", int(m))
	}
	return nil
}

// CleanupIncremental has n places of the table of keys looked at for expired
// values with every record, 1 to 1,000; without it 4 are. A large table is gone
// through in so many records as it has keys, about, and half of that with twice
// the n. Of keys that lie on local disk, in the lsm backend, a quarter of n are
// looked at, one at least. It holds for all states of an operator: the largest n
// counts.
func CleanupIncremental(n int) TTLOption { return cleanup(n) }

type cleanup int

const (
	defaultCleanup cleanup = 4
	mostCleanup    cleanup = 1000
)

func (n cleanup) apply(t *ttl) error {
	if n < 1 || n > mostCleanup {
		return fmt.Errorf("CleanupIncremental(%d) is not possible; give 1 to %d, or DisableCleanupInBackground", int(n), int(mostCleanup))
	}
	t.sweep = int(n)
	return nil
}

// TTL gives what is kept a time to live of d, at least a millisecond. It is
// counted by the wall clock in milliseconds, which goes on while the job is
// down, and expires when the last access is d or longer ago. Each value, each
// list element and each map entry has its own. Expired values are removed when
// they are read and in the background, and are not written to snapshots, except
// where one shares the files of the lsm backend.
//
// A time to live may be changed, switched on or switched off from one run of a
// job to the next. Switched on, values that are there count from the restore.
func TTL(d time.Duration, opts ...TTLOption) Option {
	return func(o *options) {
		o.ttl = ttl{millis: d.Milliseconds(), sweep: int(defaultCleanup)}
		if o.ttl.millis < 1 {
			o.err = fmt.Errorf("a time to live of %v is not possible; give at least a millisecond", d)
		}
		for _, opt := range opts {
			if err := opt.apply(&o.ttl); err != nil {
				o.err = err
			}
		}
	}
}

// ttl is a time to live. The zero value is none.
type ttl struct {
	millis int64
	// onRead counts reads as accesses; lenient lets expired values be read.
	onRead, lenient bool
	// sweep is how many positions are looked at per record, 0 for none.
	sweep int
}

func (t *ttl) on() bool { return t.millis != 0 }

// expired tells whether what was last accessed at a time has expired now.
func (t *ttl) expired(at, now int64) bool {
	if at > math.MaxInt64-t.millis {
		return false
	}
	return at+t.millis <= now
}

// visible tells whether a read may return what was last accessed at a time.
func (t *ttl) visible(at, now int64) bool {
	return t.lenient || !t.expired(at, now)
}

func collect(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// codecOf returns the codec of T among the options, nil if there is none.
func codecOf[T any](given any) (codec.Codec[T], error) {
	if given == nil {
		return nil, nil
	}
	c, ok := given.(codec.Codec[T])
	if !ok {
		return nil, fmt.Errorf("the codec given is a %T, which is none of %s", given, typeName[T]())
	}
	return c, nil
}
