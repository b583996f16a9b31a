package pulls

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/internal/kit/storetime"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

const (
	// maxAnswer bounds the jobs of an answer in bytes, as base64.
	maxAnswer = 4<<20 - 64<<10
	// perJob is about what a job takes in an answer beside its body and headers.
	perJob = 2 << 10
	// claimsAtOnce bounds the calls that look for jobs at the same time.
	claimsAtOnce = 64
)

// Store is what consumers need of a store.
type Store interface {
	store.Figuring
	Get(ctx context.Context, key job.Key) (job.Job, error)
	Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error)
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
	successors.Store
}

// Options are the terms of a Manager. Store and ID are required.
type Options struct {
	Store Store
	ID    string // of the node
	Idle  bool   // lease nothing
	// Ready is why nothing may be leased yet, for example because the store has no limits of topics: a paused topic would not be
	// paused. Nil: nothing is in the way.
	Ready  func() error
	Policy retrypolicy.Policy
	// TopicLimits are those of store.FlightLimits.
	TopicLimits map[string]int
	Clock       job.Clock
	Time        *storetime.Clock // nil: the clock's
	Logger      *slog.Logger
	Metrics     prometheus.Registerer
	Random      func() float64
}

// Manager serves the consumers of a node, for the pull queues of all topics.
type Manager struct {
	o       Options
	waiters *waiters
	leased  *leased
	looking chan struct{} // a place for each call that looks for jobs
	looks   gatherer
	takes   sync.WaitGroup // their callers may have left
	answers *batch.Batcher[*answer]
	metrics *metrics
}

// New returns a Manager. Run keeps its waiting consumers informed.
func New(o Options) (*Manager, error) {
	if o.Store == nil || o.ID == "" {
		return nil, errors.New("pulls: a store and an id are required")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Random == nil {
		o.Random = mathrand.Float64
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Time == nil {
		o.Time = storetime.New(o.Store, o.Clock)
	}
	m := &Manager{o: o, waiters: newWaiters(o.Clock, o.Time), leased: newLeased(), looking: make(chan struct{}, claimsAtOnce)}
	m.looks = gatherer{of: map[string]*gathering{}, serve: m.serve}
	o.Time.OnStep(m.waiters.stepped)
	m.answers = newAnswers(o.Store)
	var err error
	m.metrics, err = newMetrics(o.Metrics, m.waiters.count)
	return m, err
}

// Request is a call for jobs.
type Request struct {
	Topics []string
	Max    int
	Wait   time.Duration // for the first job
	Lease  time.Duration
}

// Leased is a job that a consumer has until its lease ends.
type Leased struct {
	Job     job.Job
	Receipt string
	Attempt int
	Until   job.Instant
}

// Pull leases due jobs, and waits for the first if there are none. Without an error, none are
// leased if none became due in time.
func (m *Manager) Pull(ctx context.Context, r Request) ([]Leased, error) {
	switch {
	case m.o.Idle:
		_ = job.Sleep(ctx, job.SystemClock(), r.Wait) // or until the consumer has gone
		return nil, nil
	case r.Wait <= 0:
		return m.look(ctx, r)
	}
	w := &waiter{topics: r.Topics, woken: make(chan struct{}, 1)}
	look, err := m.waiters.enter(w)
	if err != nil {
		return nil, err
	}
	defer m.waiters.leave(w)
	timer := job.SystemClock().NewTimer(r.Wait) // the caller waits by its own time, also if a test turns the clock
	defer timer.Stop()
	for {
		if look {
			got, err := m.look(ctx, r)
			if err != nil || len(got) > 0 {
				return got, err
			}
		}
		select {
		case <-w.woken:
			look = true
		case <-timer.C():
			return nil, nil
		case <-ctx.Done(): // the consumer has gone, or the server stops
			return nil, nil
		}
	}
}

// look leases what is due.
func (m *Manager) look(ctx context.Context, r Request) ([]Leased, error) {
	if err := m.o.Ready(); err != nil {
		return nil, err
	}
	select {
	case m.looking <- struct{}{}:
		defer func() { <-m.looking }()
	case <-ctx.Done(): // as in Pull
		return nil, nil
	}
	m.waiters.beginLook(r.Topics)
	var got []Leased
	room, wait := maxAnswer, time.Duration(-1)
	shards := m.o.Store.Shards()
	first := mathrand.IntN(shards) //nolint:gosec // no secret
	for i := range shards {
		if len(got) >= r.Max {
			wait = 0 // the others were not looked at
			break
		}
		of := &share{most: r.Max - len(got), room: room}
		if err := m.looks.get(ctx, want{(first + i) % shards, r.Topics, r.Lease}, of); err != nil {
			m.waiters.endLook(r.Topics, 0, false)
			if len(got) > 0 || ctx.Err() != nil {
				break
			}
			return nil, err
		}
		got, room = append(got, of.jobs...), of.room
		if of.wait >= 0 && (wait < 0 || of.wait < wait) {
			wait = of.wait
		}
	}
	m.waiters.endLook(r.Topics, wait, len(got) > 0)
	if ctx.Err() != nil { // as in Pull
		m.Return(ctx, got)
		return nil, nil
	}
	m.metrics.leased.Add(float64(len(got)))
	return got, nil
}

func (m *Manager) settlement(j *job.Job, o job.Outcome) job.Settlement {
	return m.o.Policy.Settle(j, o, m.o.Random)
}

// Run wakes waiting consumers when jobs become due, until ctx ends. Then it waits for jobs that are being taken, so no call
// may begin afterwards. It returns nil.
func (m *Manager) Run(ctx context.Context) error {
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		m.listen(ctx)
	}()
	for ctx.Err() == nil {
		m.waiters.changed.Wait(ctx, m.o.Clock, m.waiters.due())
	}
	<-listening
	m.takes.Wait()
	return nil
}

// listen hears of jobs that are due earlier than known.
func (m *Manager) listen(ctx context.Context) {
	health := loops.NewOutage("listening for jobs of pull queues", m.o.Clock, m.o.Logger, m.o.Random)
	for ctx.Err() == nil {
		err := m.o.Store.Listen(ctx, store.PullChannel, func(message []byte) {
			health.Worked()
			if message == nil {
				m.begin(ctx)
				return
			}
			if topic, at, err := store.ParsePullMessage(message); err == nil {
				m.waiters.noteDue(topic, at)
			}
		})
		m.waiters.setListening(false)
		if ctx.Err() == nil && err != nil {
			health.Rest(ctx, err)
		}
	}
}

// begin notes that messages arrive from now on.
func (m *Manager) begin(ctx context.Context) {
	_ = m.o.Time.Read(ctx) // or the estimate is good enough
	m.waiters.setListening(true)
}
