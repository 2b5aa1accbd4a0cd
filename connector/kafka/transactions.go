package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/twophase"
)

// ListedTransaction is a transaction of an exactly-once sink as the brokers
// know it.
type ListedTransaction struct {
	// Transaction is its identity. Topics are those with partitions that it
	// holds back, Opened is the zero time if the brokers do not tell.
	Transaction
	// Prefix is that of kafka.ExactlyOnce; Name says which lineage, attempt,
	// sink and subtask it is of.
	Prefix string
	Name   twophase.Name
	// State as Kafka names it: Ongoing, PrepareCommit, PrepareAbort,
	// CompleteCommit, CompleteAbort, Empty, Dead.
	State string
	// Partitions are those whose readers of committed records wait for it, as
	// "topic[partition]".
	Partitions []string
}

// Open reports whether the transaction has not ended: readers of committed
// records wait for it.
func (t ListedTransaction) Open() bool {
	return t.State == "Ongoing" || strings.HasPrefix(t.State, "Prepare")
}

// Outcome is what became of a transaction: "open", "committed", "lost" or
// "unknown". Saved is its identity as a snapshot has it.
func (t ListedTransaction) Outcome(saved Transaction) string {
	d := kadm.DescribedTransaction{State: t.State, ProducerID: t.ProducerID, ProducerEpoch: t.Epoch}
	switch outcome(saved, d) {
	case outcomeOpen:
		return "open"
	case outcomeCommitted:
		return "committed"
	case outcomeAborted:
		return "lost"
	}
	return "unknown"
}

// Transactions lists and ends the transactions of exactly-once sinks, for
// operators' tools. It never initialises a transactional id. It is used by one
// goroutine.
type Transactions struct {
	config client
	ender  *ender
}

// NewTransactions connects to nothing yet.
func NewTransactions(opts ...ClientOption) *Transactions {
	t := &Transactions{config: newClientConfig()}
	for _, o := range opts {
		o.apply(&t.config)
	}
	t.ender = newEnder(&t.config)
	return t
}

// Close releases the connections. It ends no transaction.
func (t *Transactions) Close() { t.ender.close() }

// List returns all open transactions whose ids are those of exactly-once sinks,
// and that keep accepts, sorted by id; with ended also those that the brokers
// remember. It waits, up to the StartTimeout, until all brokers have answered:
// an incomplete list is an error.
func (t *Transactions) List(ctx context.Context, ended bool, keep func(prefix string, name twophase.Name) bool) ([]ListedTransaction, error) {
	ctx, cancel := t.config.bound(ctx)
	defer cancel()
	states := []string{"Ongoing", "PrepareCommit", "PrepareAbort"}
	if ended {
		states = nil
	}
	found, err := t.ender.find(ctx, states, keep)
	if err != nil {
		return nil, err
	}
	if !ended {
		found = slices.DeleteFunc(found, func(l ListedTransaction) bool { return !l.Open() })
	}
	return found, nil
}

func newListed(d kadm.DescribedTransaction, version int16) ListedTransaction {
	l := ListedTransaction{State: d.State, Transaction: Transaction{
		ID: d.TxnID, ProducerID: d.ProducerID, Epoch: d.ProducerEpoch, EndTxn: version,
		Timeout: time.Duration(d.TimeoutMillis) * time.Millisecond,
	}}
	l.Prefix, l.Name, _ = ParseTransactionalID(d.TxnID)
	if d.StartTimestamp > 0 {
		l.Opened = time.UnixMilli(d.StartTimestamp)
	}
	for _, topic := range d.Topics.Sorted() {
		l.Topics = append(l.Topics, topic.Topic)
		for _, p := range topic.Partitions {
			l.Partitions = append(l.Partitions, fmt.Sprintf("%s[%d]", topic.Topic, p))
		}
	}
	return l
}

// Commit commits a transaction by its identity, and waits for it up to the
// StartTimeout. One that is lost, or whose outcome is unknown, is
// connector.ErrTransactionLost or connector.ErrTransactionUnknown.
func (t *Transactions) Commit(ctx context.Context, txn Transaction) error {
	ctx, cancel := t.config.bound(ctx)
	defer cancel()
	return t.ender.commit(ctx, txn, func(time.Duration, error) {})
}

