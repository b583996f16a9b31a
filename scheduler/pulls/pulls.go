package pulls

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

const (
	// maxAnswer bounds the jobs of an answer in bytes, as base64.
	maxAnswer = 4<<20 - 64<<10
	// perJob is about what a job takes in an answer beside its body and headers.
	perJob = 2 << 10
	// visibility is how long a carried job waits for its claim, which follows at once.
	visibility = 5 * time.Second
	// maxWaiting bounds the calls that wait at a node.
	maxWaiting = 10_000
	// claimsAtOnce bounds the calls that look for jobs at the same time.
	claimsAtOnce = 64
)

// Store is what consumers need of a store.
type Store interface {
	store.Figuring
	Get(ctx context.Context, key job.Key) (job.Job, error)
	Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error)
	Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error)
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
	successors.Store
}

// Options are the terms of a Queue. Store and ID are required.
type Options struct {
	Store  Store
	ID     string // of the node
	Policy retrypolicy.Policy
	// TopicLimits are those of store.CarryOptions.
	TopicLimits map[string]int
	Clock       job.Clock
	Logger      *slog.Logger
	Metrics     prometheus.Registerer
	Random      func() float64
}

// Queue serves the consumers of a node.
type Queue struct {
	o       Options
	lines   *lines
	leased  *leased
	looking chan struct{} // a place for each call that looks for jobs
	carries gatherer
	metrics *metrics
}

