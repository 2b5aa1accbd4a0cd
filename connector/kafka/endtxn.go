package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/weirstream/weir/connector"
)

// Versions of EndTxn: up to 4 the epoch stays, from 5 on it grows with each
// transaction. Brokers decide by the request, not by the cluster's level.
const (
	endTxnV1 int16 = 4
	endTxnV2 int16 = 5
)

const (
	// attemptTimeout bounds one request; the same is sent again.
	attemptTimeout = 15 * time.Second
	minPause       = 20 * time.Millisecond
)

// ender ends transactions by their saved identity, from clients that have no
// transactional id: such a client cannot initialise, and thereby abort, what
// it is to commit. It is used by one goroutine.
type ender struct {
	config *client
	v1, v2 *kgo.Client
}

func newEnder(c *client) *ender { return &ender{config: c} }

// client returns the client that sends EndTxn in exactly the version.
func (e *ender) client(version int16) (*kgo.Client, error) {
	cl := &e.v2
	if version <= endTxnV1 {
		cl = &e.v1
	}
	if *cl == nil {
		least := new(kversion.Versions)
		least.SetMaxKeyVersion(int16(kmsg.EndTxn), version)
		most := kversion.Stable()
		most.SetMaxKeyVersion(int16(kmsg.EndTxn), version)
		most.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), version) // the same protocol in the same version
		opened, err := e.config.open(kgo.MinVersions(least), kgo.MaxVersions(most))
		if err != nil {
			return nil, err
		}
		*cl = opened
	}
	return *cl, nil
}

func (e *ender) close() {
	for _, cl := range []*kgo.Client{e.v1, e.v2} {
		if cl != nil {
			cl.Close()
		}
	}
}

// version returns the version to end new transactions by.
func (e *ender) version(ctx context.Context) (int16, error) {
	cl, err := e.client(endTxnV2)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "weir", "0"
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return 0, fmt.Errorf("transaction.version of the cluster: %w", final(err))
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" && f.MaxVersionLevel >= 2 {
			return endTxnV2, nil
		}
	}
	return endTxnV1, nil
}

