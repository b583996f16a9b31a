// Package readylist takes jobs from the ready lists of a store that has them. A carrier puts hints
// on the lists. The package pops them and claims their jobs. It keeps the hints of jobs that cannot be
// claimed yet, and puts them back on the list when its caller stops.
package readylist

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// maxBatch is how many jobs are popped and claimed at a time at most.
	maxBatch = 500
	// leftBatch is how many left hints go into one claim.
	leftBatch = 64
	// asideWait is how long a pop waits at most while hints are set aside: a topic of theirs may get a
	// worker. After a pop of such hints it is the time until the next one, so that other nodes come first.
	asideWait = 5 * time.Millisecond
	// claimTries bounds the tries of a claim, except while the store is unavailable.
	claimTries = 3
	// finishWithin bounds a claim after the caller's context has ended, and putting back hints.
	finishWithin = 2 * time.Second
	// visibility is how long a job that is carried from a pull queue waits for its claim, which
	// follows at once.
	visibility = 5 * time.Second
	// pullPoll is the longest time between looks at pull queues.
	pullPoll = time.Second
)

// Lists is the part of a store with ready lists that a Taker needs. store.ReadyList documents its methods.
type Lists interface {
	Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error)
	Return(ctx context.Context, shard int, hints []store.Hint) error
	Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error)
	Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error)
}

// Taker takes the jobs of one shard.
type Taker struct {
	lists Lists
	shard int
	clock job.Clock
	log   *slog.Logger
	turn  chan struct{} // of the call that uses the fields below

	aside    aside
	calls    []*call              // to begin, or to repeat after a failure
	most     int                  // the most jobs of a claim: fewer while the store is slow
	left     []store.Hint         // hints that claims left, because their batch was full by bytes
	leftNext bool                 // the next claim takes left hints
	sifting  bool                 // the last pop brought hints that were set aside
	popAt    time.Time            // no other pop before then, if sifting
	seen     map[job.Key]struct{} // the hints of one batch
}

// call is one claim. A failed claim may have worked, so it is repeated with its nonce, which returns
// the same claims.
type call struct {
	hints []store.Hint
	nonce string
	asked time.Time // before the first try: the leases began no earlier; zero: there was none
	tries int
}

// New returns a Taker of a shard.
func New(lists Lists, shard int, clock job.Clock, log *slog.Logger) *Taker {
	return &Taker{
		lists: lists, shard: shard, clock: clock, log: log, turn: make(chan struct{}, 1), most: maxBatch,
		aside: newAside(), seen: map[job.Key]struct{}{},
	}
}

// Take is store.Taking.Take.
func (t *Taker) Take(ctx context.Context, o store.TakeOptions) (store.Taken, error) {
	work, done := t.lasting(ctx)
	defer done()
	if o.Pull != nil {
		return t.pull(ctx, work, &o)
	}
	if !t.enter(ctx) {
		return store.Taken{}, ctx.Err()
	}
	defer func() { <-t.turn }()
	taken, err := t.take(ctx, work, &o)
	if ctx.Err() != nil {
		t.giveBack(work)
	}
	return taken, err
}

// enter waits for the turn of a call. A call that comes with an ended ctx has its turn, if no other call is
// under way: it gives back what the Taker holds.
func (t *Taker) enter(ctx context.Context) bool {
	select {
	case t.turn <- struct{}{}:
		return true
	default:
	}
	select {
	case t.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// lasting is a context that ends some time after ctx, or with the function returned.
func (t *Taker) lasting(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = job.Sleep(work, t.clock, finishWithin) // or the call has ended
		cancel()
	})
	return work, func() {
		cancel()
		if !stop() {
			<-ended
		}
	}
}

func (t *Taker) take(ctx, work context.Context, o *store.TakeOptions) (store.Taken, error) {
	if ctx.Err() != nil {
		return store.Taken{}, ctx.Err()
	}
	if len(t.calls) == 0 {
		if err := t.choose(ctx, o); err != nil {
			return store.Taken{}, err
		}
	}
	taken, err := t.claim(work, o)
	if taken.Wait = -1; len(taken.Claims) >= o.Max || t.aside.any() || len(t.left)+len(t.calls) > 0 {
		taken.Wait = 0
	}
	return taken, err
}

