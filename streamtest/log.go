package streamtest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
)

// logger writes to the log of a test: what operators log, and warnings of the
// engine.
func logger(t testing.TB) *slog.Logger {
	text := slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime})
	return slog.New(reticent{Handler: text})
}

// withoutTime drops the time, which no clock of a test tells.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.Attr{}
	}
	return a
}

// reticent is a handler that leaves out what the engine says by the way.
type reticent struct {
	slog.Handler
	// operator tells that it is an operator that speaks.
	operator bool
}

func (r reticent) Enabled(_ context.Context, l slog.Level) bool {
	return r.operator || l >= slog.LevelWarn
}

// Handle leaves out what a crash cuts short.
func (r reticent) Handle(ctx context.Context, record slog.Record) error {
	cut := false
	record.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		cut = cut || ok && (errors.Is(err, context.Canceled) || errors.Is(err, errCrash))
		return !cut
	})
	if cut && !r.operator {
		return nil
	}
	return r.Handler.Handle(ctx, record)
}

func (r reticent) WithAttrs(attrs []slog.Attr) slog.Handler {
	operator := slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "operator" })
	return reticent{r.Handler.WithAttrs(attrs), r.operator || operator}
}

func (r reticent) WithGroup(name string) slog.Handler {
	return reticent{r.Handler.WithGroup(name), r.operator}
}