// Abort aborts a transaction by its identity, exactly that one, if it is still
// open, and waits for it up to the StartTimeout.
func (t *Transactions) Abort(ctx context.Context, txn Transaction) error {
	ctx, cancel := t.config.bound(ctx)
	defer cancel()
	return t.ender.abort(ctx, txn)
}

// DecodeCommittable reads a committable that a snapshot holds. It returns false
// if the format is not that of this package's sinks.
func DecodeCommittable(f codec.Format, data []byte) (c twophase.Committable[Transaction], ok bool, err error) {
	committables := new(TopicSink[[]byte]).CommittableCodec()
	if own := committables.Format(); f.ID != own.ID {
		return c, false, nil
	} else if f.Version > own.Version {
		return c, true, fmt.Errorf("committable written by a newer version of Weir (version %d, this one reads up to %d)", f.Version, own.Version)
	}
	c, err = committables.Decode(data)
	return c, true, err
}

// find returns the transactions in these states, nil for all, whose ids are
// those of exactly-once sinks, and that keep accepts, sorted by id. Each is as
// it was when it was described, a little later; one forgotten by then is left
// out.
func (e *ender) find(ctx context.Context, states []string, keep func(prefix string, name twophase.Name) bool) ([]ListedTransaction, error) {
	listed, err := e.list(ctx, states)
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	var ids []string
	for id := range listed {
		if prefix, name, ok := ParseTransactionalID(id); ok && keep(prefix, name) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	version, err := e.version(ctx)
	if err != nil {
		return nil, err
	}
	described, err := e.describeAll(ctx, ids)
	if err != nil {
		return nil, err
	}
	var found []ListedTransaction
	for _, d := range described.Sorted() {
		if d.Err == nil {
			found = append(found, newListed(d, version))
		}
	}
	return found, nil
}

// list asks all brokers for the transactions in these states, nil for all,
// until each has answered: a coordinator that is still loading does not know
// its transactions.
func (e *ender) list(ctx context.Context, states []string) (kadm.ListedTransactions, error) {
	cl, err := e.client(endTxnV2)
	if err != nil {
		return nil, err
	}
	adm := kadm.NewClient(cl)
	var listed kadm.ListedTransactions
	err = e.askAll(ctx, "listed their transactions", func() (err error) {
		listed, err = adm.ListTransactions(ctx, nil, states)
		return err
	})
	return listed, err
}

// askAll repeats what is asked of all brokers until each has answered.
func (e *ender) askAll(ctx context.Context, what string, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if isAnswer(err) {
			return e.config.refused(err)
		}
		if pause(ctx, retryPause) {
			continue
		}
		interrupted := e.config.interrupted(ctx, err)
		answer := (*kerr.Error)(nil)
		switch {
		case interrupted != nil:
			return interrupted
		case !errors.As(err, &answer):
			return e.config.unreachable(e.config.startTimeout, err)
		default:
			return fmt.Errorf("not all brokers at %s %s within %v, and an incomplete list must not be used: %w", e.config.names(), what, e.config.startTimeout, err)
		}
	}
}

// describeAll asks for the state of many ids; those that the brokers have
// forgotten carry that error.
func (e *ender) describeAll(ctx context.Context, ids []string) (kadm.DescribedTransactions, error) {
	cl, err := e.client(endTxnV2)
	if err != nil {
		return nil, err
	}
	adm := kadm.NewClient(cl)
	slices.Sort(ids)
	var described kadm.DescribedTransactions
	err = e.askAll(ctx, "described their transactions", func() (err error) {
		described, err = adm.DescribeTransactions(ctx, ids...)
		for _, d := range described {
			if d.Err != nil && !errors.Is(d.Err, kerr.TransactionalIDNotFound) {
				err = errors.Join(err, d.Err)
			}
		}
		if err == nil && len(described) < len(ids) {
			err = kerr.CoordinatorNotAvailable // of those without an answer
		}
		return err
	})
	return described, err
}