// New returns a Queue. Run keeps its waiting consumers informed.
func New(o Options) (*Queue, error) {
	if o.Store == nil || o.ID == "" {
		return nil, errors.New("pulls: a store and an id are required")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Random == nil {
		o.Random = mathrand.Float64
	}
	q := &Queue{o: o, lines: newLines(o.Clock), leased: newLeased(), looking: make(chan struct{}, claimsAtOnce)}
	q.carries = gatherer{of: map[string]*gathering{}, carry: q.carry}
	var err error
	q.metrics, err = newMetrics(o.Metrics, q.lines.count)
	return q, err
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
func (q *Queue) Pull(ctx context.Context, r Request) ([]Leased, error) {
	if r.Wait <= 0 {
		return q.look(ctx, r)
	}
	w := &waiter{topics: r.Topics, woken: make(chan struct{}, 1)}
	look, err := q.lines.enter(w)
	if err != nil {
		return nil, err
	}
	defer q.lines.leave(w)
	timer := job.SystemClock().NewTimer(r.Wait) // the caller waits by its own time, also if a test turns the clock
	defer timer.Stop()
	for {
		if look {
			got, err := q.look(ctx, r)
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
func (q *Queue) look(ctx context.Context, r Request) ([]Leased, error) {
	select {
	case q.looking <- struct{}{}:
		defer func() { <-q.looking }()
	case <-ctx.Done(): // as in Pull
		return nil, nil
	}
	q.lines.looks(r.Topics)
	var got []Leased
	wait := time.Duration(-1)
	shards := q.o.Store.Shards()
	first := mathrand.IntN(shards) //nolint:gosec // no secret
	for i := range shards {
		if len(got) >= r.Max {
			wait = 0 // the others were not looked at
			break
		}
		more, then, err := q.lookAt(ctx, (first+i)%shards, r, r.Max-len(got))
		if err != nil {
			q.lines.looked(r.Topics, 0, false)
			if len(got) > 0 || ctx.Err() != nil {
				break
			}
			return nil, err
		}
		got = append(got, more...)
		if then >= 0 && (wait < 0 || then < wait) {
			wait = then
		}
	}
	q.lines.looked(r.Topics, wait, len(got) > 0)
	return q.within(ctx, got)
}

// carry carries up to most jobs of topics, which are claimed at once.
func (q *Queue) carry(ctx context.Context, shard int, topics []string, most int) (store.CarryResult, error) {
	r, err := q.o.Store.Carry(ctx, shard, store.CarryOptions{
		Cap: most, Visibility: visibility, HalfOpenLimit: 1, TopicLimits: q.o.TopicLimits, By: q.o.ID, Pull: topics,
	})
	if err != nil {
		err = fmt.Errorf("carry from pull queues: %w", err)
	}
	return r, err
}

// lookAt leases up to most jobs of a shard, and returns when there may be more.
func (q *Queue) lookAt(ctx context.Context, shard int, r Request, most int) ([]Leased, time.Duration, error) {
	carried, err := q.carries.get(ctx, shard, r.Topics, most)
	if err != nil || len(carried.Carried) == 0 {
		return nil, carried.Wait, err
	}
	hints := make([]store.Hint, len(carried.Carried))
	for i := range carried.Carried {
		hints[i] = carried.Carried[i].Hint
	}
	claims, err := q.o.Store.Claim(context.WithoutCancel(ctx), shard, hints, store.ClaimOptions{Nonce: rand.Text(), Lease: r.Lease, By: q.o.ID})
	if err != nil {
		return nil, 0, err // they are due again soon
	}
	var got []Leased
	var ended []job.Settlement
	for i := range claims {
		c := &claims[i]
		q.lines.tells(c.Now)
		if o := c.Job.Before(c.From, c.Now); o != nil {
			ended = append(ended, q.settlement(&c.Job, *o))
			continue
		}
		id := receiptOf(c).String()
		q.leased.keep(id, &c.Job)
		got = append(got, Leased{Job: c.Job, Receipt: id, Attempt: c.Job.Attempts + 1, Until: c.Now.Add(r.Lease)})
	}
	if len(ended) > 0 { // they have expired or were cancelled
		if _, err := successors.Settle(context.WithoutCancel(ctx), q.o.Store, ended); err != nil {
			q.o.Logger.Warn("jobs that have ended could not be settled; they will be when their leases end", "jobs", len(ended), "error", err)
		}
		if len(got) == 0 {
			carried.Wait = 0 // look again
		}
	}
	return got, carried.Wait, nil
}

func (q *Queue) settlement(j *job.Job, o job.Outcome) job.Settlement {
	return q.o.Policy.Settle(j, o, q.o.Random)
}

// within gives back what an answer has no room for, or all if the caller has left.
func (q *Queue) within(ctx context.Context, got []Leased) ([]Leased, error) {
	keep, bytes := len(got), 0
	for i := range got {
		bytes += perJob + store.SizeOf(&got[i].Job)*4/3
		if bytes > maxAnswer && i > 0 {
			keep = i
			break
		}
	}
	if ctx.Err() != nil {
		keep = 0
	}
	if keep == len(got) {
		q.metrics.leased.Add(float64(keep))
		return got, nil
	}
	back := make([]job.Settlement, 0, len(got)-keep)
	for i := range got[keep:] {
		back = append(back, q.settlement(&got[keep+i].Job, job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonShutdown}))
	}
	if _, err := successors.Settle(context.WithoutCancel(ctx), q.o.Store, back); err != nil {
		return nil, fmt.Errorf("give back jobs that an answer has no room for: %w", err)
	}
	q.metrics.leased.Add(float64(keep))
	return got[:keep], nil
}

// Run tells waiting consumers of jobs that become due, until ctx ends. It returns nil.
func (q *Queue) Run(ctx context.Context) error {
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		q.listen(ctx)
	}()
	for ctx.Err() == nil {
		q.lines.changed.Wait(ctx, q.o.Clock, q.lines.due())
	}
	<-listening
	return nil
}

// listen hears of jobs that are due earlier than known.
func (q *Queue) listen(ctx context.Context) {
	health := outage.New("listening for jobs of pull queues", q.o.Clock, q.o.Logger, q.o.Random)
	for ctx.Err() == nil {
		err := q.o.Store.Listen(ctx, store.PullChannel, func(m []byte) {
			health.Worked()
			if m == nil {
				q.begin(ctx)
				return
			}
			if topic, at, err := store.ParsePullMessage(m); err == nil {
				q.lines.hear(topic, at)
			}
		})
		q.lines.listens(false)
		if ctx.Err() == nil && err != nil {
			health.Rest(ctx, err)
		}
	}
}

// begin notes that messages arrive from now on.
func (q *Queue) begin(ctx context.Context) {
	if now, err := store.Now(ctx, q.o.Store); err == nil {
		q.lines.tells(now)
	}
	q.lines.listens(true)
}
