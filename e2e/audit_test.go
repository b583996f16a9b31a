package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
)

const (
	// quietSettleTime bounds the time from a receiver's answer to its being written
	// down, on a quiet machine (E2E_LONG). An attempt that was answered earlier than
	// that before a kill was not in flight any more, and must not be repeated.
	quietSettleTime = 500 * time.Millisecond
	busySettleTime  = 10 * time.Second
	// quietTravelTime bounds the time from a claim to the request's arrival. A node may
	// claim from a master that is not one any more until the end of a cut.
	quietTravelTime = 300 * time.Millisecond
	busyTravelTime  = 3 * time.Second
	// maxInFlight bounds what a node has in flight, however slow the machine is: a
	// request or a settlement per worker, and one batch of settlements on its way.
	maxInFlight = 2*dispatcher.DefaultWorkers + 256
	// deliverLimit is how long all deliveries may take after the load's end. It
	// covers leases of killed nodes.
	deliverLimit = 2 * time.Minute
	pollEvery    = 50 * time.Millisecond
)

// cuts collects the moments at which attempts may have been cut off.
type cuts struct{ rig.Cuts }

func (c *cuts) during(what string, node bool, do func()) { c.During(what, node, do) }

func (c *cuts) kill(n *node) { c.Kill(n.Node) }

// allow allows for other processes on the machine, except in a long run.
func (c *cuts) allow() {
	c.SettleTime, c.TravelTime = sized(busySettleTime, quietSettleTime), sized(busyTravelTime, quietTravelTime)
}

// audit waits until the store at base says that every job was delivered, and
// then compares what was acknowledged with what arrived: nothing lost, nothing
// early, no attempt charged that was not made, and nothing twice but what was
// in flight at a cut.
func audit(t testing.TB, l *load, r *receiver.Receiver, c *cuts, base string) {
	t.Helper()
	c.allow()
	if len(l.acknowledged) != l.jobs {
		t.Fatalf("%d of %d jobs were acknowledged", len(l.acknowledged), l.jobs)
	}
	// Only then can no repetition follow.
	states := awaitDelivered(t, base, l.topic, l.jobs)
	for state, n := range states {
		if state == "delivered" && n != l.jobs || state != "delivered" && n != 0 {
			t.Errorf("the store knows %d jobs as %s", n, state)
		}
	}

	var lost, wrong, twice []string
	inFlight, slowest := 0, time.Duration(0)
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
			if i == 0 {
				continue
			}
			if yes, before := c.InFlight(arrived[i-1]); yes {
				inFlight++
				slowest = max(slowest, before)
			} else {
				twice = append(twice, id+": "+rig.Describe(arrived))
			}
		}
		delete(byID, id)
	}
	for id := range byID {
		wrong = append(wrong, id+" was never acknowledged")
	}
	wrong = append(wrong, r.Problems()...)
	if most := len(c.All()) * maxInFlight; inFlight > most {
		t.Errorf("%d repeated, though %d cuts can interrupt %d attempts at most", inFlight, len(c.All()), most)
	}
	t.Logf("%d acknowledged, %d arrived in %d deliveries: %d lost, %d repeated because they were in flight at one of %d cuts (answered %v before it at most), %d repeated otherwise, %d refusals",
		len(l.acknowledged), r.Jobs(), len(deliveries), len(lost), inFlight, len(c.All()), slowest, len(twice), len(l.refusals()))
	for what, list := range map[string][]string{"lost": lost, "wrong": wrong, "repeated although not in flight at a cut": twice} {
		if len(list) > 0 {
			slices.Sort(list)
			t.Errorf("%d %s:\n%s\ncuts: %v", len(list), what, strings.Join(list[:min(len(list), 20)], "\n"), c)
		}
	}
}

// awaitDelivered waits until the store knows n jobs of the topic as delivered,
// but not for ever, and returns how many it knows in each state.
func awaitDelivered(t testing.TB, base, topic string, n int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deliverLimit)
	defer cancel()
	for {
		states := getTopic(t, base, topic).States
		if states["delivered"] == n || job.Sleep(ctx, clock, pollEvery) != nil {
			return states
		}
	}
}
