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

// TTLOption changes how a time to live is counted or what expired values look like.
type TTLOption int

const (
	// OnCreateAndWrite counts the time to live from the last write. It is the default.
	OnCreateAndWrite TTLOption = iota
	// OnReadAndWrite counts it from the last read or write.
	OnReadAndWrite
	// NeverReturnExpired hides expired values even while they are still stored. It is the default.
	NeverReturnExpired
	// ReturnExpiredIfNotCleanedUp lets a read return an expired value that is
	// still stored, once: the read removes it.
	ReturnExpiredIfNotCleanedUp
)

// TTL gives what is kept a time to live of d, at least a millisecond. It is
// counted by the wall clock in milliseconds, which goes on while the job is
// down, and expires when the last access is d or longer ago. Each value, each
// list element and each map entry has its own. Expired values are removed when
// they are read and in the background.
//
// A time to live may be changed, switched on or switched off from one run of a
// job to the next. Switched on, values that are there count from the restore.
func TTL(d time.Duration, opts ...TTLOption) Option {
	return func(o *options) {
		o.ttl = ttl{millis: d.Milliseconds()}
		if o.ttl.millis < 1 {
			o.err = fmt.Errorf("a time to live of %v is not possible; give at least a millisecond", d)
		}
		for _, opt := range opts {
			switch opt {
			case OnCreateAndWrite:
				o.ttl.onRead = false
			case OnReadAndWrite:
				o.ttl.onRead = true
			case NeverReturnExpired:
				o.ttl.lenient = false
			case ReturnExpiredIfNotCleanedUp:
				o.ttl.lenient = true
			default:
				o.err = fmt.Errorf("unknown TTL option %d", opt)
			}
		}
	}
}

// ttl is a time to live. The zero value is none.
type ttl struct {
	millis int64
	// onRead counts reads as accesses; lenient lets expired values be read.
	onRead, lenient bool
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
