package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// inbox is the latest events, for the watchers of this node.
type inbox struct {
	mu       sync.Mutex
	watchers map[*Watcher]struct{}
	changed  chan struct{} // closed when anything below changes, and made anew
	ready    bool          // events are being received
	events   []Event       // the latest
	first    uint64        // the position of events[0]
	gaps     uint64
}

func (in *inbox) init() {
	in.watchers, in.changed = map[*Watcher]struct{}{}, make(chan struct{})
}

// wake wakes all goroutines that wait for a change. The caller has the lock.
func (in *inbox) wake() {
	close(in.changed)
	in.changed = make(chan struct{})
}

// state returns the state of the inbox.
func (in *inbox) state() (watchers int, ready bool, changed <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.watchers), in.ready, in.changed
}

// Watcher receives events. It is for one goroutine, and must be closed.
type Watcher struct {
	hub  *Hub
	next uint64 // position
	gap  bool   // the next event is a Gap
}

// Watch returns a watcher of events from now on, or since the event with the ID after. It
// returns when this node receives events. The error wraps store.ErrUnavailable.
func (h *Hub) Watch(ctx context.Context, after string) (*Watcher, error) {
	w := &Watcher{hub: h}
	in := &h.in
	in.mu.Lock()
	in.watchers[w] = struct{}{}
	in.wake()
	in.mu.Unlock()
	for {
		_, ready, changed := in.state()
		if ready {
			w.position(after)
			return w, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			w.Close()
			return nil, fmt.Errorf("%w: events of other nodes cannot be received: %w", store.ErrUnavailable, ctx.Err())
		}
	}
}

// position sets the watcher after the event with the ID, or at the end.
func (w *Watcher) position(after string) {
	in := &w.hub.in
	in.mu.Lock()
	defer in.mu.Unlock()
	w.next = in.first + uint64(len(in.events))
	if after == "" {
		return
	}
	for i := range in.events {
		if in.events[i].ID == after {
			w.next = in.first + uint64(i) + 1
			return
		}
	}
	w.gap = true
}

// atOnce is how many events a watcher gets at once: many that read slowly must not hold all of them each.
const atOnce = 500

// Next waits for events. It returns the cause of ctx if that ends.
func (w *Watcher) Next(ctx context.Context) ([]Event, error) {
	for {
		events, changed := w.unread()
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (w *Watcher) unread() ([]Event, <-chan struct{}) {
	in := &w.hub.in
	in.mu.Lock()
	defer in.mu.Unlock()
	var events []Event
	if w.gap || w.next < in.first { // the latter: it was too slow
		w.gap, w.next = false, max(w.next, in.first)
		events = append(events, Event{Type: Gap, At: job.InstantOf(w.hub.o.Clock.Now())})
	}
	unread := in.events[w.next-in.first:]
	unread = unread[:min(len(unread), atOnce)]
	w.next += uint64(len(unread))
	return append(events, unread...), in.changed
}

// Close ends the watcher.
func (w *Watcher) Close() {
	in := &w.hub.in
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.watchers, w)
	in.wake()
}

// follow receives the events of all nodes while there are watchers, and a little longer.
func (h *Hub) follow(ctx context.Context) {
	for h.awaitWatchers(ctx) {
		group, following := errgroup.WithContext(ctx)
		group.Go(func() error {
			h.listen(following, eventsChannel, h.receive)
			return nil
		})
		group.Go(func() error { return h.askFor(following) })
		_ = group.Wait() // nobody watches any more, or ctx has ended
		h.in.forget()
	}
}

// awaitWatchers waits for watchers. It returns false if ctx has ended.
func (h *Hub) awaitWatchers(ctx context.Context) bool {
	for ctx.Err() == nil {
		watchers, _, changed := h.in.state()
		if watchers > 0 {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

var errUnwatched = errors.New("no client watches")

// askFor announces watchers to all nodes, until there have been none for a while.
func (h *Hub) askFor(ctx context.Context) error {
	last := h.o.Clock.Now()
	for {
		watchers, _, _ := h.in.state()
		now := h.o.Clock.Now()
		if watchers > 0 {
			last = now
		} else if now.Sub(last) > lingering {
			return errUnwatched
		}
		h.heard() // at once for this node
		h.publish(ctx, watchChannel, []Event{})
		if err := job.Sleep(ctx, h.o.Clock, watchEvery); err != nil {
			return err
		}
	}
}

// receive handles a message. nil: messages may be lost.
func (h *Hub) receive(message []byte) {
	in := &h.in
	in.mu.Lock()
	defer in.mu.Unlock()
	defer in.wake()
	if message == nil {
		if in.ready {
			in.add(Event{Type: Gap, At: job.InstantOf(h.o.Clock.Now()), ID: fmt.Sprintf("%s-gap-%d", h.boot, in.gaps)})
			in.gaps++
		}
		in.ready = true
		return
	}
	var batch []Event
	if err := json.Unmarshal(message, &batch); err != nil {
		h.o.Logger.Debug("a message of another node cannot be read; its version may differ", "error", err)
		return
	}
	in.add(batch...)
}

func (in *inbox) add(events ...Event) {
	in.events = append(in.events, events...)
	if len(in.events) > 2*remembered { // seldom, as it copies
		n := len(in.events) - remembered
		in.events = slices.Clone(in.events[n:])
		in.first += uint64(n)
	}
}

// forget empties the inbox when this node stops receiving. Watchers that came meanwhile
// get a Gap.
func (in *inbox) forget() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.first += uint64(len(in.events))
	in.events, in.ready = nil, false
	for w := range in.watchers {
		w.gap = true
	}
	in.wake()
}
