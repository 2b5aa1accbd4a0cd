package command

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
)

// brokers runs a test with both transaction protocols, and on a real broker if
// there is one.
func brokers(t *testing.T, test func(t *testing.T, b *broker)) {
	for name, opts := range map[string][]kfake.Opt{"V2": nil, "V1": {kfake.MaxVersions(kversion.V3_8_0())}} {
		t.Run(name, func(t *testing.T) { test(t, inProcess(t, opts...)) })
	}
	t.Run("real", func(t *testing.T) {
		server := os.Getenv("WEIR_KAFKA")
		if server == "" {
			t.Skip("WEIR_KAFKA=host:port names no real broker")
		}
		test(t, newBroker(t, nil, server))
	})
}

// inProcess starts a broker inside the test.
func inProcess(t *testing.T, opts ...kfake.Opt) *broker {
	fake, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return newBroker(t, fake, fake.ListenAddrs()[0])
}

type broker struct {
	*testing.T
	fake   *kfake.Cluster
	server string
	adm    *kadm.Client
	topic  string
	inits  *[]string
}

func newBroker(t *testing.T, fake *kfake.Cluster, server string) *broker {
	cl, err := kgo.NewClient(kgo.SeedBrokers(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	b := &broker{T: t, fake: fake, server: server, adm: kadm.NewClient(cl), topic: "rows-" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	if _, err := b.adm.CreateTopic(t.Context(), 1, 1, nil, b.topic); err != nil {
		t.Fatal(err)
	}
	return b
}

// text is a codec of strings.
type text struct{}

func (text) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (text) Decode(src []byte) (string, error)           { return string(src), nil }
func (text) Format() codec.Format                        { return codec.Format{ID: "text", Version: 1} }

type writer = connector.Writer[string, twophase.Committable[kafka.Transaction]]

func (b *broker) sink() *kafka.TopicSink[string] {
	return kafka.Sink(b.topic, text{}, kafka.ExactlyOnce("pages.out"), kafka.Brokers(b.server), kafka.TransactionTimeout(10*time.Minute))
}

// writer makes the writer of a subtask of the attempt.
func (b *broker) writer(a *checkpoint.Attempt, subtask int) writer {
	b.Helper()
	w, err := b.sink().NewWriter(&connectortest.Context{
		Ctx: b.Context(), LineageID: a.Lineage, AttemptNumber: a.Number, OperatorID: "rows", SubtaskIndex: subtask, SubtaskCount: 2, Interval: time.Second, Timeout: time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// write writes a record and waits until it has arrived.
func (b *broker) write(w writer, value string) {
	b.Helper()
	if err := errors.Join(w.Write([]string{value}, []int64{time.Now().UnixMilli()}), w.Flush(b.Context())); err != nil {
		b.Fatal(err)
	}
}

// precommit returns what a checkpoint holds of a writer.
func (b *broker) precommit(w writer, id int64) snapshot.Committable {
	b.Helper()
	cs, err := w.PreCommit(id)
	if err != nil || len(cs) != 1 {
		b.Fatalf("pre-commit: %v, %v", cs, err)
	}
	data, err := b.sink().CommittableCodec().Append(nil, cs[0])
	if err != nil {
		b.Fatal(err)
	}
	return snapshot.Committable{Checkpoint: id, Data: data}
}

// crashed is a job that died with a checkpoint complete but not committed, and
// a transaction open that no snapshot lists. It returns their ids.
func crashed(b *broker) (d *dir, listed, left string) {
	d = newDir(b.T)
	d.lineages = int(time.Now().UnixNano() % 1e9) // a broker of many tests
	d.start(checkpoint.StartOptions{})
	w0, w1 := b.writer(d.attempt, 0), b.writer(d.attempt, 1)
	b.write(w0, "kept")
	d.publish(1, b.sink().CommittableCodec().Format(), b.precommit(w0, 1))
	b.write(w1, "left")
	if err := w0.Close(); err != nil {
		b.Fatal(err)
	}
	b.abandon(w1)
	name := twophase.Name{Lineage: d.attempt.Lineage, Attempt: 1, Operator: "rows"}
	other := name
	other.Subtask = 1
	return d, "pages%2Eout." + name.String(), "pages%2Eout." + other.String()
}

// abandon leaves a writer's transaction open, as a dying process does: it lets
// a snapshot take it over that is never published.
func (b *broker) abandon(w writer) {
	b.Helper()
	b.precommit(w, 99)
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

func (b *broker) run(input string, d *dir, args ...string) result {
	b.Helper()
	all := append([]string{"kafka-transactions"}, args...)
	all = append(all, "--bootstrap-servers", b.server, "--lineage", d.attempt.Lineage)
	return weir(b.T, input, all...)
}

// committed reads the topic up to its last stable offset.
func (b *broker) committed() []string {
	b.Helper()
	run, err := connectortest.StartSource(kafka.Source(b.topic, text{}, kafka.Until(kafka.Latest()), kafka.Brokers(b.server)), 1, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer run.Close()
	if err := run.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	return run.Values()
}

// settled waits until the brokers have written the markers of what ended.
func (b *broker) settled(d *dir) {
	b.Helper()
	for {
		r := b.run("", d, "list")
		r.want(b.T, exitDone)
		if strings.Contains(r.out, "No transaction") {
			return
		}
		select {
		case <-b.Context().Done():
			b.Fatal("transactions stay open")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (b *broker) watchInits() {
	if b.fake == nil {
		return
	}
	b.inits = &[]string{}
	b.fake.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if id := req.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil {
			*b.inits = append(*b.inits, *id)
		}
		return nil, nil, false
	})
}

// Case 48: what a snapshot lists is committed, what none lists is aborted, and
// the other way round only where the cost is accepted.
func TestTransactionsOfADeadJob(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, listed, left := crashed(b)
		b.watchInits()
		r := b.run("", d, "list", "--checkpoint-dir", d.root)
		r.want(t, exitDone, "Lineage "+d.attempt.Lineage+", job pages", listed+"  Ongoing", left+"  Ongoing",
			"a start commits it: snapshot pages/chk-1 lists it", "the newest attempt left it; a start aborts it: no live snapshot lists it",
			"holds back readers of "+b.topic+"[0]", "  1m")

		// Refused, and nothing is done to either.
		r = b.run("", d, "abort", "--yes", "--checkpoint-dir", d.root)
		r.want(t, exitFailed, "snapshot pages/chk-1 lists it, so its output is lost for good", "until --accept-loss 1", "refused, and nothing was done: add --accept-loss")
		r = b.run("", d, "commit", "--yes", "--checkpoint-dir", d.root)
		r.want(t, exitFailed, "publishes it a second time", "Costs nothing", "add --accept-duplicates")
		r = b.run("", d, "abort", "--yes")
		r.want(t, exitFailed, "unclear: no --checkpoint-dir is given. If a snapshot that counts lists it", "add --accept-loss")
		r = b.run("n\n", d, "abort", "--id", left, "--checkpoint-dir", d.root)
		r.want(t, exitFailed, "Abort 1 transaction? [y/N]", "nothing was done", "Nothing is lost")
		if got := b.run("", d, "list"); strings.Count(got.out, "Ongoing") != 2 {
			t.Fatalf("something was done:\n%s", got.out)
		}

		// A job that runs is left alone.
		unlock, err := d.blobs.LockDir("pages")
		if err != nil {
			t.Fatal(err)
		}
		b.run("", d, "abort", "--yes", "--id", left, "--checkpoint-dir", d.root).want(t, exitFailed, "the job runs", "is in use by another process")
		if err := unlock(); err != nil {
			t.Fatal(err)
		}

		b.run("y\n", d, "abort", "--id", left, "--checkpoint-dir", d.root).want(t, exitDone, left+": aborted")
		b.run("", d, "commit", "--yes", "--id", listed, "--checkpoint-dir", d.root).want(t, exitDone, "Costs nothing", listed+": committed")
		b.settled(d)
		if got := b.committed(); !slices.Equal(got, []string{"kept"}) {
			t.Errorf("committed %q, want what the checkpoint held", got)
		}
		if b.inits != nil && len(*b.inits) > 0 {
			t.Errorf("ids were initialised: %q", *b.inits)
		}
		b.run("", d, "abort", "--yes", "--id", left, "--checkpoint-dir", d.root).want(t, exitDone, "No transaction of that kind is open")
		if b.fake != nil {
			return // it forgets what became of a transaction
		}
		// The commit left its mark; without that the brokers tell.
		b.run("", d, "list", "--checkpoint-dir", d.root).want(t, exitDone, "No transaction of an exactly-once sink is open")
		if err := os.Remove(filepath.Join(d.root, "pages", "chk-1", checkpoint.CommittedName)); err != nil {
			t.Fatal(err)
		}
		b.run("", d, "list", "--checkpoint-dir", d.root).want(t, exitDone, "committed: snapshot pages/chk-1 lists it, a start sees that")
		b.run("", d, "list", "--all").want(t, exitDone, "CompleteCommit", "CompleteAbort")

		// A start finds it committed.
		d.start(checkpoint.StartOptions{})
		c, err := b.sink().NewCommitter(&connectortest.Context{LineageID: d.attempt.Lineage, AttemptNumber: d.attempt.Number, OperatorID: "rows"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held, _, err := kafka.DecodeCommittable(b.sink().CommittableCodec().Format(), d.attempt.Restored.Operators[0].Committables[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Commit(t.Context(), []twophase.Committable[kafka.Transaction]{held}); err != nil {
			t.Errorf("the start's commit: %v", err)
		}
	})
}

// What was aborted although a snapshot lists it is shown as lost.
func TestAcceptedLossOfATransaction(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, listed, _ := crashed(b)
		r := b.run("", d, "abort", "--yes", "--accept-loss", "--output", "json", "--checkpoint-dir", d.root)
		r.want(t, exitDone)
		var got struct{ Transactions []jsonEntry }
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			t.Fatalf("%v:\n%s", err, r.out)
		}
		if ts := got.Transactions; len(ts) != 2 || ts[0].ID != listed || ts[0].Standing != needed || ts[0].Result != "aborted" || ts[0].Snapshot != "pages/chk-1" ||
			ts[1].Standing != leftover || ts[1].Result != "aborted" || ts[0].TimeoutSeconds != 600 || ts[0].Prefix != "pages.out" {
			t.Errorf("got %+v", ts)
		}
		b.settled(d)
		if got := b.committed(); len(got) != 0 {
			t.Errorf("committed %q", got)
		}
		says := "lost: snapshot pages/chk-1 lists it, a start from there will be refused"
		if b.fake != nil {
			says = "unknown: snapshot pages/chk-1 lists it" // kfake forgets
		}
		b.run("", d, "list", "--checkpoint-dir", d.root).want(t, exitDone, says)
	})
}

// Where a snapshot cannot be read nobody knows what it lists.
func TestUnclearTransactions(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, listed, _ := crashed(b)
		d.damage("pages/chk-1/_metadata")
		b.run("", d, "list", "--checkpoint-dir", d.root).want(t, exitDone, "unclear: snapshot pages/chk-1 cannot be read")
		b.run("", d, "abort", "--yes", "--id", listed, "--checkpoint-dir", d.root).want(t, exitFailed, "snapshot pages/chk-1 cannot be read", "add --accept-loss")
		other := newDir(t)
		other.lineages = 1e9 + 7
		other.start(checkpoint.StartOptions{})
		b.run("", d, "list", "--checkpoint-dir", other.root).want(t, exitDone, "its lineage is none of the jobs' in the directory")
		b.run("", d, "list", "--prefix", "pages").want(t, exitDone, "No transaction of an exactly-once sink is open")
		b.run("", d, "list", "--prefix", "pages.out").want(t, exitDone, listed)
		b.run("", d, "abort", "--yes", "--accept-loss").want(t, exitDone, listed+": aborted")
	})
}

// Ctrl-C at a list that waits for brokers is told as that.
func TestSignalAtUnreachableBrokers(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var errs strings.Builder
	p := Program{Stdout: io.Discard, Stderr: &errs, Now: time.Now}
	code := p.Run(ctx, []string{"kafka-transactions", "list", "--bootstrap-servers", "127.0.0.1:1"})
	if code != exitFailed || !strings.Contains(errs.String(), "127.0.0.1:1 was interrupted: interrupt signal received") || strings.Contains(errs.String(), "within") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestUnreachableBrokers(t *testing.T) {
	r := weir(t, "", "kafka-transactions", "list", "--bootstrap-servers", "127.0.0.1:1", "--timeout", "300ms")
	r.want(t, exitFailed, "127.0.0.1:1", "did not answer within")
}
