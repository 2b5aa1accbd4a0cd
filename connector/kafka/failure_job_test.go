package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/twophase"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/script"
	weirsnapshot "github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// TestFailureJobs runs the scripts in testdata/failures: whole jobs, which copy
// a topic to another, in several processes.
func TestFailureJobs(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		script.Run(t, "failures", func(t *testing.T, say script.Say) func([]string) {
			return newStage(connect(t, &cluster{T: t, fake: c.fake, servers: c.servers}), say).run
		})
	})
}

// stage is where the processes of a script play: brokers and directories.
type stage struct {
	*cluster
	say        script.Say
	root       string
	in, out    string
	processes  map[string]*process
	savepoints map[string]string // paths by name
}

func newStage(c *cluster, say script.Say) *stage {
	return &stage{
		cluster: c, say: say, root: c.TempDir(), in: c.topic(2), out: c.topic(1),
		processes: map[string]*process{}, savepoints: map[string]string{},
	}
}

func (s *stage) run(words []string) {
	switch words[0] {
	case "run": // NAME [OPTION...]: see launch
		s.launch(words[1], words[2:])
	case "write": // NAME VALUE...: and wait until NAME has read them
		s.give(words[2:])
		s.processes[words[1]].passed(s, words[2:])
	case "await": // NAME VALUE...: until NAME has read them, again perhaps
		s.processes[words[1]].passed(s, words[2:])
	case "put": // VALUE...
		s.give(words[1:])
	case "checkpoint": // NAME
		id, err := s.processes[words[1]].job.Checkpoint(s.deadline())
		s.tell(fmt.Sprintf("checkpoint %d", id), err)
	case "begin": // NAME FILE: a checkpoint, which stands before it creates a file of that name
		p := s.processes[words[1]]
		p.gate.pauseAt(words[2])
		go func() {
			id, err := p.job.Checkpoint(context.WithoutCancel(s.Context()))
			p.taken <- result{id, err}
		}()
		s.standing(p)
	case "result": // NAME: of that checkpoint
		r := <-s.processes[words[1]].taken
		s.tell(fmt.Sprintf("checkpoint %d", r.id), r.err)
	case "savepoint", "stop": // NAME AS: a savepoint, or the end with one
		p := s.processes[words[1]]
		take := p.job.Savepoint
		if words[0] == "stop" {
			take = p.job.StopWithSavepoint
		}
		path, err := take(s.deadline(), s.path(words[2]))
		s.savepoints[words[2]] = path
		s.tell("stored", err)
		if words[0] == "stop" {
			s.tell("ended", p.end(s))
		}
	case "suspend": // NAME
		s.processes[words[1]].job.Suspend()
		s.tell("ended", s.processes[words[1]].end(s))
	case "hold": // NAME: its commits do not come through
		s.processes[words[1]].gate.hold()
	case "count": // N: wait until so many are committed
		ctx := s.deadline()
		for got := -1; strconv.Itoa(got) != words[1]; got = len(s.committed(s.out)) {
			if !pause(ctx, minPause) {
				s.Fatalf("%d records are committed, want %s", got, words[1])
			}
		}
	case "pause", "kill": // NAME: a process that is killed goes on only after the script
		s.processes[words[1]].gate.pause()
	case "resume": // NAME
		s.processes[words[1]].gate.resume()
	case "standing": // NAME: until it stands, as stands= said
		s.standing(s.processes[words[1]])
	case "end": // NAME: how it ends
		s.tell("ended", s.processes[words[1]].end(s))
	case "copy": // PATH PATH: of directories
		if err := os.CopyFS(s.path(words[2]), os.DirFS(s.path(words[1]))); err != nil {
			s.Fatal(err)
		}
	case "corrupt": // PATH
		s.corrupt(s.path(words[1]))
	case "commit": // PATH SUBTASK: one of a snapshot's transactions, as a process that dies after it
		s.commit(s.path(words[1]), words[2])
	case "expire": // until the brokers have aborted what is open
		s.expire()
	case "see": // VALUE...: wait until these are committed, and no others
		ctx := s.deadline()
		for got := "?"; got != strings.Join(words[1:], " "); got = s.visible() {
			if !pause(ctx, minPause) {
				s.Fatalf("committed: %s, want %s", got, words[1:])
			}
		}
	case "free": // wait until no transaction holds up readers
		for ctx := s.deadline(); s.blocked(s.out); {
			if !pause(ctx, minPause) {
				s.Fatal("an open transaction holds up readers")
			}
		}
	default:
		s.Fatalf("unknown command %q", words)
	}
}

