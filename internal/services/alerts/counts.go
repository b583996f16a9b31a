package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/follow"
	"github.com/duehook/duehook/store"
)

const (
	// slotLength is the resolution of counts in time.
	slotLength = 10 * time.Second
	// maxLanes bounds the lanes with their own counts in one slot.
	maxLanes = 500
	// countsChannel carries the counts of all nodes. Any message means that there are
	// rules.
	countsChannel = "alert-counts"
	tellEvery     = 2 * time.Second
	tellWithin    = 2 * time.Second
	perMessage    = 200 // with names of full length, a message is below store.MaxMessage
)

// count is the counts of one lane. Lanes beyond maxLanes share one without names.
type count struct {
	Topic    string `json:"t,omitempty"`
	Endpoint string `json:"e,omitempty"`
	Attempts int64  `json:"a,omitempty"`
	Failed   int64  `json:"f,omitempty"` // of the attempts
	Dead     int64  `json:"d,omitempty"`
}

// tally is counts by lane.
type tally map[job.Lane]count

func (t tally) add(c count) {
	lane := job.Lane{Topic: c.Topic, Endpoint: c.Endpoint}
	if _, known := t[lane]; !known && len(t) >= maxLanes {
		lane = job.Lane{}
	}
	sum := t[lane]
	sum.Topic, sum.Endpoint = lane.Topic, lane.Endpoint
	sum.Attempts += c.Attempts
	sum.Failed += c.Failed
	sum.Dead += c.Dead
	t[lane] = sum
}

// slot is the counts of one slotLength.
type slot struct {
	from  time.Time
	tally tally
}

// Counts counts attempts and dead letters of all nodes, while there are rules on them. It
// works while Run does.
type Counts struct {
	bus   store.Messaging
	clock job.Clock
	log   *slog.Logger
	// window is the longest window of a rule, as a time.Duration; 0: there is none.
	window atomic.Int64
	// heard: there may be rules that this node does not know.
	heard atomic.Bool

	mu      sync.Mutex
	pending tally     // of this node, not published yet
	slots   []slot    // of all nodes, oldest first
	since   time.Time // counts are complete from then on
}

// NewCounts returns a Counts. A nil clock is the machine's; a nil logger is none.
func NewCounts(bus store.Messaging, clock job.Clock, log *slog.Logger) *Counts {
	clock, log = cmp.Or(clock, job.SystemClock()), cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Counts{bus: bus, clock: clock, log: log, pending: tally{}}
}

// want sets the longest window of a rule.
func (c *Counts) want(window time.Duration) {
	before := time.Duration(c.window.Swap(int64(window)))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case window == 0:
		c.slots, c.pending = nil, tally{}
	case window > before: // older counts are missing
		c.since = c.clock.Now()
	}
}

// Subscriber counts the settlements of this process.
func (c *Counts) Subscriber() feed.Subscriber { return feed.Subscriber{Settled: c.note} }

func (c *Counts) note(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
	if c.window.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, r := range outcomes {
		if s.Key.Topic == Topic {
			continue
		}
		n := count{Topic: s.Key.Topic, Endpoint: s.Lane.Endpoint}
		if s.Attempt != nil {
			n.Attempts = 1
			if r.To != job.Delivered && !job.PutOff(s.Reason) {
				n.Failed = 1
			}
		}
		if r.To == job.Dead {
			n.Dead = 1
		}
		if n.Attempts+n.Dead > 0 {
			c.pending.add(n)
		}
	}
}

// Run publishes and receives counts until ctx ends.
func (c *Counts) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		follow.Channel(ctx, c.bus, countsChannel, c.clock, c.log, c.receive)
		return nil
	})
	group.Go(func() error {
		for job.Sleep(ctx, c.clock, tellEvery) == nil {
			c.tell(ctx)
		}
		return nil
	})
	return group.Wait()
}

// tell publishes pending counts. Counts of a failed call stay pending.
func (c *Counts) tell(ctx context.Context) {
	c.mu.Lock()
	batch := c.pending
	c.pending = tally{}
	c.mu.Unlock()
	rows := make([]count, 0, len(batch))
	for _, n := range batch {
		rows = append(rows, n)
	}
	for some := range slices.Chunk(rows, perMessage) {
		if err := c.publish(ctx, some); err != nil {
			c.log.DebugContext(ctx, "counts were not sent to other nodes", "error", err)
			c.mu.Lock()
			for _, n := range some {
				c.pending.add(n)
			}
			c.mu.Unlock()
		}
	}
}

// announce reports a new rule to all nodes, including this one.
func (c *Counts) announce(ctx context.Context) {
	c.heard.Store(true)
	if err := c.publish(ctx, []count{}); err != nil {
		c.log.DebugContext(ctx, "other nodes were not notified of a changed rule; they read it later", "error", err)
	}
}

func (c *Counts) publish(ctx context.Context, rows []count) error {
	message, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	return c.bus.Publish(ctx, countsChannel, message)
}

// receive adds the counts of a node, including this one. nil: messages may be lost.
func (c *Counts) receive(message []byte) {
	c.heard.Store(true)
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if message == nil {
		c.since = now
		return
	}
	var rows []count
	if err := json.Unmarshal(message, &rows); err != nil {
		c.log.Warn("counts of another node cannot be read", "error", err)
		return
	}
	if n := len(c.slots); n == 0 || now.Sub(c.slots[n-1].from) >= slotLength {
		c.forget(now)
		c.slots = append(c.slots, slot{from: now, tally: tally{}})
	}
	for _, n := range rows {
		c.slots[len(c.slots)-1].tally.add(n)
	}
}

// forget drops slots outside the longest window.
func (c *Counts) forget(now time.Time) {
	oldest := now.Add(-time.Duration(c.window.Load()) - slotLength)
	c.slots = slices.DeleteFunc(c.slots, func(s slot) bool { return s.from.Before(oldest) })
}

// within returns the counts within the window, and whether they are complete.
func (c *Counts) within(window time.Duration) (rows []count, complete bool) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := tally{}
	for _, s := range c.slots {
		if now.Sub(s.from) < window+slotLength { // what is at the end of a slot counts for the whole window
			for _, n := range s.tally {
				sum.add(n)
			}
		}
	}
	for _, n := range sum {
		rows = append(rows, n)
	}
	return rows, !c.since.IsZero() && now.Sub(c.since) >= window
}
