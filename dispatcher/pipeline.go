package dispatcher

import (
	"context"
	"crypto/rand"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/internal/kit/signal"
	"github.com/duehook/duehook/store"
)

const (
	// maxBatch is how many jobs are popped and claimed at a time at most.
	maxBatch = 500
	// leftBatch is how many left hints go into one claim.
	leftBatch = 64
	// popWait is how long a pop waits for the first hint: the interval of calls of an
	// idle dispatcher.
	popWait = 5 * time.Second
	// asideWait is the same while hints are set aside: a topic of theirs may get a worker. After a
	// pop of such hints it is the time until the next one, so that other nodes come first.
	asideWait = 5 * time.Millisecond
	// claimTries bounds the tries of a claim, except while the store is unavailable.
	claimTries = 3
)

// claim is a claimed job on its way through a worker.
type claim struct {
	store.Claimed
	endpoint string
	asked    time.Time // before the call: the lease began no earlier
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

// pipeline takes one shard's jobs from the ready list to their settlement.
type pipeline struct {
	d       *Dispatcher
	opts    *Options
	shard   int
	workers int
	slots   *slots
	shares  *shares
	sending atomic.Int64 // jobs that workers have
	jobs    chan *claim
	ahead   signal.Signal // jobs wait for a worker
	settler *settler
	pops    *outage.Outage
	claims  *outage.Outage
	seen    map[job.Key]struct{} // the hints of one batch

	most     int          // the most jobs of a claim: fewer while the store is slow
	left     []store.Hint // hints that claims left, because their batch was full by bytes
	leftNext bool         // the next claim takes left hints
	sifting  bool         // the last pop brought hints that were set aside
	popAt    time.Time    // no other pop before then, if sifting
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
		ahead:   signal.New(),
		pops:    outage.New("taking from the ready list", d.opts.Clock, d.opts.Logger, d.opts.Random),
		claims:  outage.New("claiming jobs", d.opts.Clock, d.opts.Logger, d.opts.Random),
		seen:    map[job.Key]struct{}{},
		most:    maxBatch,
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
	p.giveBackHints(ph)
	close(p.jobs)
	workers.Wait()
	p.settler.batches.Close()
}

// feed is the pop loop.
func (p *pipeline) feed(ph phases) {
	for {
		n := p.slots.take(ph.take, p.most)
		if n == 0 {
			return
		}
		jobs := p.fetch(ph, n)
		p.slots.fetched(n, jobs, p.shares.waits())
		if p.shares.waiting() {
			p.ahead.Set()
		}
	}
}

// fetch claims up to n jobs for workers, and returns their number. Left hints alternate with the
// ready list, so that large jobs do not delay the others.
func (p *pipeline) fetch(ph phases, n int) int {
	free := n + p.slots.left()
	p.shares.weigh()
	if len(p.left) > 0 && (p.leftNext || len(p.left) >= maxBatch) {
		return p.claimLeft(ph, n, free)
	}
	hints := p.shares.again(n, free)
	if len(hints) < n {
		popped := p.pop(ph, n-len(hints), len(hints) > 0)
		admitted := p.shares.admit(popped, free-len(hints))
		if p.sifting = len(admitted) < len(popped); p.sifting {
			p.popAt = p.opts.Clock.Now().Add(asideWait)
		}
		hints = append(hints, admitted...)
	}
	p.leftNext = true
	if len(hints) == 0 {
		return p.claimLeft(ph, n, free)
	}
	return p.claimFor(ph, hints)
}

// pop takes up to n hints off the ready list; none after a failure. It waits for the first one
// unless there is something else to do. When sifting it takes as many as it can, because those
// of other topics may be behind many that may not run.
func (p *pipeline) pop(ph phases, n int, busy bool) []store.Hint {
	wait := popWait
	if p.shares.waits() {
		wait = asideWait
		if p.sifting {
			n = maxBatch
		}
		if rest := p.popAt.Sub(p.opts.Clock.Now()); rest > 0 && (busy || job.Sleep(ph.take, p.opts.Clock, min(rest, asideWait)) != nil) {
			return nil
		}
	}
	if busy || len(p.left) > 0 {
		wait = 0
	}
	hints, err := p.opts.Store.Pop(ph.take, p.shard, n, wait)
	if err != nil {
		p.pops.Rest(ph.take, err)
		return nil
	}
	p.pops.Worked()
	return p.unique(hints)
}

// claimLeft claims jobs that were left, if there are any.
func (p *pipeline) claimLeft(ph phases, n, free int) int {
	p.leftNext = false
	n = min(n, len(p.left), leftBatch)
	if n == 0 {
		return 0
	}
	hints := slices.Clone(p.left[:n])
	p.left = slices.Delete(p.left, 0, n)
	return p.claimFor(ph, p.shares.admit(hints, free))
}

// claimFor claims the jobs of admitted hints, and gives them to workers.
func (p *pipeline) claimFor(ph phases, hints []store.Hint) int {
	if len(hints) == 0 {
		return 0
	}
	claims := p.claim(ph, slices.Clone(hints))
	p.shares.claimed(hints, claims)
	return len(claims)
}

// claim claims the hinted jobs.
func (p *pipeline) claim(ph phases, hints []store.Hint) []*claim {
	o := store.ClaimOptions{
		Nonce: rand.Text(), Lease: p.opts.Lease, LeaseMargin: p.opts.LeaseMargin, By: p.opts.ID,
		Left: func(hints []store.Hint) { p.left = append(p.left, hints...) },
	}
	return p.claimUnder(ph, p.unique(hints), o, p.opts.Clock.Now())
}

// claimUnder claims with options o, first sent at asked. A failed claim may have worked, so
// it is repeated with its nonce, which returns the same claims: while the store is
// unavailable without a limit; after a timeout in halves; otherwise a few times and then
// job by job, so that one bad job does not block the others. A job that is given up
// becomes due again when its visibility deadline or lease passes.
func (p *pipeline) claimUnder(ph phases, hints []store.Hint, o store.ClaimOptions, asked time.Time) []*claim {
	for try := 1; ; try++ {
		claimed, err := p.opts.Store.Claim(ph.work, p.shard, hints, o)
		if err == nil {
			p.claims.Worked()
			if len(hints) >= p.most {
				p.most = min(2*p.most, maxBatch)
			}
			return p.newClaims(claimed, asked)
		}
		if timedOut(err) && len(hints) > 1 {
			p.claims.Note(ph.take, err)
			p.most = (len(hints) + 1) / 2
			return p.claimParts(ph, hints, p.most, o, asked)
		}
		if try >= claimTries && !errors.Is(err, store.ErrUnavailable) {
			return p.claimEach(ph, hints, o, asked, err)
		}
		if !p.claims.Rest(ph.take, err) {
			return nil
		}
	}
}

// timedOut reports whether the store was too slow: a smaller batch may work.
func timedOut(err error) bool {
	var slow interface{ Timeout() bool }
	return errors.As(err, &slow) && slow.Timeout()
}

// claimEach claims jobs one by one after claiming them together failed with err.
func (p *pipeline) claimEach(ph phases, hints []store.Hint, o store.ClaimOptions, asked time.Time, err error) []*claim {
	if len(hints) == 1 {
		p.opts.Logger.Error("a job cannot be claimed", "topic", hints[0].Lane.Topic, "id", hints[0].ID, "error", err)
		return nil
	}
	return p.claimParts(ph, hints, 1, o, asked)
}

// claimParts claims jobs in parts of a size.
func (p *pipeline) claimParts(ph phases, hints []store.Hint, size int, o store.ClaimOptions, asked time.Time) []*claim {
	var claims []*claim
	for part := range slices.Chunk(hints, size) {
		claims = append(claims, p.claimUnder(ph, part, o, asked)...)
	}
	return claims
}

// unique drops repeated hints, in place: the ready list may have a job twice, and a store
// would take the second hint for a repetition of the claim.
func (p *pipeline) unique(hints []store.Hint) []store.Hint {
	if len(hints) < 2 {
		return hints
	}
	clear(p.seen)
	return slices.DeleteFunc(hints, func(h store.Hint) bool {
		_, again := p.seen[h.Key()]
		p.seen[h.Key()] = struct{}{}
		return again
	})
}

// newClaims allocates each claim separately: in one slice, a slow job would keep the
// bodies of its whole batch in memory.
func (p *pipeline) newClaims(claimed []store.Claimed, asked time.Time) []*claim {
	got := p.opts.Clock.Now()
	claims := make([]*claim, len(claimed))
	for i, c := range claimed {
		claims[i] = newClaim(c, asked, got)
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
	o := store.ClaimOptions{Lease: p.opts.Lease, LeaseMargin: p.opts.LeaseMargin}
	return o.LeaseOf(j.Spec.Timeout)
}

// tooLate reports whether a request that starts now could outlast the lease, because the
// claim took too long.
func (p *pipeline) tooLate(c *claim, now time.Time) bool {
	lastStart := p.leaseOf(&c.Job) - p.d.sender.timeoutOf(&c.Job) - settleReserve
	return now.Sub(c.asked) > lastStart
}