// choose chooses the jobs of the next claim. Left hints alternate with the ready list, so that large
// jobs do not delay the others.
func (t *Taker) choose(ctx context.Context, o *store.TakeOptions) error {
	n, w := min(o.Max, t.most), sharingOf(o.Workers)
	if len(t.left) > 0 && (t.leftNext || len(t.left) >= maxBatch) {
		t.chooseLeft(n, w)
		return nil
	}
	hints := t.aside.again(n, w)
	if len(hints) < n {
		popped, err := t.pop(ctx, n-len(hints), len(hints) > 0, o.Wait)
		if err != nil && len(hints)+len(t.left) == 0 {
			return err
		}
		admitted := t.aside.admit(popped, w)
		if t.sifting = len(admitted) < len(popped); t.sifting {
			t.popAt = t.clock.Now().Add(asideWait)
		}
		hints = append(hints, admitted...)
	}
	t.leftNext = true
	if len(hints) == 0 {
		t.chooseLeft(n, w)
		return nil
	}
	t.add(hints)
	return nil
}

// pop takes up to n hints off the ready list. It waits for the first one
// unless there is something else to do. When sifting it takes as many as it can, because those
// of other topics may be behind many that may not run.
func (t *Taker) pop(ctx context.Context, n int, busy bool, wait time.Duration) ([]store.Hint, error) {
	if t.aside.any() {
		wait = min(wait, asideWait)
		if t.sifting {
			n = maxBatch
		}
		if rest := t.popAt.Sub(t.clock.Now()); rest > 0 && (busy || job.Sleep(ctx, t.clock, min(rest, asideWait)) != nil) {
			return nil, ctx.Err()
		}
	}
	if busy || len(t.left) > 0 {
		wait = 0
	}
	hints, err := t.lists.Pop(ctx, t.shard, n, wait)
	return t.unique(hints), err
}

// chooseLeft chooses jobs that were left, if there are any.
func (t *Taker) chooseLeft(n int, w sharing) {
	t.leftNext = false
	n = min(n, len(t.left), leftBatch)
	hints := slices.Clone(t.left[:n])
	t.left = slices.Delete(t.left, 0, n)
	t.add(t.aside.admit(hints, w))
}

// add adds a claim.
func (t *Taker) add(hints []store.Hint) {
	if hints = t.unique(hints); len(hints) > 0 {
		t.calls = append(t.calls, &call{hints: hints, nonce: rand.Text()})
	}
}

// unique drops repeated hints, in place: the ready list may have a job twice, and a store
// would take the second hint for a repetition of the claim.
func (t *Taker) unique(hints []store.Hint) []store.Hint {
	if len(hints) < 2 {
		return hints
	}
	clear(t.seen)
	return slices.DeleteFunc(hints, func(h store.Hint) bool {
		_, again := t.seen[h.Key()]
		t.seen[h.Key()] = struct{}{}
		return again
	})
}

// claim makes the claims to be made, up to o.Max jobs. After a failure it returns the jobs claimed
// before, or else the error.
func (t *Taker) claim(ctx context.Context, o *store.TakeOptions) (taken store.Taken, err error) {
	began := t.clock.Now()
	for len(t.calls) > 0 && len(taken.Claims) < o.Max {
		c := t.calls[0]
		if room := o.Max - len(taken.Claims); len(c.hints) > room {
			t.split(c, room)
			continue
		}
		if c.asked.IsZero() {
			c.asked = t.clock.Now()
		}
		claims, err := t.lists.Claim(ctx, t.shard, c.hints, store.ClaimOptions{
			Nonce: c.nonce, Lease: o.Lease, LeaseMargin: o.LeaseMargin, By: o.By,
			Left: func(hints []store.Hint) { t.left = append(t.left, hints...) },
		})
		if err == nil {
			t.calls = slices.Delete(t.calls, 0, 1)
			if len(c.hints) >= t.most {
				t.most = min(2*t.most, maxBatch)
			}
			if c.asked.Before(began) {
				began = c.asked
			}
			taken.Claims = append(taken.Claims, claims...)
			continue
		}
		if t.failed(c, err) {
			continue
		}
		if len(taken.Claims) == 0 {
			return taken, err
		}
		break
	}
	taken.Age = t.clock.Now().Sub(began)
	return taken, nil
}

