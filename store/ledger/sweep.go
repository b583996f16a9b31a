package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// SweepOptions are the pace of comparing the journal and the store. Zero values
// mean the defaults.
type SweepOptions struct {
	// Every is the least time from the end of one comparison of all jobs to the
	// beginning of the next, while nothing seems lost. Default 1 minute.
	Every time.Duration
	// Look is how often a look is taken whether a shared store has lost something,
	// and the turn of the node that does so is renewed. Default 2 s.
	Look time.Duration
	// Takeover is how long another node waits for that before it takes the turn
	// over. Default 10 s.
	Takeover time.Duration
	// SecondLook is how long a difference must last, unchanged, before anything
	// is done about it. Default 1 s.
	SecondLook time.Duration
	// Share is the most of its time that a comparison works, from 0 to 1; the
	// rest it pauses, while nothing seems lost. Default 0.1.
	Share float64
}

func (o *SweepOptions) setDefaults() {
	o.Every = cmp.Or(o.Every, time.Minute)
	o.Look = cmp.Or(o.Look, 2*time.Second)
	o.Takeover = cmp.Or(o.Takeover, 10*time.Second)
	o.SecondLook = cmp.Or(o.SecondLook, time.Second)
	o.Share = cmp.Or(o.Share, 0.1)
}

// sweeper compares the journal and the store again and again, on one of the
// nodes that share them. All that it does compares before it changes, so two
// sweepers at a time do no harm.
type sweeper struct {
	s *Reconciler
	o *SweepOptions

	name     string // of this one, as the holder of the turn
	seen     uint64 // the last beat of another holder
	seenAt   time.Time
	broken   bool   // the last turn failed
	mark     string // what the store's shards should have
	lost     bool   // the store may have lost something, and that is not all back
	full     bool   // the store had no room for all that it lacks
	next     time.Time
	pass     *pass // under way, or nil
	finished *pass // to be written down
}

// Sweep compares the journal and the store until ctx ends, and makes equal what
// differs: beside a shared store all the time, else when it is asked for. Of
// the nodes that share a store one works; the others take over when it is gone.
func (s *Reconciler) Sweep(ctx context.Context) error {
	w := &sweeper{s: s, o: &s.o.Pace, name: rand.Text(), seenAt: s.o.Clock.Now()}
	defer w.stop()
	for {
		if err := w.turn(ctx); err != nil && ctx.Err() == nil {
			if !w.broken {
				s.o.Logger.Warn("the journal and the store cannot be compared", "error", err)
			}
			w.broken = true
		} else {
			w.broken = false
		}
		if !w.rest(ctx) {
			return nil
		}
	}
}

// rest waits for the next turn; false: ctx has ended.
func (w *sweeper) rest(ctx context.Context) bool {
	var done <-chan struct{}
	if w.pass != nil {
		done = w.pass.done
	}
	var look <-chan time.Time
	if w.s.shared || w.pass != nil || w.broken { // otherwise there is nothing to look for
		timer := w.s.o.Clock.NewTimer(w.o.Look)
		defer timer.Stop()
		look = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.s.asked:
	case <-done:
	case <-look:
	}
	return true
}

// turn does what is to be done now.
func (w *sweeper) turn(ctx context.Context) error {
	if err := w.s.j.Enter(); err != nil {
		return err
	}
	defer w.s.j.Leave()
	d, err := w.s.readSweep(ctx)
	if err != nil {
		return err
	}
	if mine, err := w.hold(ctx, d); err != nil || !mine {
		if err == nil {
			w.stop() // another node has taken over
		}
		return err
	}
	w.reap()
	// A mark that cannot be written down must not pass for what the store has.
	if err := w.look(ctx); err != nil {
		return err
	}
	w.begin(ctx, &d.Value)
	if err := w.s.writeSweep(ctx, d, w.report); err != nil {
		return err
	}
	w.finished = nil
	return nil
}

// hold reports whether it is this sweeper's turn, and takes it if nobody has it.
func (w *sweeper) hold(ctx context.Context, d *sweepDocument) (bool, error) {
	if d.Value.Holder == w.name {
		return true, nil
	}
	now := w.s.o.Clock.Now()
	if w.s.shared && d.Value.Holder != "" {
		if d.Value.Beat != w.seen {
			w.seen, w.seenAt = d.Value.Beat, now
		}
		if now.Sub(w.seenAt) < w.o.Takeover {
			return false, nil
		}
	}
	err := w.s.writeSweep(ctx, d, func(state *sweepState) { state.Holder = w.name })
	if errors.Is(err, errTurnLost) {
		return false, nil
	}
	w.mark, w.lost, w.full, w.next = d.Value.Mark, false, d.Value.Sweep.NoRoom > 0, time.Time{}
	return true, err
}

// look sees whether the store has lost something since the last look. A look
// that got no answer may have been made: then it is not known what it found, and
// the next one finds another mark than that of the last answer.
func (w *sweeper) look(ctx context.Context) error {
	if !w.s.shared {
		return nil
	}
	mark := rand.Text()
	before, err := w.s.inner.SwapMarks(ctx, mark)
	if err != nil {
		return fmt.Errorf("look at the store: %w", err)
	}
	expected := w.mark
	w.mark = mark
	if expected != "" && !slices.ContainsFunc(before, func(had string) bool { return had != expected }) {
		return nil
	}
	if expected != "" {
		w.s.o.Logger.Warn("the store was restarted, has lost something, or went back in time; all jobs are compared with the journal")
	}
	w.lost = true
	w.cancel() // what was compared before does not count
	return nil
}

