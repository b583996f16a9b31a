package dev

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

// Dev is the clock and the sinks of one node, and moves the clock. It is made before the node,
// which attaches its parts.
type Dev struct {
	Clock *Clock
	Sinks *Sinks

	turn     chan struct{} // holds a token while the clock is moved
	parts    Parts
	changed  loops.Signal // fewer jobs may be in flight, or more requests
	attempts atomic.Int64

	mu       sync.Mutex
	requests map[*request]struct{} // to the network, in flight
	hung     map[string]bool       // endpoints that did not answer in time since Advance began
}

// Parts are the parts of the node that act on time.
type Parts struct {
	Store store.Figuring
	// InFlight counts the jobs that are claimed and not settled.
	InFlight func() int
	// Schedules registers what is due, and returns the time of the next occurrence.
	Schedules interface {
		Settle(ctx context.Context) (next job.Instant, err error)
	}
	// Deliveries has circuits and retries follow the outcomes.
	Deliveries interface {
		Settled(ctx context.Context) error
	}
	// Inboxes waits until the committed rows of inboxes are jobs.
	Inboxes interface {
		Drain(ctx context.Context) error
	}
	Signer dispatcher.Signer
}

// New returns a Dev whose clock shows the machine's time, and stands still if frozen.
func New(frozen bool) *Dev {
	now := machineTime()
	if frozen {
		now = job.InstantOf(now).Time()
	}
	clock := newClock(now, frozen)
	return &Dev{
		Clock: clock, Sinks: newSinks(clock), turn: make(chan struct{}, 1), changed: clock.slept,
		requests: map[*request]struct{}{}, hung: map[string]bool{},
	}
}

// Attach names the parts of the node, before it runs.
func (d *Dev) Attach(p Parts) {
	d.parts = p
	d.Sinks.signer = p.Signer
}

// Close ends the requests that wait for a time of the clock, so that the node can stop.
func (d *Dev) Close() { close(d.Clock.closed) }

// Watch returns s with a signal of each change after which other jobs are in flight.
func (d *Dev) Watch(s store.Store) store.Store { return &watched{s, d.changed} }

type watched struct {
	store.Store
	changed loops.Signal
}

func (w *watched) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	taken, err := w.Store.Take(ctx, shard, o)
	if len(taken.Claims) > 0 {
		w.changed.Set()
	}
	return taken, err
}

func (w *watched) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	defer w.changed.Set()
	return w.Store.Settle(ctx, settlements)
}

func (w *watched) Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error) {
	defer w.changed.Set()
	return w.Store.Update(ctx, key, change)
}

var _ dispatcher.Layer = (*Dev)(nil)

// RoundTrip passes requests for sinks to them.
func (d *Dev) RoundTrip(req *http.Request, network http.RoundTripper) (*http.Response, error) {
	if ofSink(req.URL.Scheme + "://" + req.URL.Hostname() + ":") {
		return d.Sinks.RoundTrip(req)
	}
	return network.RoundTrip(req)
}

// ofSink reports whether an endpoint is one of sinks.
func ofSink(endpoint string) bool {
	host, plain := strings.CutPrefix(endpoint, "http://")
	host, _, _ = strings.Cut(host, ":")
	return plain && (host == sinkHost || strings.HasSuffix(host, "."+sinkHost))
}

// Bound limits a request to a sink by this clock, and one to the network by the machine's, so that
// a jump of the clock ends none.
func (d *Dev) Bound(ctx context.Context, endpoint string, timeout time.Duration) (context.Context, context.CancelFunc) {
	d.attempts.Add(1)
	if ofSink(endpoint) {
		return context.WithCancel(context.WithValue(ctx, timeoutKey{}, timeout))
	}
	inner, cancel := context.WithTimeout(ctx, timeout)
	r := &request{Context: inner, endpoint: endpoint, began: machineTime(), cancel: cancel}
	d.mu.Lock()
	d.requests[r] = struct{}{}
	d.mu.Unlock()
	d.changed.Set() // drain chose how long to wait without this request
	return r, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.requests, r)
		if took := machineTime().Sub(r.began); r.cut.Load() || took > timeout*9/10 { // the connection ends before ctx
			d.hung[endpoint] = true
		}
		cancel()
	}
}

// Stamp is the machine's time: receivers compare it with theirs.
func (d *Dev) Stamp(job.Instant) job.Instant { return job.InstantOf(machineTime()) }

// request is the context of a request to the network. Cutting it off makes it time out.
type request struct {
	context.Context
	endpoint string
	began    time.Time
	cancel   context.CancelFunc
	cut      atomic.Bool
}

func (r *request) Err() error {
	err := r.Context.Err()
	if err != nil && r.cut.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// How long Advance waits for a receiver, in the machine's time: patience, or impatience if it has
// not answered in time before, in the same call.
const (
	patience   = 10 * time.Second
	impatience = 100 * time.Millisecond
)

// cutOff has requests time out that take too long, and returns how long the others may take.
func (d *Dev) cutOff() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, wait := machineTime(), patience
	for r := range d.requests {
		limit := patience
		if d.hung[r.endpoint] {
			limit = impatience
		}
		if left := limit - now.Sub(r.began); left > 0 {
			wait = min(wait, left)
			continue
		}
		r.cut.Store(true)
		r.cancel()
	}
	return wait
}

// forgive has patience with all endpoints again.
func (d *Dev) forgive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.hung)
}
