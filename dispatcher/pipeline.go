package dispatcher

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

const (
	// maxBatch is how many jobs are taken at a time at most.
	maxBatch = 500
	// takeWait is how long the store waits for the first job: the interval of calls of an
	// idle dispatcher.
	takeWait = 5 * time.Second
)

// claim is a claimed job on its way through a worker.
type claim struct {
	store.Claimed
	endpoint string
	asked    time.Time // the lease began no earlier
	got      time.Time // after the call: the node's time at Claimed.Now
	traceID  string    // of the attempt, if a span of it is recorded
}

func newClaim(c store.Claimed, asked, got time.Time) *claim {
	return &claim{Claimed: c, endpoint: c.Job.Lane().Endpoint, asked: asked, got: got}
}

// instant converts a time of this node to the store's clock.
func (c *claim) instant(t time.Time) job.Instant { return c.Now.Add(t.Sub(c.got)) }

// phases are the contexts of the stages of a shutdown.
type phases struct {
	take   context.Context // ends first: take no more work
	work   context.Context // ends next: break off requests
	settle context.Context // ends last: give up settling
}

// pipeline has one shard's jobs from when it takes them to their settlement.
type pipeline struct {
	d       *Dispatcher
	opts    *Options
	shard   int
	workers int
	slots   *slots
	shares  *shares
	sending atomic.Int64 // jobs that workers have
	jobs    chan *claim
	ahead   loops.Signal // jobs wait for a worker
	settler *settler
	takes   *loops.Outage
}

func newPipeline(d *Dispatcher, shard, workers int) *pipeline {
	slots := newSlots(workers, d.opts.Clock)
	jobs := make(chan *claim, workers)
	return &pipeline{
		d:       d,
		opts:    &d.opts,
		shard:   shard,
		workers: workers,
		slots:   slots,
		shares:  newShares(workers, d.opts.Weight, jobs),
		jobs:    jobs,
		ahead:   loops.NewSignal(),
		takes:   loops.NewOutage("taking jobs", d.opts.Clock, d.opts.Logger, d.opts.Random),
	}
}

// run works until ph.take ends and all claimed jobs are settled or given up.
func (p *pipeline) run(ph phases) {
	var workers, relief sync.WaitGroup
	p.settler = newSettler(ph.settle, p.d, p.workers, p.busy)
	for range p.workers {
		workers.Go(func() { p.serve(ph) })
	}
	relief.Go(func() { p.relieve(ph.take) })
	p.feed(ph)
	relief.Wait()
	p.giveBack(0, job.ReasonShutdown)
	close(p.jobs)
	workers.Wait()
	p.settler.batches.Close()
}

// feed is the loop that takes jobs.
func (p *pipeline) feed(ph phases) {
	for {
		n := p.slots.take(ph.take, maxBatch)
		if n == 0 {
			break
		}
		jobs, more := p.fetch(ph, n)
		p.slots.fetched(n, jobs, more)
		if p.shares.waiting() {
			p.ahead.Set()
		}
	}
	// The store hands what it keeps for this node to others.
	if _, err := p.opts.Store.Take(ph.take, p.shard, p.terms(0)); err != nil && ph.take.Err() == nil {
		p.takes.Note(ph.take, err)
	}
}

// terms are the terms of a call that takes up to n jobs.
func (p *pipeline) terms(n int) store.TakeOptions {
	return store.TakeOptions{
		Max: n, Wait: takeWait, Lease: p.opts.Lease, LeaseMargin: p.opts.LeaseMargin, By: p.opts.ID, Limits: p.opts.Limits,
		Workers: &store.Workers{Free: n + p.slots.left(), Has: p.shares.claimed(), Weight: p.opts.Weight},
	}
}

// fetch takes up to n jobs for workers. It returns their number, and whether there may be more now.
func (p *pipeline) fetch(ph phases, n int) (jobs int, more bool) {
	taken, err := p.opts.Store.Take(ph.take, p.shard, p.terms(n))
	if err != nil {
		p.takes.Rest(ph.take, err)
		return 0, false
	}
	p.takes.Worked()
	p.shares.add(p.newClaims(&taken))
	return len(taken.Claims), taken.Wait == 0
}

