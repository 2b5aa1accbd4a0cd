// Package registry reads and writes Kafka records whose schema is kept by a
// schema registry: in the wire format of Confluent, which Karapace, Redpanda,
// Apicurio and others speak, too.
//
// A record begins with a byte 0 and the four bytes of its schema's id; what
// follows is encoded by that schema.
package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

const (
	// requestTimeout bounds what the registry is asked for one schema.
	requestTimeout = 10 * time.Second
	// unknownFor is how long an id that the registry does not know is not asked
	// for again: its copies may lag behind one another, but records that are
	// skipped must not cost a request each.
	unknownFor = 5 * time.Second
	// maxUnknown is how many such ids are remembered.
	maxUnknown = 10_000
)

// Registry is a client of a schema registry. It fetches each schema once. It is
// safe for concurrent use, and one is enough for a program.
type Registry struct {
	client *sr.Client
	now    func() time.Time

	mu      sync.Mutex
	fetches map[uint32]*fetch
}

// New makes a client. It does not connect. Options say where the registry is
// (sr.URLs, default http://localhost:8081), how to log in (sr.BasicAuth,
// sr.BearerToken) and whom to trust (sr.DialTLSConfig).
func New(opts ...sr.ClientOpt) (*Registry, error) {
	client, err := sr.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	return &Registry{client: client, now: time.Now, fetches: map[uint32]*fetch{}}, nil
}

// fetch is a schema that was asked for, or is being.
type fetch struct {
	done   chan struct{}
	schema *avro.Schema
	err    error
	until  time.Time // of an error: when to ask again
}

// schema returns the Avro schema of an id. Its error is that of the record, but
// for those that wrap codec.ErrUnavailable.
func (r *Registry) schema(id uint32) (*avro.Schema, error) {
	r.mu.Lock()
	f := r.fetches[id]
	if f == nil || f.failed() && !r.now().Before(f.until) {
		if len(r.fetches) >= maxUnknown {
			maps.DeleteFunc(r.fetches, func(_ uint32, f *fetch) bool { return f.failed() })
		}
		f = &fetch{done: make(chan struct{})}
		r.fetches[id] = f
		r.mu.Unlock()
		r.run(f, id)
	} else {
		r.mu.Unlock()
		<-f.done
	}
	return f.schema, f.err
}

// failed says whether it is over, without a schema.
func (f *fetch) failed() bool {
	select {
	case <-f.done:
		return f.err != nil
	default:
		return false
	}
}

func (r *Registry) run(f *fetch, id uint32) {
	defer close(f.done)
	f.err = errors.New("it was not fetched") // should the parser panic
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if f.schema, f.err = r.get(ctx, id); f.err == nil {
		return
	}
	if !errors.Is(f.err, codec.ErrUnavailable) {
		f.until = r.now().Add(unknownFor)
	}
}

func (r *Registry) get(ctx context.Context, id uint32) (*avro.Schema, error) {
	s, err := r.client.SchemaByID(ctx, int(id))
	if err != nil {
		if err = r.failed(fmt.Sprintf("get schema %d", id), err); !errors.Is(err, codec.ErrUnavailable) {
			err = fmt.Errorf("%w; is this the registry that the record was written with?", err)
		}
		return nil, err
	}
	parsed, err := r.parse(ctx, new(avro.SchemaCache), s, map[string]bool{})
	if err != nil {
		return nil, fmt.Errorf("schema %d of the registry: %w", id, err)
	}
	return parsed, nil
}

// parse parses a schema after those that it refers to.
func (r *Registry) parse(ctx context.Context, cache *avro.SchemaCache, s sr.Schema, seen map[string]bool) (*avro.Schema, error) {
	if s.Type != sr.TypeAvro {
		return nil, fmt.Errorf("it is of type %v, not Avro", s.Type)
	}
	for _, ref := range s.References {
		key := fmt.Sprint(ref.Version, " ", ref.Subject)
		if seen[key] {
			continue
		}
		seen[key] = true
		named, err := r.client.SchemaByVersion(ctx, ref.Subject, ref.Version)
		if err != nil {
			return nil, r.failed(fmt.Sprintf("get version %d of %s, which has %s", ref.Version, ref.Subject, ref.Name), err)
		}
		if _, err := r.parse(ctx, cache, named.Schema, seen); err != nil {
			return nil, fmt.Errorf("version %d of %s: %w", ref.Version, ref.Subject, err)
		}
	}
	return cache.Parse(s.Schema)
}

// failed sorts out the failure of a request: an answer about the schema asked
// for is the record's, one that somebody has to act on is fatal, and anything
// else may be over by the next time.
func (r *Registry) failed(what string, err error) error {
	where := fmt.Sprintf("schema registry at %s: %s", r.urls(), what)
	answer, ok := errors.AsType[*sr.ResponseError](err)
	switch {
	case !ok:
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return r.refused(where, err, "give sr.DialTLSConfig the authority that signed its certificate, and sr.URLs a name that it has")
		}
		return unavailable{fmt.Errorf("%s: %w; it will be asked again", where, err)}
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return r.refused(where, describe(answer), "check sr.BasicAuth or sr.BearerToken, and what the user may do")
	case sr.IsNotFoundError(answer.ErrorCode):
		return fmt.Errorf("%s: %w", where, describe(answer))
	case answer.StatusCode == http.StatusConflict:
		return r.refused(where, describe(answer), "the subject has another schema: change the type so that it is compatible, or the subject's compatibility level")
	case answer.StatusCode == http.StatusRequestTimeout || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500:
		return unavailable{fmt.Errorf("%s: %w; it will be asked again", where, describe(answer))}
	}
	return r.refused(where, describe(answer), "check sr.URLs, and the schema if it is about that")
}

func (r *Registry) refused(where string, err error, remedy string) error {
	return connector.Fatal(unavailable{fmt.Errorf("%s: %w; %s", where, err, remedy)})
}

// describe adds the status to an answer, whose own text may be anything.
func describe(answer *sr.ResponseError) error {
	return fmt.Errorf("%d %s: %w", answer.StatusCode, http.StatusText(answer.StatusCode), answer)
}

func (r *Registry) urls() string {
	urls, _ := r.client.OptValue(sr.URLs).([]string)
	return strings.Join(urls, ",")
}

// unavailable is an error that no record is to blame for.
type unavailable struct{ error }

func (e unavailable) Unwrap() error      { return e.error }
func (unavailable) Is(target error) bool { return target == codec.ErrUnavailable }
