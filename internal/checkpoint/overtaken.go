package checkpoint

import (
	"context"
	"fmt"
)

// Overtaken returns err, or ErrFenced with it if another start has claimed the
// job since. What an attempt meets then, such as a snapshot that was deleted
// behind its back, says nothing about the job, and its advice would do harm.
func (a *Attempt) Overtaken(ctx context.Context, err error) error {
	return a.ledger.overtaken(ctx, a.Number, err)
}

func (l *ledger) overtaken(ctx context.Context, attempt int64, err error) error {
	if err == nil || attempt == 0 || fenced(err) {
		return err
	}
	if newer := l.stillNewest(ctx, attempt); fenced(newer) {
		return fmt.Errorf("%w; before that: %w", newer, err)
	}
	return err
}
