package simulation

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// clock is a bubble's: virtual, like all time in it.
var clock = job.SystemClock()

// world is one simulated world: nodes on one store, clients, receivers.
type world struct {
	*testing.T
	*plan
	backend   backend
	store     store.Store // the auditor's
	history   *history
	nodes     []*node
	receivers *receivers
	timings   []*timing
	start     time.Time
	isCalm    atomic.Bool
	group     sync.WaitGroup // everything that is not a node
}

// backend is what the nodes share, within a bubble.
type backend interface {
	// connect gives a process its store; closing it takes nothing from others.
	connect() store.Store
	close()
}

// simulate runs a world in a bubble of its own, with an audit that fails t. In
// the end it reports the history to done, whether t failed or not.
func simulate(t *testing.T, p *plan, open func(*testing.T, *plan) backend, done func(*history)) {
	t.Helper()
	var h *history
	defer func() { done(h) }()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p, open(t, p))
		h = w.history
		w.run()
	})
}

func newWorld(t *testing.T, p *plan, b backend) *world {
	w := &world{T: t, plan: p, backend: b, store: b.connect(), start: clock.Now()}
	w.history = newHistory(w.start)
	w.receivers = newReceivers(w)
	for i := range p.nodes {
		w.nodes = append(w.nodes, &node{w: w, number: i, name: fmt.Sprintf("n%d", i)})
	}
	return w
}

func (w *world) run() {
	for _, n := range w.nodes {
		n.start()
	}
	over, stop := context.WithTimeout(context.Background(), w.rough)
	defer stop()
	for i := range w.clients {
		c := &client{w: w, name: fmt.Sprintf("c%d", i), rand: source(w.seed, "client", i)}
		w.history.clients = append(w.history.clients, c)
		w.group.Go(func() { c.run(over) })
	}
	for i := range w.schedules {
		s := newTiming(w, i)
		w.timings = append(w.timings, s)
		w.group.Go(func() { s.run(over) })
	}
	if w.steps {
		w.group.Go(func() { w.stepClock(over) })
	}
	if w.operator {
		o := &operator{w: w, rand: source(w.seed, "operator", 0)}
		w.group.Go(func() { o.run(over) })
	}
	for _, e := range w.events {
		w.group.Go(func() { w.happen(over, e) })
	}
	<-over.Done()
	w.isCalm.Store(true)
	w.note("calm")
	w.group.Wait()
	for _, n := range w.nodes {
		n.start()
	}
	w.sleep(w.calm)
	w.audit()
	for _, n := range w.nodes {
		n.process().stop()
	}
	if err := w.store.Close(); err != nil {
		w.Errorf("Close: %v", err)
	}
	w.backend.close()
}

// happen starts an event, and ends it when its time or the faults' is over.
func (w *world) happen(over context.Context, e event) {
	if job.Sleep(over, clock, e.after) != nil {
		return
	}
	w.note("event %s %d for %v", e.what, e.whom, e.lasts)
	switch e.what {
	case eventOutage, eventSilent, eventFails:
		w.receivers.set(endpoints[e.whom], e.what)
		_ = job.Sleep(over, clock, e.lasts)
		w.receivers.set(endpoints[e.whom], "")
		return
	}
	n := w.nodes[e.whom]
	switch e.what {
	case eventCrash:
		n.process().crash()
	case eventStop:
		n.process().stop()
	default:
		heal := n.trouble(e.what)
		_ = job.Sleep(over, clock, e.lasts)
		heal()
		return
	}
	_ = job.Sleep(over, clock, e.lasts)
	n.start()
}

func (w *world) sleep(d time.Duration) { _ = job.Sleep(context.Background(), clock, d) }

func (w *world) now() time.Duration { return clock.Now().Sub(w.start) }

// note adds a line to the trace.
func (w *world) note(format string, args ...any) { w.history.note(format, args...) }
