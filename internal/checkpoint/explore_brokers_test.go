package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
)

// brokers are Kafka's transactions: a coordinator's state by transactional id,
// and what is committed, by topic. The table of answers is that of real
// brokers, in either transaction protocol.
type brokers struct {
	ids map[string]kafkaTxn
	// done are the transactions that were committed.
	done     map[handle]bool
	nextPID  int64
	protocol int // 1 or 2
}

// kafkaTxn is the state of a transactional id.
type kafkaTxn struct {
	pid     int64
	epoch   int
	state   transactionState
	topic   string
	records string // a byte each
}

type transactionState int

const (
	transactionEmpty transactionState = iota
	transactionOngoing
	transactionCommitted
	transactionAborted
)

var (
	errFencedProducer = errors.New("PRODUCER_FENCED")
	errTxnState       = errors.New("INVALID_TXN_STATE")
)

func newBrokers() brokers {
	return brokers{ids: map[string]kafkaTxn{}, done: map[handle]bool{}, protocol: 2}
}

func (b brokers) clone() brokers {
	b.ids, b.done = maps.Clone(b.ids), maps.Clone(b.done)
	return b
}

func (b brokers) sum() (sum uint64) {
	for id, t := range b.ids {
		sum += mix(hashOf(id) ^ mix(uint64(t.pid)<<32^uint64(t.epoch)<<8^uint64(t.state)) ^ hashOf(t.records))
	}
	return sum
}

// handle is the identity of a transaction that a committable holds.
type handle struct {
	id    string
	pid   int64
	epoch int
}

func (h handle) String() string { return fmt.Sprintf("%s(%d:%d)", h.id, h.pid, h.epoch) }

type handleCodec struct{}

func (handleCodec) Format() codec.Format { return codec.Format{ID: "handle", Version: 1} }
func (handleCodec) Append(dst []byte, h handle) ([]byte, error) {
	dst = append(append(dst, h.id...), '|')
	dst = append(strconv.AppendInt(dst, h.pid, 10), '|')
	return strconv.AppendInt(dst, int64(h.epoch), 10), nil
}

func (handleCodec) Decode(src []byte) (handle, error) {
	parts := strings.Split(string(src), "|")
	pid, err1 := strconv.ParseInt(parts[1], 10, 64)
	epoch, err2 := strconv.Atoi(parts[2])
	return handle{parts[0], pid, epoch}, errors.Join(err1, err2)
}

// initProducer fences whoever had the id, aborts what is open on it, and
// gives a new epoch.
func (u *universe) initProducer(id, topic string) (handle, error) {
	if err := u.step("init", id); err != nil {
		return handle{}, err
	}
	t, known := u.brokers.ids[id]
	switch {
	case !known:
		u.brokers.nextPID++
		t.pid = u.brokers.nextPID
	case t.state == transactionOngoing:
		u.aborting(id, t)
		t.epoch += 2
	default:
		t.epoch++
	}
	t.state, t.topic, t.records = transactionEmpty, topic, ""
	u.brokers.ids[id] = t
	h := handle{id, t.pid, t.epoch}
	u.learnedNumber(uint64(t.pid)<<32 ^ uint64(t.epoch))
	return h, nil
}

func (u *universe) produce(h handle, value int) error {
	if err := u.step("produce", h.id); err != nil {
		return err
	}
	t := u.brokers.ids[h.id]
	if t.pid != h.pid || t.epoch != h.epoch || t.state != transactionEmpty && t.state != transactionOngoing {
		u.learned("fenced")
		return errFencedProducer
	}
	t.state = transactionOngoing
	t.records += string([]byte{byte(value)})
	u.brokers.ids[h.id] = t
	u.learned("produced")
	return nil
}

// endTxn is one EndTxn request, version 5 in protocol 2, else 4.
func (u *universe) endTxn(h handle, commit bool) error {
	kind, ended := "abort", transactionAborted
	if commit {
		kind, ended = "commit", transactionCommitted
	}
	if err := u.step(kind, h.id); err != nil {
		return err
	}
	err := u.ended(h, commit, ended)
	if err != nil {
		u.learned(err.Error())
	}
	return err
}

func (u *universe) ended(h handle, commit bool, ended transactionState) error {
	t := u.brokers.ids[h.id]
	after := h.epoch
	if u.brokers.protocol == 2 {
		after++
	}
	switch {
	case t.pid == h.pid && t.epoch == h.epoch && t.state == transactionOngoing:
	case t.pid == h.pid && t.epoch == after && t.state == ended:
		return nil // a repeated request
	case t.pid == h.pid && t.epoch == h.epoch:
		return errTxnState
	default:
		return errFencedProducer
	}
	if commit {
		u.brokers.done[h] = true
		u.publish(t.topic, t.records)
	} else {
		u.aborting(h.id, t)
	}
	t.epoch, t.state, t.records = after, ended, ""
	u.brokers.ids[h.id] = t
	return nil
}

