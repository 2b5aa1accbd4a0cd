package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"
)

// probeCallers is how many calls of PutIfAbsent a probe sends at once.
const probeCallers = 8

// Probe finds out whether a storage keeps what PutIfAbsent promises: there are
// servers that ignore the condition of a write, or do not look at it and write
// in one step. It writes below dir and leaves nothing there. An error that
// wraps ErrFatal says that the storage must not be used.
func Probe(ctx context.Context, b Blobs, dir string) error {
	name := path.Join(dir, "probe-"+rand.Text())
	won, err := race(ctx, b, name)
	switch {
	case err != nil:
		err = fmt.Errorf("a trial write to %s: %w", b, err)
	case len(won) != 1:
		err = notAtomic(b, fmt.Sprintf("of %d concurrent writes of one name \"only if absent\" %d were accepted", probeCallers, len(won)))
	default:
		err = probeAgain(ctx, b, name, won[0])
	}
	if failed := cleanUp(ctx, b, name, err == nil); failed != nil && err == nil {
		err = fmt.Errorf("a trial delete in %s: checkpoints that are no longer needed have to be deleted: %w", b, failed)
	}
	return err
}

// cleanUp deletes what a probe has written, also when it was cancelled. It does
// not hold up the news that the storage fails: a client may try a deletion for
// long before it gives up.
func cleanUp(ctx context.Context, b Blobs, name string, works bool) error {
	patience := 30 * time.Second
	if !works {
		patience = 3 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return b.Delete(ctx, name)
}

// race returns the calls that claim to have written.
func race(ctx context.Context, b Blobs, name string) (won []int, err error) {
	errs := make([]error, probeCallers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = b.PutIfAbsent(ctx, name, probeContent(i)) })
	}
	wg.Wait()
	var failures []error
	for i, err := range errs {
		switch {
		case err == nil:
			won = append(won, i)
		case !errors.Is(err, ErrExists):
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		return nil, failures[0] // mostly all are the same
	}
	return won, nil
}

func probeContent(i int) []byte { return fmt.Appendf(nil, "probe %d", i) }

// probeAgain writes the name once more.
func probeAgain(ctx context.Context, b Blobs, name string, winner int) error {
	switch err := b.PutIfAbsent(ctx, name, []byte("again")); {
	case err == nil:
		return notAtomic(b, "it replaced a blob that was to be written \"only if absent\"")
	case !errors.Is(err, ErrExists):
		return fmt.Errorf("a trial write to %s: %w", b, err)
	}
	data, err := b.Get(ctx, name)
	switch {
	case err != nil:
		return fmt.Errorf("a trial read from %s: %w", b, err)
	case string(data) != string(probeContent(winner)):
		return notAtomic(b, "a write that was refused replaced the blob all the same")
	}
	return nil
}

func notAtomic(b Blobs, how string) error {
	return fmt.Errorf("%s does not support atomic conditional writes: %s. The ledger, and with it exactly-once, rests on them: "+
		"use a storage that has them (docs/storage.md names some), or a newer version of this one: %w", b, how, ErrFatal)
}
