package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testenv"
)

const (
	// settleTime bounds the time from a receiver's answer to its being written
	// down. An attempt that was answered earlier than that before a kill was
	// not in flight any more, and must not be repeated.
	settleTime = 500 * time.Millisecond
	// closeTime bounds the time from a process's end to the receiver's seeing
	// that its connections ended.
	closeTime = 2 * time.Second
	// deliverLimit is how long all deliveries may take after the load's end. It
	// covers leases of killed nodes.
	deliverLimit = 2 * time.Minute
)

// cut is a span of time in which attempts under way could be cut off before
// their outcome was written down: the kill of a node, or an outage of Redis.
type cut struct {
	what     string
	from, to time.Time
	// node is set when a process was killed: the attempts that it cut off are
	// those whose connections ended with it.
	node bool
}

// cuts collects cuts; it is safe for concurrent use.
type cuts struct {
	mu  sync.Mutex
	all []cut
}

// during notes the span that do takes.
func (c *cuts) during(what string, node bool, do func()) {
	from := clock.Now()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, cut{what: what, from: from, to: clock.Now(), node: node})
}

// kill kills the node and notes it.
func (c *cuts) kill(n *node) { c.during("kill "+n.name, true, n.kill) }

// inFlight reports whether the attempt was in flight at one of the cuts.
func (c *cuts) inFlight(d receiver.Delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.all, func(c cut) bool {
		answeredBefore := !d.Answered.IsZero() && d.Answered.Before(c.from.Add(-settleTime))
		endedWith := !d.Closed.IsZero() && d.Closed.Before(c.to.Add(closeTime))
		return d.Arrived.Before(c.to) && !answeredBefore && (endedWith || !c.node)
	})
}

// audit waits until every acknowledged job has arrived, and then compares what
// was acknowledged with what arrived: nothing lost, nothing early, no attempt
// charged that was not made, and nothing twice but what was in flight at a cut.
func audit(t testing.TB, l *load, r *receiver.Receiver, c *cuts) {
	t.Helper()
	if len(l.acknowledged) != l.jobs {
		t.Fatalf("%d of %d jobs were acknowledged", len(l.acknowledged), l.jobs)
	}
	testenv.Eventually(t, deliverLimit, func() bool { return r.Jobs() >= l.jobs || t.Failed() }, "all jobs arrive")

	var lost, wrong, twice []string
	inFlight := 0
	byID := map[string][]receiver.Delivery{}
	deliveries := r.Deliveries()
	for _, d := range deliveries {
		byID[d.ID] = append(byID[d.ID], d)
	}
	for id, a := range l.acknowledged {
		arrived := byID[id]
		if !slices.ContainsFunc(arrived, func(d receiver.Delivery) bool { return !d.Answered.IsZero() }) {
			lost = append(lost, id)
		}
		for i, d := range arrived {
			switch {
			case d.UID != a.uid:
				wrong = append(wrong, id+" came as "+d.UID+", was acknowledged as "+a.uid)
			case d.Arrived.Before(d.Due):
				wrong = append(wrong, id+" came "+d.Due.Sub(d.Arrived).String()+" early")
			case d.Attempt != 1:
				wrong = append(wrong, id+" was charged an attempt that no receiver failed")
			}
			switch {
			case i == 0:
			case c.inFlight(arrived[i-1]):
				inFlight++
			default:
				twice = append(twice, id)
			}
		}
		delete(byID, id)
	}
	for id := range byID {
		wrong = append(wrong, id+" was never acknowledged")
	}
	wrong = append(wrong, r.Problems()...)
	t.Logf("%d acknowledged, %d arrived in %d deliveries: %d lost, %d repeated because they were in flight at one of %d cuts, %d repeated otherwise, %d refusals",
		len(l.acknowledged), r.Jobs(), len(deliveries), len(lost), inFlight, len(c.all), len(twice), len(l.refusals()))
	for what, list := range map[string][]string{"lost": lost, "wrong": wrong, "repeated although not in flight at a cut": twice} {
		if len(list) > 0 {
			slices.Sort(list)
			t.Errorf("%d %s:\n%s", len(list), what, strings.Join(list[:min(len(list), 20)], "\n"))
		}
	}
}

// auditStore checks that the store agrees that all jobs of the load ended by
// being delivered.
func auditStore(t testing.TB, l *load, base string) {
	t.Helper()
	testenv.Eventually(t, deliverLimit, func() bool {
		return getTopic(t, base, l.topic).States["delivered"] == l.jobs
	}, "the store knows all jobs as delivered")
	for state, n := range getTopic(t, base, l.topic).States {
		if n != 0 && state != "delivered" {
			t.Errorf("%d jobs are %s", n, state)
		}
	}
}