// visible are the values that a reader of committed records has seen after a
// while, sorted. A bounded read would wait where records of an aborted
// transaction come last before an open one.
func (s *stage) visible() string {
	s.Helper()
	run, err := connectortest.StartSource(Source(s.out, text{}, Until(Latest()), s.brokers()), 1, nil, nil)
	if err != nil {
		s.Fatal(err)
	}
	defer run.Close()
	if err := run.Run(within(s.T, time.Second)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.Fatal(err)
	}
	return strings.Join(slices.Sorted(slices.Values(run.Values())), " ")
}

// tell says how something ended, in the fewest words: the texts of refusals are
// those of internal/checkpoint.
func (s *stage) tell(done string, err error) {
	switch {
	case err == nil:
		s.say("%s", done)
	case errors.Is(err, coord.ErrRefused):
		s.Log(err)
		s.say("refused")
	case errors.Is(err, coord.ErrFenced):
		s.say("fenced")
	case errors.Is(err, coord.ErrFinished):
		s.say("already finished")
	default:
		s.Errorf("%v, want what a script can expect", err)
	}
}

// path is that of a savepoint, or one below the root.
func (s *stage) path(name string) string {
	if p, ok := s.savepoints[name]; ok {
		return p
	}
	return filepath.Join(s.root, name)
}

// give writes values to the input, to its partitions in turn.
func (s *stage) give(values []string) {
	s.Helper()
	for i, v := range values {
		s.put(s.in, int32(i%2), v)
	}
}

// standing waits until a process stands where it was told to.
func (s *stage) standing(p *process) {
	s.Helper()
	for !p.gate.isClosed() {
		if !pause(s.deadline(), time.Millisecond) {
			s.Fatal("the process does not come there")
		}
	}
}

type result struct {
	id  int64
	err error
}

// process runs the job, until its gate is closed.
type process struct {
	taken chan result
	gate  *gate
	job   *embedded.Job
	read  chan string // values that went through it
	ended chan error
}

// launch starts a process and waits until the job runs, or has ended. Options
// are dir=DIR, sink=ID, parallelism=N, timeout=DURATION for transactions,
// bounded, stands=FILE, -s PATH, --rewind, --fresh and --accept-loss ID.
func (s *stage) launch(name string, words []string) {
	p := &process{gate: &gate{}, taken: make(chan result, 1), read: make(chan string, 1000), ended: make(chan error, 1)}
	o := embedded.Options{Restart: checkpoint.None{}, Checkpoint: checkpoint.Options{Interval: 10_000 * time.Hour, Retained: 3}}
	dir, sink, timeout, source := "weir", "rows", defaultTransactionTimeout, []SourceOption{StartAt(Earliest()), s.brokers()}
	stands := false
	for i := 0; i < len(words); i++ {
		key, value, _ := strings.Cut(words[i], "=")
		var err error
		switch key {
		case "dir":
			dir = value
		case "sink":
			sink = value
		case "parallelism":
			o.Parallelism, err = strconv.Atoi(value)
		case "timeout":
			timeout, err = time.ParseDuration(value)
		case "stands": // before it creates a file of that name
			p.gate.pauseAt(value)
			stands = true
		case "bounded":
			source = append(source, Until(Latest()))
		case "-s":
			i++
			o.RestorePath = s.path(words[i])
		case "--rewind":
			o.Rewind = true
		case "--fresh":
			o.Fresh = true
		case "--accept-loss":
			i++
			o.AcceptLoss, err = strconv.ParseInt(words[i], 10, 64)
		default:
			err = errors.New("unknown option")
		}
		if err != nil {
			s.Fatalf("%q: %v", words[i], err)
		}
	}
	o.Checkpoint.Dir = s.path(dir)
	o.Storage = gatedBlobs{file.New(o.Checkpoint.Dir), p.gate}
	started := make(chan embedded.Event, 1)
	o.OnEvent = func(e embedded.Event) {
		if e.Kind == embedded.Started {
			started <- e
		}
	}
	net := Client(kgo.Dialer(p.gate.dial))
	p.job = jobtest.Job(s.T, o, func(j *stream.Job) {
		in := stream.From(j, "in", Source(s.in, text{}, append(source, net)...))
		seen := stream.Map(in, func(v string) string { p.read <- v; return v }, stream.ID("seen"))
		stream.To(seen, sink, Sink(s.out, text{}, ExactlyOnce("p"), TransactionTimeout(timeout), s.brokers(), net, quick))
	})
	s.processes[name] = p
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	go func() { p.ended <- p.job.Run(ctx) }()
	s.Cleanup(func() {
		p.gate.resume()
		cancel()
		<-p.ended
	})
	if stands {
		return
	}
	s.runs(p, started)
}