// newClaims allocates each claim separately: in one slice, a slow job would keep the
// bodies of its whole batch in memory.
func (p *pipeline) newClaims(taken *store.Taken) []*claim {
	got := p.opts.Clock.Now()
	claims := make([]*claim, len(taken.Claims))
	for i, c := range taken.Claims {
		claims[i] = newClaim(c, got.Add(-taken.Age), got)
	}
	return claims
}

// serve is one worker.
func (p *pipeline) serve(ph phases) {
	for c := range p.jobs {
		p.sending.Add(1)
		p.handle(ph, c)
		p.sending.Add(-1)
		p.shares.ended(c.Job.Topic)
		p.slots.end()
	}
}

// busy reports whether workers have so many jobs that some results will arrive soon.
func (p *pipeline) busy() bool { return p.slots.enough > 1 && int(p.sending.Load()) >= p.slots.enough }

// handle delivers one job and settles it. A panic ends here: the job's lease expires. A job
// that panics each time becomes a suspect, and a dead letter in the end.
func (p *pipeline) handle(ph phases, c *claim) {
	defer func() {
		if v := recover(); v != nil {
			p.opts.Logger.Error("panic while delivering a job",
				"topic", c.Job.Topic, "id", c.Job.ID, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	p.conclude(c, p.deliver(ph, c))
}

// conclude passes the outcome of a claim to the settler.
func (p *pipeline) conclude(c *claim, o job.Outcome) {
	p.d.metrics.topics.Ended(c.Job.Topic, outcomeNames[o.Kind], c.instant(p.opts.Clock.Now()))
	policy := p.opts.Policy
	if p.opts.contractOf(&c.Job).Exact {
		policy.Jitter = 0
	}
	settlement := policy.Settle(&c.Job, o, p.opts.Random)
	p.settler.batches.Add(&settlement)
}

// deliver makes the attempt of a claimed job, unless something speaks against it.
func (p *pipeline) deliver(ph phases, c *claim) job.Outcome {
	now := p.opts.Clock.Now()
	if o := c.Job.Before(c.From, c.Earlier, c.instant(now)); o != nil {
		return *o
	}
	if c.Job.Spec.Destination.Pulled() { // a consumer died before it had the lease
		return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonLeaseExpired}
	}
	if ph.take.Err() != nil {
		return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonShutdown}
	}
	if p.tooLate(c, now) {
		return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonLeaseExpired}
	}
	if c.Job.Suspect() {
		return p.sendAlone(ph, c)
	}
	return p.send(ph, c)
}

// send makes the attempt if the endpoint's circuit allows it.
func (p *pipeline) send(ph phases, c *claim) job.Outcome {
	done := p.d.circuits.allow(c.endpoint)
	if done == nil {
		return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonCircuitOpen, After: refusedPause}
	}
	health := errExcluded // if sending panics
	defer func() { done(health) }()
	at := c.instant(p.opts.Clock.Now())
	late := at.Sub(c.Job.AttemptDue())
	p.d.metrics.topics.Started(c.Job.Topic, late, at)
	p.d.metrics.inFlight.Inc()
	defer p.d.metrics.inFlight.Dec()
	var o job.Outcome
	o, health = p.d.sender.send(ph.work, c)
	p.d.metrics.observeLateness(&c.Job, late, c.traceID)
	if o.Attempt != nil {
		if o.Attempt.Duration > 0 { // else no request was made
			observe(p.d.metrics.duration, o.Attempt.Duration, c.traceID)
		}
		p.d.metrics.reconnects.Add(float64(o.Attempt.ConnectRetries))
		p.d.logAttempt(ph.work, c, o)
	}
	return o
}

// leaseOf returns the lease of a claimed job.
func (p *pipeline) leaseOf(j *job.Job) time.Duration {
	o := store.TakeOptions{Lease: p.opts.Lease, LeaseMargin: p.opts.LeaseMargin}
	return o.LeaseOf(j.Spec.Timeout)
}

// tooLate reports whether a request that starts now could outlast the lease, because the
// claim took too long.
func (p *pipeline) tooLate(c *claim, now time.Time) bool {
	lastStart := p.leaseOf(&c.Job) - p.d.sender.timeoutOf(&c.Job) - settleReserve
	return now.Sub(c.asked) > lastStart
}
