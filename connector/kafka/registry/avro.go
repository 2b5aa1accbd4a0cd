package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Option is an option of Avro.
type Option func(*config)

type config struct {
	subject string
	schema  string
	lookup  bool
}

// Subject names the subject whose schema values are written by, as a rule
// TOPIC-value. A codec without one only reads.
func Subject(name string) Option { return func(c *config) { c.subject = name } }

// Schema writes by this Avro schema instead of one that is inferred from the
// type. The type needs a field for each of its fields.
func Schema(text string) Option { return func(c *config) { c.schema = text } }

// LookUp writes only by a schema that the subject has already. By default it is
// registered, unless the subject has it.
func LookUp() Option { return func(c *config) { c.lookup = true } }

// Avro returns a codec of values that are written in Avro, each behind the id of
// its schema in the registry. It is for records of Kafka: state has codecs of its
// own.
//
// Reading matches the fields of the writer's schema with those of T by name, or
// by tag avro:"name": what the writer has more is left out, and a field that the
// writer does not have is its default (avro:",default=EUR"), or else the zero
// value. The tag avro:"new,alias=old" reads a field that was renamed. Values are
// converted as long as nothing is lost. A schema that shares no field with T is
// refused. Each schema is fetched when the first record of it is read.
//
// Writing uses a schema inferred from T, in which time.Time is of milliseconds
// unless its tag says avro:",timestamp-micros", or that of option Schema. The
// first value that is written registers it.
//
// A record that cannot be decoded, because its bytes, its id or its schema are
// wrong, is undecodable as any other. That the registry cannot be reached is an
// error of codec.ErrUnavailable; one that refuses the login, or a schema that is
// written, is connector.ErrFatal besides.
func Avro[T any](r *Registry, opts ...Option) (codec.Codec[T], error) {
	if r == nil {
		return nil, errors.New("avro of a schema registry: no registry")
	}
	c := &avroCodec[T]{registry: r}
	for _, o := range opts {
		o(&c.config)
	}
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Struct {
		own, err := avro.SchemaFor[T](avro.WithName(recordName(t.Name())))
		if err != nil {
			return nil, fmt.Errorf("no Avro schema for %s: %w", t, err)
		}
		c.own, c.writer = own, own
	}
	if c.config.schema != "" {
		var err error
		if c.writer, err = avro.Parse(c.config.schema); err != nil {
			return nil, fmt.Errorf("schema to write %s by: %w", t, err)
		}
	}
	if c.writer == nil && c.config.subject != "" {
		return nil, fmt.Errorf("no Avro schema for %s, which is no struct: give one by registry.Schema", t)
	}
	c.readers.Store(&map[uint32]reader{})
	return c, nil
}

// recordName is the name of a type as Avro allows it.
func recordName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "Record"
	}
	return name
}

type avroCodec[T any] struct {
	registry *Registry
	config   config
	own      *avro.Schema // inferred from T, nil if that is no struct
	writer   *avro.Schema

	prefix atomic.Pointer[[]byte] // of what is written, nil before the schema has an id

	mu      sync.Mutex // held to change what follows, and to get the id
	readers atomic.Pointer[map[uint32]reader]
}

// reader decodes what was written by one schema, or says why it cannot.
type reader struct {
	schema *avro.Schema
	err    error
}

// Format identifies the encoding. What the schema is, the registry knows.
func (c *avroCodec[T]) Format() codec.Format { return codec.Format{ID: "registry-avro", Version: 1} }

// headerSize is the size of the magic byte and the id.
const headerSize = 5

func (c *avroCodec[T]) Decode(src []byte) (v T, err error) {
	if len(src) < headerSize || src[0] != 0 {
		return v, undecodable(0, fmt.Errorf("no record of a schema registry: it begins with %x, not with 0 and the four bytes of an id", src[:min(len(src), headerSize)]))
	}
	schema, err := c.reader(binary.BigEndian.Uint32(src[1:]))
	if err != nil {
		if errors.Is(err, codec.ErrUnavailable) {
			return v, err
		}
		return v, undecodable(1, err)
	}
	rest, err := schema.Decode(src[headerSize:], &v, avro.SkipUnknown())
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes too many", len(rest))
	}
	if err != nil {
		var zero T
		return zero, undecodable(len(src)-len(rest), err)
	}
	return v, nil
}

func undecodable(offset int, err error) error {
	return &codec.DecodeError{Format: "avro", Offset: offset, Err: err}
}

// reader returns the schema that decodes what was written by the one of an id.
func (c *avroCodec[T]) reader(id uint32) (*avro.Schema, error) {
	if r, ok := (*c.readers.Load())[id]; ok {
		return r.schema, r.err
	}
	writer, err := c.registry.schema(id)
	if err != nil {
		return nil, err
	}
	var r reader
	if r.schema, err = readAs(writer, c.own); err != nil {
		r.err = fmt.Errorf("schema %d of the registry as %s: %w", id, reflect.TypeFor[T](), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	readers := maps.Clone(*c.readers.Load())
	readers[id] = r
	c.readers.Store(&readers)
	return r.schema, r.err
}

func (c *avroCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	prefix := c.prefix.Load()
	if prefix == nil {
		var err error
		if prefix, err = c.register(); err != nil {
			return dst, err
		}
	}
	out, err := c.writer.AppendEncode(append(dst, *prefix...), &v)
	if err != nil {
		return dst, fmt.Errorf("encode avro: %w", err)
	}
	return out, nil
}

// register gets the id of the schema that is written.
func (c *avroCodec[T]) register() (*[]byte, error) {
	if c.config.subject == "" {
		return nil, connector.Fatal(errors.New("encode avro: which schema? name its subject by registry.Subject"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.prefix.Load(); p != nil {
		return p, nil
	}
	id, err := c.registry.idOf(c.config, c.writer.String())
	if err != nil {
		return nil, err
	}
	p := binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
	c.prefix.Store(&p)
	return &p, nil
}

// idOf registers a schema, or looks it up.
func (r *Registry) idOf(c config, schema string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	s := sr.Schema{Schema: schema}
	if !c.lookup {
		id, err := r.client.RegisterSchema(ctx, c.subject, s, -1, -1)
		if err != nil {
			return 0, r.failed("register the schema for subject "+c.subject, err)
		}
		return id, nil
	}
	found, err := r.client.LookupSchema(ctx, c.subject, s)
	if answer, ok := errors.AsType[*sr.ResponseError](err); ok && sr.IsNotFoundError(answer.ErrorCode) {
		return 0, r.refused(fmt.Sprintf("schema registry at %s: subject %s", r.urls(), c.subject), describe(answer), "register the schema, or leave out registry.LookUp: "+schema)
	}
	if err != nil {
		return 0, r.failed("look up the schema in subject "+c.subject, err)
	}
	return found.ID, nil
}
