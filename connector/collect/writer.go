package collect

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirstream/weir/connector"
)

// directWriter makes records visible as they come.
type directWriter[T any] struct {
	sink    *Sink[T]
	subtask int
}

func (w *directWriter[T]) Write(vals []T, times []int64) error {
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	w.sink.publish(gather(nil, vals, times, w.subtask))
	return nil
}

func (w *directWriter[T]) Flush(context.Context) error            { return nil }
func (w *directWriter[T]) PreCommit(int64) ([]Committable, error) { return nil, nil }
func (w *directWriter[T]) Committed(int64) error                  { return nil }
func (w *directWriter[T]) Close() error                           { return nil }

// writer gathers the records of a transaction and hands them to the sink at
// pre-commit.
type writer[T any] struct {
	sink    *Sink[T]
	subtask int
	prefix  string
	count   int
	open    []Record[T]
}

func (w *writer[T]) Write(vals []T, times []int64) error {
	w.open = gather(w.open, vals, times, w.subtask)
	return nil
}

func (w *writer[T]) Flush(context.Context) error { return nil }

func (w *writer[T]) PreCommit(int64) ([]Committable, error) {
	if len(w.open) == 0 {
		return nil, nil
	}
	w.count++
	c := Committable{ID: w.prefix + strconv.Itoa(w.count)}
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	w.sink.prepared[c.ID] = w.open
	w.open = nil
	return []Committable{c}, nil
}

func (w *writer[T]) Committed(int64) error { return nil }
func (w *writer[T]) Close() error          { return nil }

func gather[T any](records []Record[T], vals []T, times []int64, subtask int) []Record[T] {
	for i, v := range vals {
		records = append(records, Record[T]{Value: v, Time: times[i], Subtask: subtask})
	}
	return records
}

// committer moves prepared transactions to the visible records.
type committer[T any] struct {
	sink *Sink[T]
	// earlier is the last of the earlier attempts, by lineage.
	earlier  map[string]int64
	operator string
}

func (c *committer[T]) Commit(_ context.Context, committables []Committable) error {
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	for _, t := range committables {
		if c.sink.committed[t.ID] {
			continue
		}
		records, ok := c.sink.prepared[t.ID]
		if !ok {
			return fmt.Errorf("collect: transaction %s was not prepared in this process, or was aborted: %w", t.ID, connector.ErrTransactionLost)
		}
		delete(c.sink.prepared, t.ID)
		c.sink.committed[t.ID] = true
		c.sink.publish(records)
	}
	return nil
}

// Sweep aborts what earlier attempts prepared.
func (c *committer[T]) Sweep(_ context.Context, stillNewest func() error) error {
	if err := stillNewest(); err != nil {
		return err
	}
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	for id := range c.sink.prepared {
		if c.owns(id) {
			delete(c.sink.prepared, id)
		}
	}
	return nil
}

// owns says whether a transaction is of an earlier attempt of this operator.
func (c *committer[T]) owns(id string) bool {
	lineage, rest, _ := strings.Cut(id, "/")
	number, rest, _ := strings.Cut(rest, "/")
	attempt, err := strconv.ParseInt(number, 10, 64)
	last, ours := c.earlier[lineage]
	return err == nil && ours && attempt <= last && strings.HasPrefix(rest, c.operator+"/")
}

func (c *committer[T]) Close() error { return nil }
