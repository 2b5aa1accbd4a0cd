package kafka

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/connectortest"
)

// remote is a codec that needs something to decode what begins with "far", which
// is away.
type remote struct{ text }

var errAway = fmt.Errorf("the registry is away: %w", codec.ErrUnavailable)

func (r remote) Decode(src []byte) (string, error) {
	if string(src) == "far" {
		return "", errAway
	}
	return r.text.Decode(src)
}

func (r remote) DecodeBatch(dst []string, srcs [][]byte) ([]string, error) {
	for _, s := range srcs {
		v, err := r.Decode(s)
		if err != nil {
			return dst, err
		}
		dst = append(dst, v)
	}
	return dst, nil
}

// A record is not to blame, and not skipped, where the codec lacks something
// else.
func TestUnavailableIsNotUndecodable(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a", "bad", "far", "b")
	want := func(t *testing.T, err error, counted int64) {
		t.Helper()
		wantError(t, err, "decode "+topic+"[0] at offset 2", "the registry is away")
		wantFatal(t, err, false)
		if bad := (*UndecodableError)(nil); errors.As(err, &bad) {
			t.Errorf("got %v", bad)
		}
		if counted != 1 {
			t.Errorf("%d records counted as undecodable, want 1", counted)
		}
	}
	handler := OnUndecodable(func(r Record, err error) error {
		if string(r.Value) != "bad" {
			t.Errorf("handled %q: %v", r.Value, err)
		}
		return nil
	})
	for name, opt := range map[string]SourceOption{"skip": SkipUndecodable(), "handler": handler} {
		t.Run(name, func(t *testing.T) {
			r := c.start(Source(topic, remote{}, opt, c.brokers()), 1, nil)
			want(t, r.Run(c.deadline()), r.Context.Counter("recordsUndecodable"))
		})
	}
	t.Run("in the stream", func(t *testing.T) {
		in := SourceFunc(topic, WithUndecodable(remote{}), SkipUndecodable(), c.brokers())
		r, err := connectortest.StartSource(in, 1, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		want(t, r.Run(c.deadline()), 1)
		if n := r.Context.Counter("recordsUndecodable"); n != 0 {
			t.Errorf("%d records counted as undecodable", n)
		}
	})
}
