package kafka

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/twophase"
)

// Transaction is what any process needs to commit or abort a transaction.
type Transaction struct {
	// ID is the transactional id.
	ID string
	// ProducerID and Epoch are those that the records were written with.
	ProducerID int64
	Epoch      int16
	// EndTxn is the version of the request that ends the transaction: 5 where
	// the cluster's transaction.version is at least 2, else 4. The brokers
	// know a repeated request only in the same version.
	EndTxn int16
	// Opened is the time before the first record; Timeout is how long after it
	// the brokers abort the transaction.
	Opened  time.Time
	Timeout time.Duration
	// Topics that were written to.
	Topics []string
}

// String names the transaction for messages.
func (t Transaction) String() string {
	return fmt.Sprintf("%s (producer %d epoch %d, opened %s, timeout %v, topics %s)",
		t.ID, t.ProducerID, t.Epoch, t.Opened.UTC().Format(time.RFC3339), t.Timeout, strings.Join(t.Topics, ","))
}

// transactionalID is the id of a transaction: "<prefix>.<name>", the prefix
// escaped, so that it can be taken apart again without doubt.
func transactionalID(prefix string, name twophase.Name) string {
	return twophase.Escape(prefix) + "." + name.String()
}

// ParseTransactionalID takes a transactional id apart, and returns false for
// every id that an exactly-once sink cannot have made.
func ParseTransactionalID(id string) (prefix string, name twophase.Name, ok bool) {
	escaped, rest, _ := strings.Cut(id, ".")
	prefix = twophase.Unescape(escaped)
	name, err := twophase.ParseName(rest)
	return prefix, name, err == nil && prefix != "" && transactionalID(prefix, name) == id
}

type transactionCodec struct{}

func (transactionCodec) Format() codec.Format {
	return codec.Format{ID: "weir.kafka.transaction", Version: 1}
}

func (transactionCodec) Append(dst []byte, t Transaction) ([]byte, error) {
	dst = appendString(dst, t.ID)
	for _, v := range [...]int64{t.ProducerID, int64(t.Epoch), int64(t.EndTxn), t.Opened.UnixMilli(), t.Timeout.Milliseconds(), int64(len(t.Topics))} {
		dst = binary.AppendVarint(dst, v)
	}
	for _, topic := range t.Topics {
		dst = appendString(dst, topic)
	}
	return dst, nil
}

func (transactionCodec) Decode(src []byte) (Transaction, error) {
	in := input{rest: src}
	t := Transaction{
		ID:         in.string(),
		ProducerID: in.varint(),
		Epoch:      in.int16(),
		EndTxn:     in.int16(),
		Opened:     time.UnixMilli(in.varint()),
		Timeout:    time.Duration(in.int32()) * time.Millisecond,
	}
	for n := in.varint(); n > 0 && in.err == nil; n-- {
		t.Topics = append(t.Topics, in.string())
	}
	if in.err == nil && t.EndTxn != 4 && t.EndTxn != 5 {
		in.fail(fmt.Errorf("EndTxn version %d", t.EndTxn))
	}
	if err := in.end(); err != nil {
		return Transaction{}, fmt.Errorf("kafka transaction: %w", err)
	}
	return t, nil
}
