package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// pulledJob is a registration for a pull queue.
type pulledJob struct {
	Topic    string         `json:"topic"`
	ID       string         `json:"id"`
	Pull     bool           `json:"pull"`
	OrderKey string         `json:"order_key,omitempty"`
	Delay    string         `json:"delay"`
	Retry    map[string]any `json:"retry"`
}

// consumer is a process that passes pulled jobs on to the receiver.
type consumer struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
	log  *lockedBuffer // of all its lives
}

// lockedBuffer is a buffer that a process writes to while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startConsumer starts a consumer of a topic at a node.
func startConsumer(t *testing.T, base, topic, to string) *consumer {
	t.Helper()
	c := &consumer{t: t, log: &lockedBuffer{}, args: []string{
		"listen", to, "--url", base, "--topic", topic, "--concurrency", "8", "--lease", "2s", "--timeout", "5s",
	}}
	c.start()
	t.Cleanup(c.kill)
	return c
}

// start starts the process, again if the node is down: then it ends at once.
func (c *consumer) start() {
	c.t.Helper()
	path, err := shipped()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(path, c.args...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *consumer) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func startAt(t *testing.T, name string, flags ...string) *node {
	t.Helper()
	n := newNode(t, shipped, name, append([]string{"--addr", testenv.FreeAddr(t)}, flags...)...)
	n.start()
	return n
}

// TestKillConsumersEmbedded kills consumers and their node while jobs are pulled.
func TestKillConsumersEmbedded(t *testing.T) {
	t.Parallel()
	killConsumers(t, []*node{startAt(t, "node", "--data-dir", t.TempDir())}, true)
}

func TestKillConsumersOnRedis(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t, testenv.WithAOF())
	flags := append([]string{"--redis-url", redis.URL()}, quickTakeover...)
	killConsumers(t, []*node{startAt(t, "a", flags...), startAt(t, "b", flags...)}, false)
}

// killConsumers has consumers pull jobs, and kills consumers and nodes meanwhile. Nothing is lost, jobs of
// an order key follow each other, and each lease that ended without an answer counts as an attempt. On the
// embedded store, a kill of the node ends leases without a charge.
func killConsumers(t *testing.T, nodes []*node, uncharged bool) {
	t.Helper()
	const topic, keys, batchSize = "pulled", 20, 1000
	jobs := sized(500, 20_000)
	rnd := newRand(t)
	r := receiver.Start(t, slowly)
	var consumers []*consumer
	for i := range 4 {
		consumers = append(consumers, startConsumer(t, nodes[i%len(nodes)].base(), topic, r.URL()))
	}
	over := sized(4*time.Second, 2*time.Minute)
	keyOf := func(i int) string {
		if i%4 != 0 {
			return ""
		}
		return fmt.Sprint("k", i/4%keys)
	}
	for from := 0; from < jobs; from += batchSize {
		var b struct {
			Jobs []pulledJob `json:"jobs"`
		}
		for i := from; i < min(from+batchSize, jobs); i++ {
			b.Jobs = append(b.Jobs, pulledJob{
				Topic: topic, ID: fmt.Sprint(i), Pull: true, OrderKey: keyOf(i), Delay: fmt.Sprintf("%dms", (over * time.Duration(i) / time.Duration(jobs)).Milliseconds()),
				Retry: map[string]any{"steps": []string{"0s"}, "limit": 100},
			})
		}
		must(t, http.StatusOK, "POST", nodes[0].base()+"/v1/jobs/batch", b)
	}
	kills := 0
	for begin := clock.Now(); clock.Now().Sub(begin) < over; kills++ {
		pause(t, time.Duration(500+rnd.IntN(500))*time.Millisecond)
		if kills%3 == 2 {
			n := nodes[rnd.IntN(len(nodes))]
			n.Kill()
			n.start()
		}
		c := consumers[rnd.IntN(len(consumers))]
		c.kill()
		c.start()
	}
	for _, c := range consumers { // those that found no node have ended
		c.kill()
		c.start()
	}
	states := awaitDelivered(t, nodes[0].base(), topic, jobs)
	for _, c := range consumers {
		c.kill()
	}
	if states["delivered"] != jobs {
		t.Errorf("of %d jobs, the store knows %v", jobs, states)
	}
	auditPulled(t, nodes[0].base(), topic, r, jobs, keyOf, uncharged)
	lost := 0
	for _, c := range consumers {
		lost += strings.Count(c.log.String(), "LEASE LOST")
	}
	t.Logf("%d jobs, %d kills, %d arrivals, %d leases reported as lost", jobs, kills, r.Count(), lost)
}