// failed decides how to go on after a failed claim, and returns true if at once. After a timeout it
// halves the claim. It repeats a claim while the store is unavailable without a limit; otherwise a few times and then
// job by job, so that one bad job does not block the others. A job that is given up
// becomes due again when its visibility deadline or lease passes.
func (t *Taker) failed(c *call, err error) bool {
	c.tries++
	switch {
	case timedOut(err) && len(c.hints) > 1:
		t.most = (len(c.hints) + 1) / 2
		t.split(c, t.most)
		return true
	case c.tries < claimTries || errors.Is(err, store.ErrUnavailable):
		return false
	case len(c.hints) > 1:
		t.split(c, 1)
	default:
		t.log.Error("a job cannot be claimed", "topic", c.hints[0].Lane.Topic, "id", c.hints[0].ID, "error", err)
		t.calls = slices.Delete(t.calls, 0, 1)
	}
	return true
}

// timedOut reports whether the store was too slow: a smaller batch may work.
func timedOut(err error) bool {
	var slow interface{ Timeout() bool }
	return errors.As(err, &slow) && slow.Timeout()
}

// split replaces the first call by calls of a size.
func (t *Taker) split(c *call, size int) {
	var parts []*call
	for part := range slices.Chunk(c.hints, size) {
		parts = append(parts, &call{hints: part, nonce: c.nonce, asked: c.asked})
	}
	t.calls = append(parts, t.calls[1:]...)
}

// giveBack puts the hints that were not used back on the ready list, so that another node gets them
// at once. The lists have what has become of those whose claim failed: a hint is harmless.
func (t *Taker) giveBack(ctx context.Context) {
	hints := append(t.aside.empty(), t.left...)
	for _, c := range t.calls {
		hints = append(hints, c.hints...)
	}
	t.left, t.calls = nil, nil
	for batch := range slices.Chunk(t.unique(hints), maxBatch) {
		if err := t.lists.Return(ctx, t.shard, batch); err != nil {
			t.log.Warn("hints cannot be put back on the ready list; their jobs are due again after their visibility deadlines", "shard", t.shard, "error", err)
			return
		}
	}
}

// pull carries jobs from pull queues and claims them.
func (t *Taker) pull(ctx, work context.Context, o *store.TakeOptions) (store.Taken, error) {
	for until := t.clock.Now().Add(o.Wait); ; {
		if ctx.Err() != nil {
			return store.Taken{}, ctx.Err()
		}
		asked := t.clock.Now()
		r, err := t.lists.Carry(work, t.shard, store.CarryOptions{Cap: o.Max, Visibility: visibility, FlightLimits: o.Limits, Pull: o.Pull})
		if err != nil {
			return store.Taken{}, fmt.Errorf("carry from pull queues: %w", err)
		}
		if len(r.Carried) > 0 {
			hints := make([]store.Hint, len(r.Carried))
			for i := range r.Carried {
				hints[i] = r.Carried[i].Hint
			}
			claims, err := t.lists.Claim(work, t.shard, hints, store.ClaimOptions{Nonce: rand.Text(), Lease: o.Lease, LeaseMargin: o.LeaseMargin, By: o.By})
			if len(claims) > 0 {
				err = nil // the others are due again soon
			}
			return store.Taken{Claims: claims, Wait: r.Wait, Age: t.clock.Now().Sub(asked)}, err
		}
		rest := until.Sub(t.clock.Now())
		if rest <= 0 {
			return store.Taken{Wait: r.Wait}, nil
		}
		pause := min(rest, pullPoll)
		if r.Wait >= 0 {
			pause = min(pause, max(r.Wait, time.Millisecond))
		}
		_ = job.Sleep(ctx, t.clock, pause) // or ctx has ended
	}
}