// end sends one request.
func (e *ender) end(ctx context.Context, t Transaction, commit bool) error {
	cl, err := e.client(t.EndTxn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID = t.ID
	req.ProducerID, req.ProducerEpoch = t.ProducerID, t.Epoch
	req.Commit = commit
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// commit commits a transaction, however often it takes. A repeated request is
// answered like the first.
func (e *ender) commit(ctx context.Context, t Transaction, warn func(age time.Duration, err error)) error {
	next := time.Now().Add(e.config.warnAfter)
	remind := func(err error) {
		if now := time.Now(); now.After(next) {
			next = now.Add(warnEvery)
			warn(now.Sub(t.Opened), err)
		}
	}
	for wait := minPause; ; wait = min(2*wait, e.config.maxPause) {
		err := e.end(ctx, t, true)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("commit of transaction %s did not come to an end: %w", t, errors.Join(ctx.Err(), err))
		case isOver(err):
			again, err := e.resolve(ctx, t, err)
			if !again {
				return err
			}
		case isRefused(err):
			return fmt.Errorf("commit of transaction %s: %w", t, e.config.refused(err))
		}
		remind(err)
		pause(ctx, wait)
	}
}

// warnEvery is how often a commit that goes on failing is told of.
const warnEvery = time.Minute

// isOver says whether the brokers know no open transaction of that identity:
// it may have been committed or aborted.
func isOver(err error) bool {
	for _, over := range []error{
		kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState,
		kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.TransactionalIDNotFound,
	} {
		if errors.Is(err, over) {
			return true
		}
	}
	return false
}

// isRefused says whether asking again for the end of a transaction is of no use.
func isRefused(err error) bool { return isAnswer(err) && !errors.Is(err, kerr.ConcurrentTransactions) }

// insist repeats a request while its failure may pass.
func (e *ender) insist(ctx context.Context, request func(context.Context) error) error {
	for wait := minPause; ; wait = min(2*wait, e.config.maxPause) {
		once, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := request(once)
		cancel()
		if err == nil || isOver(err) || isRefused(err) {
			return err
		}
		if !pause(ctx, wait) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// resolve finds out what became of a transaction that is over: nil if it was
// committed, again if the request is to be repeated.
func (e *ender) resolve(ctx context.Context, t Transaction, cause error) (again bool, err error) {
	became, d, err := e.fateOf(ctx, t)
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("outcome of transaction %s: %w", t, ctx.Err())
	case became == outcomeCommitted:
		return false, nil
	case became == outcomeOpen:
		return true, nil
	case errors.Is(err, kerr.TransactionalIDNotFound):
		return false, unknown(t, cause, e.notKnown())
	case err != nil:
		return false, unknown(t, cause, err.Error())
	case became == outcomeAborted:
		return false, fmt.Errorf("%w (commit was answered %w)", lostError(t, d, time.Now()), cause)
	default:
		return false, unknown(t, cause, fmt.Sprintf("state %s, producer %d epoch %d", d.State, d.ProducerID, d.ProducerEpoch))
	}
}

// fateOf is what the brokers, or else the witness, tell of a transaction; err is
// theirs.
func (e *ender) fateOf(ctx context.Context, t Transaction) (became fate, d kadm.DescribedTransaction, err error) {
	d, err = e.describe(ctx, t.ID)
	if ctx.Err() != nil {
		return outcomeUnknown, d, ctx.Err()
	}
	if err == nil {
		became = outcome(t, d)
	}
	if became != outcomeCommitted && became != outcomeOpen && e.witnessed(ctx, t) {
		became = outcomeCommitted
	}
	return became, d, err
}

// inspect returns an error if a commit would surely not succeed. Where the
// brokers do not tell, the answer to a commit may.
func (e *ender) inspect(ctx context.Context, t Transaction) error {
	became, d, err := e.fateOf(ctx, t)
	switch {
	case ctx.Err() != nil:
		if interrupted := e.config.interrupted(ctx, err); interrupted != nil {
			return interrupted
		}
		return e.config.unreachable(e.config.startTimeout, err)
	case became == outcomeCommitted || became == outcomeOpen:
		return nil
	case errors.Is(err, kerr.TransactionalIDNotFound):
		return fmt.Errorf("%w: %s: %s", connector.ErrTransactionUnknown, t, e.notKnown())
	case err != nil:
		return fmt.Errorf("outcome of transaction %s: %w", t, final(err))
	case became == outcomeAborted:
		return lostError(t, d, time.Now())
	}
	return nil
}

// notKnown is why an id that the brokers do not know may be none of theirs.
func (e *ender) notKnown() string {
	return fmt.Sprintf("the brokers at %s do not know the transactional id: they have forgotten it, or this is another cluster than it was written to", e.config.names())
}

// lostError is the error of a transaction that was aborted. Before its timeout that
// was not the brokers' own doing.
func lostError(t Transaction, d kadm.DescribedTransaction, now time.Time) error {
	why := "most likely because it was not committed within its timeout"
	if now.Before(t.Opened.Add(t.Timeout)) {
		why = "before its timeout: by hand, or by another program that used its id"
	}
	return fmt.Errorf("%w: %s was aborted, %s (state %s, epoch %d)", connector.ErrTransactionLost, t, why, d.State, d.ProducerEpoch)
}

func unknown(t Transaction, cause error, found string) error {
	return fmt.Errorf("%w: %s: commit was answered %w; %s", connector.ErrTransactionUnknown, t, cause, found)
}

type fate int

const (
	outcomeUnknown fate = iota
	outcomeCommitted
	outcomeAborted
	outcomeOpen
)

// outcome tells the fate of a transaction from what the brokers say of its id.
// With the second protocol the epoch grows by one as a transaction ends; so it
// does when the brokers end it because of its timeout, in either protocol.
func outcome(t Transaction, d kadm.DescribedTransaction) fate {
	if d.ProducerID != t.ProducerID {
		return outcomeUnknown
	}
	after := t.Epoch
	if t.EndTxn >= endTxnV2 {
		after++
	}
	switch d.State {
	case "Ongoing":
		if d.ProducerEpoch == t.Epoch {
			return outcomeOpen
		}
	case "PrepareCommit":
		if d.ProducerEpoch == t.Epoch || d.ProducerEpoch == after {
			return outcomeOpen // decided; the request will be answered soon
		}
	case "CompleteCommit":
		if d.ProducerEpoch == after {
			return outcomeCommitted
		}
	case "PrepareAbort", "CompleteAbort", "PrepareEpochFence":
		// Kafka 4.0.0 counts twice as it ends one that has timed out, with the
		// second protocol; no later transaction of the id ends at that epoch.
		if d.ProducerEpoch >= t.Epoch && d.ProducerEpoch <= after+1 {
			return outcomeAborted
		}
	}
	return outcomeUnknown
}

// describe asks for the state of a transactional id.
func (e *ender) describe(ctx context.Context, id string) (d kadm.DescribedTransaction, err error) {
	cl, err := e.client(endTxnV2)
	if err != nil {
		return d, err
	}
	adm := kadm.NewClient(cl)
	err = e.insist(ctx, func(ctx context.Context) error {
		described, err := adm.DescribeTransactions(ctx, id)
		if err == nil {
			d, err = described.On(id, nil)
		}
		return cmp.Or(err, d.Err)
	})
	return d, err
}

// abort aborts exactly this transaction, if it is still open.
func (e *ender) abort(ctx context.Context, t Transaction) error {
	for wait := minPause; ; wait = min(2*wait, e.config.maxPause) {
		err := e.end(ctx, t, false)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("abort of transaction %s did not come to an end: %w", t.ID, errors.Join(ctx.Err(), err))
		case isOver(err):
			d, err := e.describe(ctx, t.ID)
			if err != nil && !errors.Is(err, kerr.TransactionalIDNotFound) {
				return fmt.Errorf("abort of transaction %s: %w", t.ID, final(err))
			}
			if err != nil || outcome(t, d) != outcomeOpen {
				return nil //nolint:nilerr // an id the broker has forgotten has nothing open
			}
		case isRefused(err):
			return fmt.Errorf("abort of transaction %s: %w", t.ID, e.config.refused(err))
		}
		pause(ctx, wait)
	}
}
