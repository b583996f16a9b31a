package rig

import (
	"sync"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/job"
)

const (
	// closeTime bounds the time from a process's end to the receiver's seeing
	// its last requests, and that its connections ended.
	closeTime = 2 * time.Second
	// travelTime bounds the time from a claim to the request's arrival.
	travelTime = 300 * time.Millisecond
)

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
		cutOff := d.Arrived.Before(cut.To.Add(travelTime))
		if cut.Node {
			cutOff = !d.Closed.IsZero() && d.Closed.Before(cut.To.Add(closeTime))
		}
		if cutOff && answeredBefore < c.SettleTime {
			return true, answeredBefore
		}
	}
	return false, 0
}
