package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
)

// onBothBackends runs a test on an embedded node, and on two nodes with a Redis.
func onBothBackends(t *testing.T, test func(t *testing.T, nodes []*node)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, []*node{startEmbedded(t, shipped)})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, startNodes(t, shipped, "a b", testenv.StartRedis(t).URL()))
	})
}

// last is another node than the first, if there is one.
func last(nodes []*node) *node { return nodes[len(nodes)-1] }

func putTopic(t testing.TB, n *node, topic string, settings map[string]any) {
	t.Helper()
	a, err := call(t.Context(), "PUT", n.base()+"/v1/topics/"+topic, nil, settings)
	if err != nil || a.status != http.StatusOK && a.status != http.StatusCreated {
		t.Fatalf("PUT of topic %s: %d, %v: %s", topic, a.status, err, a.body)
	}
}

func tellTopic(t testing.TB, n *node, topic, what string) {
	t.Helper()
	must(t, http.StatusOK, "POST", n.base()+"/v1/topics/"+topic+"/"+what, nil)
}

// registerDue registers jobs that are due now, in batches.
func registerDue(t testing.TB, n *node, topic, url string, jobs int) {
	t.Helper()
	const perBatch = 500
	for from := 0; from < jobs; from += perBatch {
		var batch []registration
		for i := from; i < min(jobs, from+perBatch); i++ {
			batch = append(batch, registration{Topic: topic, ID: fmt.Sprint(i), URL: url})
		}
		must(t, http.StatusOK, "POST", n.base()+"/v1/jobs/batch", map[string]any{"jobs": batch})
	}
}

// stillFor is how long a test watches for deliveries that must not come.
const stillFor = time.Second

// TestTopicPause: soon after a pause nothing of the topic is in flight, and nothing
// arrives any more, from any node, also after a restart; others go on. Resumed, all
// of it is delivered.
func TestTopicPause(t *testing.T) {
	t.Parallel()
	onBothBackends(t, func(t *testing.T, nodes []*node) {
		const jobs = 1000
		a, b := nodes[0], last(nodes)
		r := receiver.Start(t, func(receiver.Delivery) receiver.Answer { return receiver.Answer{Hold: 20 * time.Millisecond} })
		putTopic(t, b, "t", map[string]any{"concurrency": 8})
		registerDue(t, a, "t", r.URL(), jobs)
		testenv.Eventually(t, deliverLimit, func() bool { return r.Count() > 20 }, "deliveries are under way")
		tellTopic(t, b, "t", "pause")
		paused := clock.Now()
		register(t, a.base(), registration{Topic: "t", ID: "later", URL: r.URL()})
		register(t, a.base(), registration{Topic: "other", ID: "free", URL: r.URL()})
		awaitDelivered(t, b.base(), "other", 1)
		testenv.Eventually(t, deliverLimit, func() bool {
			states := getTopic(t, a.base(), "t").States
			return states["ready"]+states["running"] == 0
		}, "nothing of the topic is in flight")
		stood := countOf(r, "t")
		b.stop()
		b.start()
		pause(t, stillFor)
		if now := countOf(r, "t"); now != stood || now >= jobs {
			t.Errorf("%d deliveries a while after the pause, %d in the end, of %d jobs", stood, now, jobs)
		}
		var latest time.Duration
		for _, d := range r.Deliveries() {
			if d.Topic == "t" {
				latest = max(latest, d.Arrived.Sub(paused))
			}
		}
		t.Logf("the last delivery came %v after the pause", latest)
		tellTopic(t, b, "t", "resume")
		if states := awaitDelivered(t, a.base(), "t", jobs+1); states["delivered"] != jobs+1 {
			t.Errorf("in the end: %v", states)
		}
	})
}

func countOf(r *receiver.Receiver, topic string) int {
	n := 0
	for _, d := range r.Deliveries() {
		if d.Topic == topic {
			n++
		}
	}
	return n
}

// openRequests counts the requests of a topic that are open at a receiver.
type openRequests struct {
	mu        sync.Mutex
	now, most int
}

func (o *openRequests) plan(d receiver.Delivery) receiver.Answer {
	if d.Topic != "t" {
		return receiver.Answer{}
	}
	o.mu.Lock()
	o.now++
	o.most = max(o.most, o.now)
	o.mu.Unlock()
	_ = job.Sleep(context.Background(), clock, 15*time.Millisecond)
	o.mu.Lock()
	o.now--
	o.mu.Unlock()
	return receiver.Answer{}
}

// TestTopicConcurrency: with a concurrency of 3 there is never a fourth request
// open, over all nodes and endpoints.
func TestTopicConcurrency(t *testing.T) {
	t.Parallel()
	onBothBackends(t, func(t *testing.T, nodes []*node) {
		const jobs = 200
		var open openRequests
		first, second := receiver.Start(t, open.plan), receiver.Start(t, open.plan)
		putTopic(t, nodes[0], "t", map[string]any{"concurrency": 3})
		for i := range jobs {
			r := []*receiver.Receiver{first, second}[i%2]
			register(t, nodes[i%len(nodes)].base(), registration{Topic: "t", ID: fmt.Sprint(i), URL: r.URL()})
		}
		if states := awaitDelivered(t, nodes[0].base(), "t", jobs); states["delivered"] != jobs {
			t.Errorf("in the end: %v", states)
		}
		if open.most != 3 {
			t.Errorf("%d requests were open at a time, want 3", open.most)
		}
	})
}

// TestTopicRate: a rate holds over all nodes, evenly spread.
func TestTopicRate(t *testing.T) {
	t.Parallel()
	onBothBackends(t, func(t *testing.T, nodes []*node) {
		const rate = 50
		seconds := sized(5, 30)
		r := receiver.Start(t, receiver.Accept)
		tellTopic(t, nodes[0], "t", "pause")
		registerDue(t, nodes[0], "t", r.URL(), 5000)
		putTopic(t, last(nodes), "t", map[string]any{"rate": rate})
		resumed := clock.Now()
		tellTopic(t, last(nodes), "t", "resume")
		testenv.Eventually(t, deliverLimit, func() bool { return r.Count() >= rate*seconds }, "jobs arrive")
		tellTopic(t, nodes[0], "t", "pause")
		all := r.Deliveries()
		took := all[len(all)-1].Arrived.Sub(resumed)             // a slow machine makes it longer only
		if long && took > time.Duration(2*seconds)*time.Second { // a busy machine proves nothing
			t.Errorf("%d deliveries took %v at %d/s", len(all), took, rate)
		}
		if most := int(took.Seconds()*rate) + rate/2; len(all) > most {
			t.Errorf("%d deliveries within %v at %d/s", len(all), took, rate)
		}
		perSecond := map[int]int{}
		for _, d := range all {
			perSecond[int(d.Arrived.Sub(all[0].Arrived).Seconds())]++
		}
		t.Logf("%d deliveries within %v, by second: %v", len(all), took, perSecond)
	})
}