// auditPulled compares what arrived with what the store knows.
func auditPulled(t *testing.T, base, topic string, r *receiver.Receiver, jobs int, keyOf func(int) string, uncharged bool) {
	t.Helper()
	byID := map[string][]receiver.Delivery{}
	for _, d := range r.Deliveries() {
		byID[d.ID] = append(byID[d.ID], d)
	}
	accepted := make([]time.Time, jobs) // first
	var wrong []string
	for i := range jobs {
		id := fmt.Sprint(i)
		arrived := byID[id]
		for n, d := range arrived {
			if !d.Answered.IsZero() && (accepted[i].IsZero() || d.Answered.Before(accepted[i])) {
				accepted[i] = d.Answered
			}
			if d.Arrived.Before(d.Due) {
				wrong = append(wrong, id+" came early")
			}
			if n > 0 && (d.Attempt < arrived[n-1].Attempt || !uncharged && d.Attempt == arrived[n-1].Attempt) {
				wrong = append(wrong, id+": an attempt was not counted: "+rig.Describe(arrived))
			}
		}
		if accepted[i].IsZero() {
			wrong = append(wrong, id+" is lost: "+rig.Describe(arrived))
			continue
		}
		if v := getJob(t, base, topic, id); v.Attempts < arrived[len(arrived)-1].Attempt {
			wrong = append(wrong, fmt.Sprintf("%s has %d attempts: %s", id, v.Attempts, rig.Describe(arrived)))
		}
	}
	before := map[string]int{} // the job before, by order key
	for i := range jobs {
		key := keyOf(i)
		if key == "" {
			continue
		}
		if last, ok := before[key]; ok && byID[fmt.Sprint(i)][0].Arrived.Before(accepted[last]) {
			wrong = append(wrong, fmt.Sprintf("%d came before %d of its order key %s was accepted", i, last, key))
		}
		before[key] = i
	}
	wrong = append(wrong, r.Problems()...)
	if len(wrong) > 0 {
		slices.Sort(wrong)
		t.Errorf("%d findings:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
}

// A restart of an embedded node ends leases without using an attempt.
func TestRestartEndsLeases(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*node){
		"stopped": func(n *node) { n.stop() },
		"killed":  func(n *node) { n.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			n := startEmbedded(t, shipped)
			must(t, http.StatusCreated, "POST", n.base()+"/v1/jobs", map[string]any{"topic": "p", "id": "a", "pull": true})
			lease := func(attempt int) string {
				t.Helper()
				var got struct {
					Jobs []struct {
						Receipt string
						Attempt int
					}
				}
				must(t, http.StatusOK, "POST", n.base()+"/v1/topics/p/pull", map[string]any{"wait": "30s", "lease": "1h"}).into(t, &got)
				if len(got.Jobs) != 1 || got.Jobs[0].Attempt != attempt {
					t.Fatalf("leased %+v, want attempt %d", got, attempt)
				}
				return got.Jobs[0].Receipt
			}
			answer := func(call string, receipt any, want string) {
				t.Helper()
				var got struct{ Results []struct{ Result string } }
				must(t, http.StatusOK, "POST", n.base()+"/v1/pull/"+call, map[string]any{"receipts": []any{receipt}}).into(t, &got)
				if got.Results[0].Result != want {
					t.Errorf("%s is %s, want %s", call, got.Results[0].Result, want)
				}
			}
			first := lease(1)
			answer("nack", map[string]any{"receipt": first, "delay": "0s"}, "ok")
			second := lease(2)
			end(n)
			n.start()
			third := lease(2) // at once, and the attempt counts once
			answer("ack", second, "stale")
			answer("extend", second, "stale")
			answer("ack", third, "ok")
			if v := getJob(t, n.base(), "p", "a"); v.State != job.Delivered.String() || v.Attempts != 2 {
				t.Errorf("ended as %+v", v)
			}
		})
	}
}
