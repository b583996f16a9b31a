package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/kit/leader"
	"github.com/duehook/duehook/store"
)

// Pace is how often and how fast the ledger and the store are reconciled. Zero values mean
// the defaults.
type Pace struct {
	// Every is the least time from the end of one full pass to the start of the next, while
	// nothing seems lost. Default 1 minute. After a loss, the next pass starts after Look, and
	// each further one after twice as long: rows and outcomes of before the loss may come late.
	Every time.Duration
	// Look is how often the leader compares epochs with a shared store, and how often its
	// lease is renewed. Default 2 s.
	Look time.Duration
	// SecondLook is how long a difference must last, unchanged, before it is repaired.
	// Default 1 s.
	SecondLook time.Duration
}

const (
	// takeover is how long a leader may be silent before another node takes over.
	takeover = 10 * time.Second
	// restShare is how long a pass rests after each page, as a multiple of its work, while
	// nothing seems lost.
	restShare = 9
)

func (o *Pace) setDefaults() {
	o.Every = cmp.Or(o.Every, time.Minute)
	o.Look = cmp.Or(o.Look, 2*time.Second)
	o.SecondLook = cmp.Or(o.SecondLook, time.Second)
}

// loop is a run of Reconciler.Run. Two of them at a time do no harm: every repair compares before it
// changes, and epochs never repeat.
type loop struct {
	s      *Store
	o      *Pace
	leader *leader.Leader

	leads    bool
	broken   bool          // the last step failed
	epoch    string        // the epoch that every shard should have
	lost     bool          // the store may have lost jobs that are not all restored
	full     bool          // the store had no room for all missing jobs
	gap      time.Duration // before the next pass
	next     time.Time
	pass     *pass // in progress, or nil
	finished *pass // to be reported
}

// Run reconciles the ledger and the store until ctx ends. Of the nodes, only the leader
// reconciles.
func (s *Store) Run(ctx context.Context) error {
	r := &loop{s: s, o: &s.o.Pace, leader: leader.New(leader.Options{
		Store: s, Task: "reconcile", Node: rand.Text(), Clock: s.o.Clock, Lease: takeover,
	})}
	defer r.cancel()
	for {
		err := r.step(ctx)
		if err != nil && ctx.Err() == nil && !r.broken {
			s.o.Logger.Warn("cannot reconcile the ledger and the store", "error", err)
		}
		r.broken = err != nil && ctx.Err() == nil
		if !r.rest(ctx) {
			return nil
		}
	}
}

// rest waits for the next step; false: ctx has ended.
func (r *loop) rest(ctx context.Context) bool {
	var done <-chan struct{}
	if r.pass != nil {
		done = r.pass.done
	}
	look := r.s.o.Clock.NewTimer(r.o.Look)
	defer look.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.s.asked:
	case <-done:
	case <-look.C():
	}
	return true
}

// step makes one step of the loop.
func (r *loop) step(ctx context.Context) error {
	if err := r.s.enter(); err != nil {
		return err
	}
	defer r.s.leave()
	shared, err := r.lead(ctx)
	if err != nil || !r.leads {
		return err
	}
	r.reap()
	// An epoch that is not stored in the ledger must not count as the store's.
	if err := r.look(ctx); err != nil {
		return err
	}
	r.begin(ctx, shared)
	if err := r.s.change(ctx, r.report); err != nil {
		return err
	}
	r.finished = nil
	return nil
}

// lead decides whether this node leads, and if so reads the shared state.
func (r *loop) lead(ctx context.Context) (*shared, error) {
	led := r.leads
	leads, err := r.leader.Lead(ctx)
	if err != nil {
		return nil, err
	}
	r.leads = leads
	if !r.leads {
		r.cancel() // another node has taken over
		return nil, nil
	}
	now, err := r.s.shares(ctx)
	if err != nil {
		r.leads = led
		return nil, err
	}
	if !led {
		r.epoch, r.lost, r.full, r.next = now.Epoch, false, now.Reconcile.NoRoom > 0, time.Time{}
	}
	return now, nil
}

