package events

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

const (
	eventsChannel = "events"
	// watchChannel carries messages of nodes with watchers. Nodes publish events while
	// they receive these.
	watchChannel  = "watch"
	watchEvery    = 2 * time.Second
	watchedFor    = 3 * watchEvery
	flushEvery    = 100 * time.Millisecond
	lingering     = time.Minute // for watchers that come back
	maxPending    = 1000        // events of a node within flushEvery
	routineShare  = maxPending * 4 / 5
	perMessage    = 40 // with names of full length, a message is below store.MaxMessage
	remembered    = 5000
	publishWithin = 2 * time.Second
)

// Options of New. Bus is required.
type Options struct {
	Bus    store.Messaging
	Clock  job.Clock    // nil: the machine's
	Logger *slog.Logger // nil: none
}

// Hub publishes the events of this node, and passes those of all nodes to watchers.
type Hub struct {
	o    Options
	boot string // in the IDs of this process

	out outbox
	in  inbox
}

// outbox is the events that this node has not published yet.
type outbox struct {
	mu      sync.Mutex
	watched time.Time // until then there are watchers
	pending []Event
	dropped bool
	next    uint64
	filled  loops.Signal // there are pending events
}

// New returns a Hub, which works while Run does.
func New(o Options) *Hub {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	h := &Hub{o: o, boot: strings.ToLower(rand.Text()[:10])}
	h.out.filled = loops.NewSignal()
	h.in.init()
	return h
}

// Watched reports whether there are watchers.
func (h *Hub) Watched() bool {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	return h.o.Clock.Now().Before(h.out.watched)
}

// Emit publishes events. It never waits. If there are too many, a Gap replaces some.
func (h *Hub) Emit(events ...Event) {
	if len(events) == 0 {
		return
	}
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	if !h.o.Clock.Now().Before(h.out.watched) {
		return
	}
	for _, e := range events {
		room := maxPending
		if e.Type.routine() {
			room = routineShare
		}
		if len(h.out.pending) >= room {
			h.out.dropped = true
			continue
		}
		h.out.pending = append(h.out.pending, h.out.identified(e, h.boot))
	}
	h.out.filled.Set()
}

func (o *outbox) identified(e Event, boot string) Event {
	o.next++
	e.ID = fmt.Sprintf("%s-%d", boot, o.next)
	return e
}

// take empties the outbox.
func (h *Hub) take() []Event {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	batch := h.out.pending
	if h.out.dropped {
		batch = append(batch, h.out.identified(Event{Type: Gap, At: job.InstantOf(h.o.Clock.Now())}, h.boot))
	}
	h.out.pending, h.out.dropped = nil, false
	return batch
}

// Run publishes and receives events until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		h.listen(ctx, watchChannel, func(m []byte) {
			if m != nil {
				h.heard()
			}
		})
		return nil
	})
	group.Go(func() error {
		h.tell(ctx)
		return nil
	})
	group.Go(func() error {
		h.follow(ctx)
		return nil
	})
	return group.Wait()
}

func (h *Hub) heard() {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.watched = h.o.Clock.Now().Add(watchedFor)
}

func (h *Hub) listen(ctx context.Context, channel string, receive func(m []byte)) {
	feed.Follow(ctx, h.o.Bus, channel, h.o.Clock, h.o.Logger, receive)
}

// tell publishes emitted events, a few times a second.
func (h *Hub) tell(ctx context.Context) {
	for {
		select {
		case <-h.out.filled:
		case <-ctx.Done():
			return
		}
		if job.Sleep(ctx, h.o.Clock, flushEvery) != nil {
			return
		}
		batch := h.take()
		for len(batch) > 0 {
			n := min(len(batch), perMessage)
			h.publish(ctx, eventsChannel, batch[:n])
			batch = batch[n:]
		}
	}
}

// publish does not retry: watchers get a Gap after an outage.
func (h *Hub) publish(ctx context.Context, channel string, batch []Event) {
	message, err := json.Marshal(batch)
	if err != nil {
		h.o.Logger.WarnContext(ctx, "events cannot be encoded", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	if err := h.o.Bus.Publish(ctx, channel, message); err != nil {
		h.o.Logger.DebugContext(ctx, "events were not sent to other nodes", "error", err)
	}
}