// outcome is what DescribeTransactions tells of a transaction that is over.
func (u *universe) outcome(h handle) (transactionState, error) {
	if err := u.step("describe", h.id); err != nil {
		return 0, err
	}
	t := u.brokers.ids[h.id]
	after := h.epoch
	if u.brokers.protocol == 2 {
		after++
	}
	state := transactionEmpty
	switch {
	case t.pid != h.pid:
	case t.state == transactionOngoing && t.epoch == h.epoch:
		state = transactionOngoing
	case t.state == transactionCommitted && t.epoch == after:
		state = transactionCommitted
	case t.state == transactionAborted && (t.epoch == h.epoch || t.epoch == h.epoch+1):
		state = transactionAborted
	}
	u.learnedNumber(uint64(state))
	return state, nil
}

// kafkaSink is the protocol of the sink: package twophase drives it.
type kafkaSink struct {
	u     *universe
	topic string
}

func (k kafkaSink) HandleCodec() codec.Codec[handle] { return handleCodec{} }

func (k kafkaSink) NewParticipant(connector.SinkContext) (twophase.Participant[int, handle], error) {
	return &kafkaWriter{kafkaSink: k}, nil
}

func (k kafkaSink) NewCoordinator(connector.CommitterContext) (twophase.Coordinator[handle], error) {
	return kafkaCommitter{k}, nil
}

// kafkaWriter initialises an id as its transaction's first record comes.
type kafkaWriter struct {
	kafkaSink
	live  handle
	wrote bool
}

func (k *kafkaWriter) Begin(_ context.Context, n twophase.Name) (handle, error) {
	if k.u.off.has(ownIDs) {
		n.Attempt = 0
	}
	k.live = handle{id: n.String(), epoch: -1}
	return k.live, nil
}

func (k *kafkaWriter) Write(_ handle, vals []int, _ []int64) (err error) {
	if k.live.epoch < 0 {
		if k.live, err = k.u.initProducer(k.live.id, k.topic); err != nil {
			return err
		}
	}
	for _, v := range vals {
		if err := k.u.produce(k.live, v); err != nil {
			return err
		}
		k.wrote = true
	}
	return nil
}

func (k *kafkaWriter) Flush(context.Context, handle) error { return nil }

func (k *kafkaWriter) PreCommit(context.Context, handle) (handle, bool, error) {
	wrote := k.wrote
	k.wrote = false
	return k.live, wrote, nil
}

func (k *kafkaWriter) Abort(context.Context, handle) error {
	if !k.wrote {
		return nil
	}
	return k.u.endTxn(k.live, false)
}

func (k *kafkaWriter) Close() error { return nil }

type kafkaCommitter struct{ kafkaSink }

func (k kafkaCommitter) Commit(_ context.Context, h handle) error {
	err := k.u.endTxn(h, true)
	if !errors.Is(err, errTxnState) && !errors.Is(err, errFencedProducer) {
		return err
	}
	state, err := k.u.outcome(h)
	switch {
	case err != nil || state == transactionCommitted:
		return err
	case state == transactionAborted:
		return fmt.Errorf("%w: %s", connector.ErrTransactionLost, h)
	}
	return fmt.Errorf("%w: %s", connector.ErrTransactionUnknown, h)
}

func (k kafkaCommitter) RecoverAndCommit(ctx context.Context, h handle) error {
	return k.Commit(ctx, h)
}

func (k kafkaCommitter) Open(_ context.Context, lineages []string) ([]twophase.Open[handle], error) {
	if err := k.u.step("transactions", strings.Join(lineages, " ")); err != nil {
		return nil, err
	}
	var open []twophase.Open[handle]
	for _, id := range slices.Sorted(maps.Keys(k.u.brokers.ids)) {
		t := k.u.brokers.ids[id]
		n, err := twophase.ParseName(id)
		if err != nil || !slices.Contains(lineages, n.Lineage) || t.state != transactionOngoing {
			continue
		}
		if k.u.off.has(sweepEarlier) {
			n.Attempt = 0
		}
		k.u.learned(id)
		open = append(open, twophase.Open[handle]{Name: n, Txn: handle{id, t.pid, t.epoch}})
	}
	return open, nil
}

// RecoverAndAbort aborts what is listed, and nothing else.
func (k kafkaCommitter) RecoverAndAbort(_ context.Context, h handle) error {
	if err := k.u.endTxn(h, false); !errors.Is(err, errTxnState) && !errors.Is(err, errFencedProducer) {
		return err
	}
	return nil
}

func (k kafkaCommitter) Close() error { return nil }