// begin begins what is due.
func (w *sweeper) begin(ctx context.Context, state *sweepState) {
	if w.finished != nil && w.finished.o.requested {
		return // what was asked for is done, and is to be told first
	}
	if r := &state.Requested; !r.State.Ended() && (w.pass == nil || !w.pass.o.requested) {
		w.cancel()
		w.pass = w.s.startPass(ctx, passOptions{RestoreOptions: r.Options, requested: true, urgent: true})
		return
	}
	if w.pass != nil {
		return
	}
	now := w.s.o.Clock.Now()
	if w.lost || w.s.shared && !now.Before(w.next) {
		w.pass = w.s.startPass(ctx, passOptions{urgent: w.lost})
	}
}

// reap takes the outcome of a pass that has ended.
func (w *sweeper) reap() {
	if w.pass == nil {
		return
	}
	select {
	case <-w.pass.done:
	default:
		return
	}
	p := w.pass
	w.pass, w.finished = nil, p
	if p.err != nil {
		w.s.o.Logger.Warn("comparing the journal and the store failed; it is tried again", "error", p.err)
		return
	}
	p.log()
	if !p.whole() {
		return
	}
	w.s.setSwept(p.began)
	// What moved between the looks is not left to the next sweep. What there was
	// no room for is: there is none sooner for asking.
	w.lost = p.moving.Load() > 0
	w.noticeFull(p.noRoom.Load())
	w.next = p.ended.Add(w.o.Every)
}

// noticeFull tells, once, that jobs wait for room in the store.
func (w *sweeper) noticeFull(jobs int64) {
	was := w.full
	w.full = jobs > 0
	switch {
	case w.full && !was:
		w.s.o.Logger.Warn("the store is too full for all jobs that it lacks; they wait in the journal until there is room", "jobs", jobs)
	case was && !w.full:
		w.s.o.Logger.Info("the store has room again for the jobs that it lacked")
	}
}

// cancel ends the pass under way without an outcome.
func (w *sweeper) cancel() {
	if w.pass != nil {
		w.pass.cancel()
		<-w.pass.done
		w.pass = nil
	}
}

func (w *sweeper) stop() { w.cancel() }

// report writes down for all nodes what there is to tell. It may be called
// again, on a later state.
func (w *sweeper) report(state *sweepState) {
	state.Beat++
	state.Lost = w.lost || w.full
	if !w.lost {
		state.Mark = w.mark
	}
	for _, p := range []*pass{w.finished, w.pass} {
		switch {
		case p == nil:
		case p.o.requested:
			if !state.Requested.State.Ended() {
				state.Requested = p.run(state.Requested.StartedAt)
			}
		case p == w.finished && p.err == nil:
			state.Sweep = p.run(0)
		}
	}
}

// sweepState is what the nodes share about sweeping.
type sweepState struct {
	Holder    string           `json:"holder"` // the name of the sweeper whose turn it is
	Beat      uint64           `json:"beat"`   // grows while that is at work
	Mark      string           `json:"mark"`   // that every shard had when nothing was missing
	Lost      bool             `json:"lost"`   // the store may have lost something, and that is not all back
	Sweep     store.RestoreRun `json:"sweep"`
	Requested store.RestoreRun `json:"requested"`
}

// sweepDocument is the state with its version.
type sweepDocument = documents.Document[sweepState]

// sweepDocuments returns the documents that are sweep states: one.
func (s *Reconciler) sweepDocuments() *documents.Collection[sweepState] {
	return documents.New(documents.Options[sweepState]{Store: s.j, Kind: journal.NodesKind, New: func(string) sweepState {
		return sweepState{Sweep: store.RestoreRun{State: store.RestoreNone}, Requested: store.RestoreRun{State: store.RestoreNone}}
	}})
}

// readSweep reads what the nodes share.
func (s *Reconciler) readSweep(ctx context.Context) (*sweepDocument, error) {
	d, err := s.sweepDocuments().Get(ctx, journal.NodesName)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return &d, err
}

// progressReport is a report that grows.
type progressReport struct {
	checked, restored, skipped, noRoom, conflicts, repaired atomic.Int64

	metrics *metrics
	// moving are jobs that could not be put right yet, because they changed.
	moving atomic.Int64
	bad    journal.Unreadables
}

func (p *progressReport) add(r store.RestoreReport) {
	p.checked.Add(r.Checked)
	p.restored.Add(r.Restored)
	p.skipped.Add(r.Skipped)
	p.noRoom.Add(r.NoRoom)
	p.conflicts.Add(r.Conflicts)
	p.repaired.Add(r.Repaired)
	p.metrics.add(r)
}

func (p *progressReport) report() store.RestoreReport {
	r := store.RestoreReport{
		Checked: p.checked.Load(), Restored: p.restored.Load(), Skipped: p.skipped.Load(),
		NoRoom: p.noRoom.Load(), Conflicts: p.conflicts.Load(), Repaired: p.repaired.Load(),
	}
	bad := p.bad.All()
	r.Unreadable = int64(len(bad))
	for _, u := range bad[:min(len(bad), store.MaxUnreadableNamed)] {
		r.UnreadableJobs = append(r.UnreadableJobs, u.Key.String())
	}
	return r
}

// instant is a time for people.
func instant(t time.Time) job.Instant {
	if t.IsZero() {
		return 0
	}
	return job.InstantOf(t)
}