// runs waits until a process runs the job, or has ended.
func (s *stage) runs(p *process, started <-chan embedded.Event) {
	s.Helper()
	select {
	case e := <-started:
		s.say("attempt %d from %s", e.Attempt, from(e.Checkpoint))
	case err := <-p.ended:
		p.ended <- err
		s.tell("ended", err)
	case <-s.deadline().Done():
		s.Fatal("the job does not start")
	}
}

func from(id int64) string {
	if id == 0 {
		return "nothing"
	}
	return fmt.Sprintf("checkpoint %d", id)
}

// passed waits until values went through a process.
func (p *process) passed(s *stage, values []string) {
	s.Helper()
	for range values {
		select {
		case <-p.read:
		case err := <-p.ended:
			p.ended <- err
			s.Fatalf("the job ended with %v", err)
		case <-s.deadline().Done():
			s.Fatal("the job does not read")
		}
	}
}

func (p *process) end(s *stage) error {
	s.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-s.deadline().Done():
		s.Fatal("the job does not end")
		return nil
	}
}

// transactions are those that a snapshot lists, by subtask.
func (s *stage) transactions(dir string) map[int]Transaction {
	s.Helper()
	m, err := weirsnapshot.Load(s.Context(), file.New(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		s.Fatal(err)
	}
	found := map[int]Transaction{}
	for _, op := range m.Operators {
		for _, c := range op.Committables {
			v, err := twophase.Sink(protocol[string]{}).CommittableCodec().Decode(c.Data)
			if err != nil {
				s.Fatal(err)
			}
			found[c.Subtask] = v.Txn
		}
	}
	return found
}

func (s *stage) commit(dir, subtask string) {
	s.Helper()
	n, err := strconv.Atoi(subtask)
	if err != nil {
		s.Fatal(err)
	}
	config := newClientConfig()
	config.servers = s.servers
	e := newEnder(&config)
	defer e.close()
	if err := e.end(s.deadline(), s.transactions(dir)[n], true); err != nil {
		s.Fatal(err)
	}
}

// expire waits until no transaction is open, and from then on has the brokers
// say of those that snapshots list what Kafka says and kfake forgets.
func (s *stage) expire() {
	s.Helper()
	for s.blocked(s.out) {
		if !pause(s.deadline(), minPause) {
			s.Fatal("an open transaction does not expire")
		}
	}
	dirs, err := filepath.Glob(filepath.Join(s.root, "weir/test/chk-*"))
	if err != nil {
		s.Fatal(err)
	}
	if s.fake == nil {
		return
	}
	known := map[string]Transaction{}
	for _, dir := range dirs {
		for _, t := range s.transactions(dir) {
			known[t.ID] = t
		}
	}
	s.fake.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		t, ok := known[req.(*kmsg.DescribeTransactionsRequest).TransactionalIDs[0]]
		if !ok {
			return nil, nil, false
		}
		return describeTransactions("CompleteAbort", t.ProducerID, t.Epoch+1, 0)(req), nil, true
	})
}
