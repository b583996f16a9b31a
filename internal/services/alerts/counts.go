package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/store"
)

const (
	// slotLength is the resolution of counts in time.
	slotLength = 30 * time.Second
	// maxLanes bounds the lanes of a tally, the first ones that fail. With names of full length, its message is below
	// store.MaxMessage.
	maxLanes = 200
	// countsChannel carries the failures of all nodes.
	countsChannel = "alert-counts"
	tellEvery     = 5 * time.Second
	callTimeout   = 10 * time.Second
)

// count is the failures of one lane.
type count struct {
	Topic    string `json:"t,omitempty"`
	Endpoint string `json:"e,omitempty"`
	Failed   int64  `json:"f,omitempty"` // attempts
	Dead     int64  `json:"d,omitempty"`
}

// tally is counts by lane.
type tally map[job.Lane]count

func (t tally) add(n count) {
	lane := job.Lane{Topic: n.Topic, Endpoint: n.Endpoint}
	sum, known := t[lane]
	if !known && len(t) >= maxLanes || n.Failed+n.Dead == 0 || n.Topic == Topic {
		return
	}
	n.Failed += sum.Failed
	n.Dead += sum.Dead
	t[lane] = n
}

// slot is the counts of one slotLength.
type slot struct {
	from  time.Time
	tally tally
}

// Counts counts failed attempts and dead letters of all nodes. It works while Run does.
type Counts struct {
	bus   store.Messaging
	clock job.Clock
	log   *slog.Logger

	mu      sync.Mutex
	pending tally     // of this node, not published yet
	slots   []slot    // of all nodes in the last MaxWindow, oldest first
	since   time.Time // counts are complete from then on
}

// NewCounts returns a Counts. A nil clock is the machine's; a nil logger is none.
func NewCounts(bus store.Messaging, clock job.Clock, log *slog.Logger) *Counts {
	clock, log = cmp.Or(clock, job.SystemClock()), cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Counts{bus: bus, clock: clock, log: log, pending: tally{}, since: clock.Now()}
}

// Subscriber counts the settlements of this process.
func (c *Counts) Subscriber() feed.Subscriber { return feed.Subscriber{Settled: c.note} }

func (c *Counts) note(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, r := range outcomes {
		n := count{Topic: s.Key.Topic, Endpoint: s.Lane.Endpoint}
		if s.Attempt != nil && r.To != job.Delivered && !job.PutOff(s.Reason) {
			n.Failed = 1
		}
		if r.To == job.Dead {
			n.Dead = 1
		}
		c.pending.add(n)
	}
}

// Run publishes and receives counts until ctx ends.
func (c *Counts) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { feed.Follow(ctx, c.bus, countsChannel, c.clock, c.log, c.receive) })
	for job.Sleep(ctx, c.clock, tellEvery) == nil {
		c.tell(ctx)
	}
	return nil
}

// tell sends pending counts to all nodes, this one included. Counts of a failed call stay pending.
func (c *Counts) tell(ctx context.Context) {
	c.mu.Lock()
	rows := slices.Collect(maps.Values(c.pending))
	clear(c.pending)
	c.mu.Unlock()
	if len(rows) == 0 {
		return
	}
	message, _ := json.Marshal(rows) // they have texts and numbers only
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.bus.Publish(ctx, countsChannel, message); err != nil {
		c.log.DebugContext(ctx, "failures are counted later", "error", err)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, n := range rows {
			c.pending.add(n)
		}
	}
}

// receive adds the counts of a node. nil: messages may be lost.
func (c *Counts) receive(message []byte) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var rows []count
	if message == nil || json.Unmarshal(message, &rows) != nil {
		c.since = now
		return
	}
	if n := len(c.slots); n == 0 || now.Sub(c.slots[n-1].from) >= slotLength {
		c.slots = slices.DeleteFunc(c.slots, func(s slot) bool { return now.Sub(s.from) > MaxWindow+slotLength })
		c.slots = append(c.slots, slot{from: now, tally: tally{}})
	}
	for _, n := range rows {
		c.slots[len(c.slots)-1].tally.add(n)
	}
}

// within returns the counts within the window, and whether they are complete.
func (c *Counts) within(window time.Duration) (rows []count, complete bool) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slots {
		if now.Sub(s.from) < window+slotLength { // what is at the end of a slot counts for the whole window
			rows = slices.AppendSeq(rows, maps.Values(s.tally))
		}
	}
	return rows, now.Sub(c.since) >= window
}
