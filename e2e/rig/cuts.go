package rig

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/job"
)

// closeTime bounds the time from a process's end to the receiver's seeing
// its last requests, and that its connections ended.
const closeTime = 2 * time.Second

// Cut is a span of time in which attempts in flight could be cut off before
// their outcome was written down: the kill of a node, or an outage of Redis.
type Cut struct {
	What     string
	From, To time.Time
	// Node is set when a process was killed: the attempts that it cut off are
	// those whose connections ended with it.
	Node bool
}

// Cuts collects cuts; it is safe for concurrent use.
type Cuts struct {
	// SettleTime bounds the time from a receiver's answer to its being written
	// down. An attempt that was answered earlier than that before a cut was not
	// in flight any more, and must not be repeated.
	SettleTime time.Duration
	// TravelTime bounds the time from a claim to the request's arrival. A request that
	// arrived later than that after a cut was claimed after it.
	TravelTime time.Duration

	mu  sync.Mutex
	all []Cut
}

// During notes the span that do takes.
func (c *Cuts) During(what string, node bool, do func()) {
	clock := job.SystemClock()
	from := clock.Now()
	do()
	c.Add(Cut{What: what, From: from, To: clock.Now(), Node: node})
}

// Kill kills the node and notes it.
func (c *Cuts) Kill(n *Node) { c.During("kill "+n.Name, true, n.Kill) }

// Add notes a cut.
func (c *Cuts) Add(cut Cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, cut)
}

// All is every cut so far.
func (c *Cuts) All() []Cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[:len(c.all):len(c.all)]
}

// InFlight reports whether the attempt was in flight at one of the cuts, and
// how long before it the attempt was answered, if at all.
func (c *Cuts) InFlight(d receiver.Delivery) (yes bool, answeredBefore time.Duration) {
	for _, cut := range c.All() {
		if !d.Answered.IsZero() {
			answeredBefore = cut.From.Sub(d.Answered)
		}
		cutOff := d.Arrived.Before(cut.To.Add(c.TravelTime))
		if cut.Node {
			cutOff = !d.Closed.IsZero() && d.Closed.Before(cut.To.Add(closeTime))
		}
		if cutOff && answeredBefore < c.SettleTime {
			return true, answeredBefore
		}
	}
	return false, 0
}

// String lists the cuts and their times, for messages.
func (c *Cuts) String() string {
	var all []string
	for _, cut := range c.All() {
		all = append(all, cut.What+" "+ClockTime(cut.From)+"–"+ClockTime(cut.To))
	}
	return strings.Join(all, ", ")
}

// Describe lists deliveries of one job, for messages beside those of Cuts.
func Describe(deliveries []receiver.Delivery) string {
	var all []string
	for _, d := range deliveries {
		all = append(all, fmt.Sprintf("attempt %d at %s, answered %d at %s", d.Attempt, ClockTime(d.Arrived), d.Status, ClockTime(d.Answered)))
	}
	return strings.Join(all, "; ")
}

// ClockTime is a time of messages, in seconds of its minute.
func ClockTime(t time.Time) string { return t.Format("05.000") }