// look compares epochs. Each step stores a new epoch in every shard; a shard that does
// not return the previous one may have lost data. After a call without an answer, some
// shards may have the new epoch already. The next step then finds a difference. Until
// all jobs are compared, the shards are not whole.
func (r *loop) look(ctx context.Context) error {
	epoch := rand.Text()
	whole := r.epoch
	if r.lost {
		whole = ""
	}
	before, err := r.s.inner.SwapEpoch(ctx, epoch, whole)
	if err != nil {
		return fmt.Errorf("look at the store: %w", err)
	}
	expected := r.epoch
	r.epoch = epoch
	if expected != "" && !slices.ContainsFunc(before, func(had string) bool { return had != expected }) {
		return nil
	}
	if expected != "" {
		r.s.o.Logger.Warn("the store was restarted, lost data or went back in time; reconciling all jobs with the ledger")
	}
	r.lost = true
	r.cancel() // earlier results do not count
	return nil
}

// begin starts the pass that is due.
func (r *loop) begin(ctx context.Context, now *shared) {
	if r.finished != nil && r.finished.o.requested {
		return // a requested run is reported first
	}
	if q := &now.Requested; !q.State.Ended() && (r.pass == nil || !r.pass.o.requested) {
		r.cancel()
		r.pass = r.s.startPass(ctx, passOptions{RestoreOptions: q.Options, requested: true, urgent: true})
		return
	}
	if r.pass != nil {
		return
	}
	if r.lost || !r.s.o.Clock.Now().Before(r.next) {
		r.pass = r.s.startPass(ctx, passOptions{urgent: r.lost})
	}
}

// reap processes the outcome of a pass that has ended.
func (r *loop) reap() {
	if r.pass == nil {
		return
	}
	select {
	case <-r.pass.done:
	default:
		return
	}
	p := r.pass
	r.pass, r.finished = nil, p
	if p.err != nil {
		r.s.o.Logger.Warn("reconciling the ledger and the store failed; retrying", "error", p.err)
		return
	}
	p.log()
	if !p.whole() {
		return
	}
	r.s.setCompared(p.began)
	// Jobs that changed between the two looks are compared again at once, but not jobs
	// for which the store has no room.
	r.lost = p.moving.Load() > 0
	r.noticeFull(p.report().NoRoom)
	r.gap = min(2*r.gap, r.o.Every)
	if p.o.urgent {
		r.gap = r.o.Look
	}
	r.next = p.ended.Add(r.gap)
}

// noticeFull logs, once, that jobs wait for room in the store.
func (r *loop) noticeFull(jobs int64) {
	was := r.full
	r.full = jobs > 0
	switch {
	case r.full && !was:
		r.s.o.Logger.Warn("the store is full: lost jobs wait in the ledger until there is room", "jobs", jobs)
	case was && !r.full:
		r.s.o.Logger.Info("the store has room again for lost jobs")
	}
}

// cancel ends the pass in progress without an outcome.
func (r *loop) cancel() {
	if r.pass != nil {
		r.pass.cancel()
		<-r.pass.done
		r.pass = nil
	}
}

// report stores the report for all nodes. It may be called again with a later one.
func (r *loop) report(to *shared) {
	to.Lost = r.lost || r.full
	if !r.lost {
		to.Epoch = r.epoch
	}
	for _, p := range []*pass{r.finished, r.pass} {
		switch {
		case p == nil:
		case p.o.requested:
			if !to.Requested.State.Ended() {
				to.Requested = p.run(to.Requested.StartedAt)
			}
		case p == r.finished && p.err == nil:
			to.Reconcile = p.run(0)
		}
	}
}

// The document of the reconcilers' shared state.
const (
	sharedKind = "reconcile"
	sharedName = "state"
)

// shared is the reconcilers' shared state.
type shared struct {
	Epoch     string           `json:"epoch"`     // of every shard, when no job was missing
	Lost      bool             `json:"lost"`      // the store may have lost jobs that are not all restored
	Reconcile store.RestoreRun `json:"reconcile"` // the last pass that nobody requested
	Requested store.RestoreRun `json:"requested"`
}

// documents returns the collection with the one shared document.
func (s *Store) documents() *documents.Collection[shared] {
	return documents.New(documents.Options[shared]{Store: s, Kind: sharedKind, New: func(string) shared {
		return shared{Reconcile: store.RestoreRun{State: store.RestoreNone}, Requested: store.RestoreRun{State: store.RestoreNone}}
	}})
}

// shares reads the shared state.
func (s *Store) shares(ctx context.Context) (*shared, error) {
	d, err := s.documents().Get(ctx, sharedName)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return &d.Value, err
}

// change modifies the shared state.
func (s *Store) change(ctx context.Context, change func(*shared)) error {
	_, err := s.documents().Update(ctx, sharedName, func(d *documents.Document[shared]) error {
		change(&d.Value)
		return nil
	})
	return err
}
