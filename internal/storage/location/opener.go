package location

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
)

// Opener opens storages by the places that users name, each once. Its methods
// may be called from any goroutine.
type Opener struct {
	schemes map[string]storage.Scheme

	mu sync.Mutex
	// params are those of each bucket, by scheme and host: who copies the path
	// of a snapshot from a message leaves them out.
	params map[string]string
	opened map[string]storage.Blobs
}

// NewOpener returns an opener of directories and of what schemes serve. Of two
// that serve one scheme the last one does.
func NewOpener(schemes ...storage.Scheme) *Opener {
	o := &Opener{schemes: map[string]storage.Scheme{}, params: map[string]string{}, opened: map[string]storage.Blobs{}}
	for _, s := range schemes {
		for _, name := range s.Schemes() {
			o.schemes[name] = s
		}
	}
	return o
}

// Check is Settle, but refuses URLs that nothing here serves. What it accepts
// sets the parameters of URLs in the same bucket that have none.
func (o *Opener) Check(where string) (string, error) {
	if !IsURL(where) {
		return Settle(where)
	}
	u, err := parse(where)
	if err != nil {
		return "", err
	}
	if _, ok := o.schemes[u.Scheme]; !ok {
		return "", o.unknown(u.Scheme)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if u.RawQuery != "" && o.params[bucket(u)] == "" {
		o.params[bucket(u)] = u.RawQuery
	}
	return u.String(), nil
}

func bucket(u *url.URL) string { return u.Scheme + "://" + u.Host }

// modules are the storages that Weir has, by scheme.
var modules = map[string]string{"s3": "s3", "gs": "gcs", "azblob": "azure", "hdfs": "hdfs"}

func (o *Opener) unknown(scheme string) error {
	if m, ok := modules[scheme]; ok {
		return fmt.Errorf("no storage for %s:// is linked in: pass runner.WithStorage(%s.Storage()) to runner.Main or runner.Run, from github.com/weirstream/weir/storage/%s; or use a directory", scheme, m, m)
	}
	known := slices.Sorted(maps.Keys(o.schemes))
	if len(known) == 0 {
		return fmt.Errorf("no storage for %s:// is linked in: use a directory, or pass one that serves it to runner.WithStorage", scheme)
	}
	return fmt.Errorf("no storage for %s:// is linked in, only for %s:// and directories", scheme, strings.Join(known, "://, "))
}

// Open opens the storage at a directory or URL. It is closed by Close.
func (o *Opener) Open(ctx context.Context, where string) (storage.Blobs, error) {
	where, err := o.Check(where)
	if err != nil {
		return nil, err
	}
	if !IsURL(where) {
		return file.New(where), nil
	}
	u, err := parse(where)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if u.RawQuery == "" {
		u.RawQuery = o.params[bucket(u)]
	}
	key := u.String()
	if b, ok := o.opened[key]; ok {
		return b, nil
	}
	b, err := o.schemes[u.Scheme].Open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", withoutQuery(where), err)
	}
	o.opened[key] = b
	return b, nil
}

// Close closes what was opened. The opener can be used again.
func (o *Opener) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, b := range o.opened {
		if c, ok := b.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	clear(o.opened)
	return errors.Join(errs...)
}
