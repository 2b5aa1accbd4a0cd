//go:build unix

package killmatrix

import (
	"flag"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

var (
	cluster = flag.String("cluster", "", "directory of the brokers at -servers, three of them, as scripts/kafka/kafka.sh started them")
	leaders = flag.Int("leaders", 3, "how many brokers each seed kills")
)

// TestLeadersAreKilled kills the broker that leads a partition of the output,
// or coordinates its transactions, and starts it again, while the job runs and
// is killed as well.
func TestLeadersAreKilled(t *testing.T) {
	if *cluster == "" {
		t.Skip("needs three brokers: -cluster DIR and -servers")
	}
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := newCampaign(t, seed, 30_000+15_000**leaders)
		p := c.start("")
		for i := range *leaders {
			if !p.awaitCompleted(t, 3) {
				t.Fatalf("the job has ended\n%s", p.tail())
			}
			topic := []string{c.names.numbered, "__transaction_state", c.names.totals, c.names.in}[i%4]
			broker := c.leader(topic)
			c.kafka("kill", broker)
			all.leaders.Add(1)
			if c.random.IntN(2) == 0 { // and the job with it, in the midst of the fail-over
				<-time.After(time.Duration(c.random.Int64N(int64(6 * time.Second))))
				c.want(p, p.kill(t), -1)
				all.kills.Add(1)
				p = c.start("")
			}
			drain(p)
			if !p.awaitCompleted(t, 3) {
				t.Fatalf("the job has ended without broker %d\n%s", broker, p.tail())
			}
			c.kafka("restart", broker)
			c.awaitReplicas(topic)
			drain(p)
		}
		c.want(p, p.kill(t), -1)
		all.kills.Add(1)
		c.conclude()
	})
}

// drain forgets what a process has said until now.
func drain(p *process) {
	for {
		select {
		case e := <-p.events:
			if e.kind == "exited" {
				p.events <- e
				return
			}
		default:
			return
		}
	}
}

// kafka does something with one broker.
func (c *campaign) kafka(command string, broker int32) {
	c.Helper()
	out, err := exec.Command("../../scripts/kafka/kafka.sh", command, *cluster, fmt.Sprint(broker)).CombinedOutput()
	if err != nil {
		c.Fatalf("%s broker %d: %v\n%s", command, broker, err, out)
	}
}

// leader is the broker that leads partition 0 of a topic.
func (c *campaign) leader(topic string) int32 {
	c.Helper()
	adm := kadm.NewClient(connect(c.T, c.address))
	described, err := adm.ListTopicsWithInternal(c.Context(), topic)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		c.Fatalf("leader of %s: %v", topic, err)
	}
	return described[topic].Partitions[0].Leader
}

// awaitReplicas waits until all replicas of a topic are in sync: another
// broker must not be killed before.
func (c *campaign) awaitReplicas(topic string) {
	c.Helper()
	adm := kadm.NewClient(connect(c.T, c.address))
	for deadline := time.Now().Add(patience); ; <-time.After(200 * time.Millisecond) {
		described, err := adm.ListTopicsWithInternal(c.Context(), topic, c.names.numbered, c.names.totals, c.names.in, "__transaction_state")
		behind := 0
		if err == nil {
			for _, t := range described {
				for _, p := range t.Partitions {
					behind += len(p.Replicas) - len(p.ISR)
				}
			}
			if behind == 0 {
				return
			}
		}
		if time.Now().After(deadline) {
			c.Fatalf("%d replicas are not in sync after %v (%v)", behind, patience, err)
		}
	}
}
