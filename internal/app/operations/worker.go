package operations

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

const (
	// A page has the jobs of a second, within these bounds.
	leastPage, maxPage = 50, 500

	atOnce = 32 // changes of an operation in progress
	// burst: after a delay, the jobs of a quarter of a second may be changed at once.
	// So late timers and writes of the progress do not lower the rate.
	burst = 4
)

var (
	errLost       = errors.New("another node works on the operation")
	errStopped    = errors.New("a client stopped the operation")
	errDone       = errors.New("there are no more jobs")
	errPassedOver = errors.New("the job no longer matches")
)

// unknown is a number of jobs.
const unknown = -1

// worker works on one operation. Only run writes the document. Concurrent changes of
// jobs update op under mu.
type worker struct {
	m     *Manager
	doc   stored // as written last
	saved time.Time
	pace  *rate.Limiter
	// before is how many jobs were changed when this pass began; not known of a
	// pass that another worker began.
	before int64

	mu sync.Mutex
	op Operation
}

func newWorker(m *Manager, d stored) *worker {
	now, full := m.clock.Now(), max(1, d.Value.Rate/burst)
	w := &worker{m: m, op: d.Value, doc: d, saved: now, pace: rate.NewLimiter(rate.Limit(d.Value.Rate), full), before: unknown}
	w.pace.ReserveN(now, full) // begin without a burst
	return w
}

// run works until the operation ends, another node takes it over, or ctx ends.
func (w *worker) run(ctx context.Context) {
	err := w.insist(ctx, w.m.time.Read)
	for err == nil {
		err = w.page(ctx)
	}
	switch {
	case errors.Is(err, errLost):
	case errors.Is(err, errStopped):
		w.noteStop(ctx)
	case errors.Is(err, errDone):
		w.finish(ctx, Done, "")
	case errors.Is(err, store.ErrBadCursor):
		w.finish(ctx, Failed, "The position in the list is no longer valid. Start another operation: no job is changed twice.")
	case ctx.Err() != nil:
		w.leave(context.WithoutCancel(ctx))
	default:
		w.m.log.Error("operation failed: its jobs cannot be listed", "operation", w.op.ID, "error", err)
		w.finish(ctx, Failed, "The jobs cannot be listed; see the log of the node.")
	}
	w.m.log.Info("operation stopped on this node", "operation", w.op.ID, "state", string(w.op.State),
		"matched", w.op.Matched, "changed", w.op.Changed, "skipped", w.op.Skipped, "failed", w.op.Failed)
}

// now is the time by the store's clock, precise enough to show.
func (w *worker) now() job.Instant { return w.m.time.Instant() }

// insist repeats a call while the store is unavailable, until ctx ends.
func (w *worker) insist(ctx context.Context, call func(context.Context) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := call(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !store.Unreachable(err):
			w.m.outage.Worked()
			return err
		case !w.m.outage.Rest(ctx, err):
			return ctx.Err()
		}
	}
}

// page changes the jobs of a page, and then moves the cursor.
func (w *worker) page(ctx context.Context) error {
	q := w.op.listing()
	q.Limit, q.Cursor = min(max(w.op.Rate, leastPage), maxPage), w.op.Cursor
	var page store.Page
	err := w.insist(ctx, func(ctx context.Context) (err error) {
		page, err = listing.List(ctx, w.m.store, q)
		return err
	})
	if err != nil {
		return err
	}
	var changes errgroup.Group
	changes.SetLimit(atOnce)
	for i := range page.Jobs {
		if err = w.next(ctx, &page.Jobs[i], &changes); err != nil {
			break
		}
	}
	_ = changes.Wait() // no change returns an error
	if err != nil {
		return err
	}
	w.op.Cursor = page.Next
	if page.Next == "" && !w.passAgain() {
		return errDone
	}
	return w.saveIfDue(ctx)
}

// passAgain begins another pass unless this one changed nothing. Jobs that are carried,
// claimed or rescheduled during a pass may move to a place behind the cursor. Each job
// is changed once, so the passes end. Failed changes are tried again.
func (w *worker) passAgain() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.op.ofEnded() || w.op.Changed == w.before {
		return false
	}
	w.before = w.op.Changed
	w.op.Matched -= w.op.Failed
	w.op.Failed, w.op.Errors = 0, nil
	return true
}

// next changes a job as soon as the rate allows it.
func (w *worker) next(ctx context.Context, j *job.Job, changes *errgroup.Group) error {
	if err := w.saveIfDue(ctx); err != nil || !w.op.selects(j, w.now()) {
		return err
	}
	if err := w.await(ctx); err != nil {
		return err
	}
	key := j.Key
	changes.Go(func() error {
		w.count(key, w.change(ctx, key))
		return nil
	})
	return nil
}

// await waits until the rate allows the next job.
func (w *worker) await(ctx context.Context) error {
	now := w.m.clock.Now()
	at := now.Add(w.pace.ReserveN(now, 1).DelayFrom(now))
	for {
		wait := at.Sub(w.m.clock.Now())
		if wait <= 0 {
			return nil
		}
		if err := job.Sleep(ctx, w.m.clock, min(wait, saveEvery)); err != nil {
			return err
		}
		if err := w.saveIfDue(ctx); err != nil {
			return err
		}
	}
}

// change changes one job. The end of ctx interrupts no call; it only ends the wait for
// the end of an outage.
func (w *worker) change(ctx context.Context, key job.Key) error {
	for inDoubt := false; ; inDoubt = true {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		_, err := w.m.jobs.Update(limited, key, func(j *job.Job, now job.Instant) error {
			return w.op.change(j, now, w.m.limits)
		})
		cancel()
		if !store.Unreachable(err) {
			w.m.outage.Worked()
			if inDoubt && skipped(err) {
				return nil // the call before changed the job, but its answer was lost
			}
			return err
		}
		if !w.m.outage.Rest(ctx, err) {
			return err
		}
	}
}

// skipped reports that the job changed before the operation reached it.
func skipped(err error) bool {
	for _, known := range []error{errPassedOver, store.ErrNotFound, job.ErrFinished, job.ErrInFlight, job.ErrNotEnded, job.ErrStripped, job.ErrNotDead} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// count counts the result of a change.
func (w *worker) count(key job.Key, err error) {
	if store.Unreachable(err) {
		return // the next worker changes the job
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.op.Matched++
	result := resultFailed
	switch {
	case err == nil:
		w.op.Changed++
		result = resultChanged
	case skipped(err):
		w.op.Skipped++
		result = resultSkipped
	default:
		w.op.Failed++
		text, known := message(err)
		if !known {
			w.m.log.Error("operation cannot change a job", "operation", w.op.ID, "job", key.String(), "error", err)
		}
		if len(w.op.Errors) < maxErrors {
			w.op.Errors = append(w.op.Errors, JobError{Job: key.String(), Message: text})
		}
	}
	w.m.metrics.jobs.WithLabelValues(string(w.op.Action), result).Inc()
}

// message returns the text for clients. known reports that it says all about the error.
func message(err error) (text string, known bool) {
	var wrong *job.ValidationError
	switch {
	case errors.As(err, &wrong):
		return "The change is not valid: " + wrong.Error() + ".", true
	case errors.Is(err, store.ErrTopicFull):
		return "Its topic has as many unfinished jobs as its capacity allows.", true
	case errors.Is(err, store.ErrTopicDraining):
		return "Its topic is draining and accepts no jobs.", true
	case errors.Is(err, store.ErrFull):
		return "The store has no room for it.", true
	case errors.Is(err, store.ErrConflict):
		return "The job was modified concurrently.", false
	}
	return "The job cannot be changed; see the log of the node.", false
}

// saveIfDue writes the document every saveEvery. No job is changed while that fails:
// another node may have taken over.
func (w *worker) saveIfDue(ctx context.Context) error {
	if w.m.clock.Now().Sub(w.saved) < saveEvery {
		return nil
	}
	return w.save(ctx)
}

// save writes the document; errLost means that another node works on the operation.
func (w *worker) save(ctx context.Context) error {
	for {
		w.mu.Lock()
		w.op.UpdatedAt = w.now()
		w.doc.Value = w.op
		w.doc.Value.Errors = slices.Clone(w.op.Errors)
		w.mu.Unlock()
		err := w.insist(ctx, func(ctx context.Context) error { return w.m.docs.Put(ctx, &w.doc) })
		switch {
		case err == nil:
			w.saved = w.m.clock.Now()
			return nil
		case !errors.Is(err, store.ErrConflict):
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
}

// settle handles a document of an unexpected version. The version is this node's own
// if only the answer to its write was lost.
func (w *worker) settle(ctx context.Context) error {
	var d stored
	err := w.insist(ctx, func(ctx context.Context) (err error) {
		d, err = w.m.docs.Get(ctx, w.op.ID)
		return err
	})
	switch {
	case err != nil:
		return errLost
	case d.Value.State == Running && d.Value.Owner == w.m.id:
		w.doc = d
		return nil
	case d.Value.State == Stopped:
		return errStopped
	}
	return errLost
}

// noteStop adds the results since the last write to an operation that a client stopped,
// once no change is in progress.
func (w *worker) noteStop(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	d, _ := w.m.docs.Update(limited, w.op.ID, func(d *stored) error { // without it, the counts lack a few jobs
		o := &d.Value
		if d.Version == 0 || o.Owner != w.m.id {
			return documents.ErrKept
		}
		o.Matched, o.Changed, o.Skipped, o.Failed = w.op.Matched, w.op.Changed, w.op.Skipped, w.op.Failed
		o.Cursor, o.Errors, o.UpdatedAt, o.Owner = w.op.Cursor, w.op.Errors, w.now(), ""
		return nil
	})
	w.op.State = d.Value.State
	w.m.kick.Set() // a client may have resumed it
}

// finish ends the operation. If that cannot be written, the last page is repeated.
func (w *worker) finish(ctx context.Context, s State, why string) {
	w.op.State, w.op.Why, w.op.EndedAt = s, why, w.now()
	if w.giveUp(ctx) {
		w.m.metrics.ended.WithLabelValues(string(w.op.Action), string(s)).Inc()
	}
}

// leave allows another node to continue at once. If that cannot be written, the lease has
// to expire.
func (w *worker) leave(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if w.giveUp(limited) {
		w.m.announce(limited)
	}
}

// giveUp writes the operation without an owner, and reports whether that was possible.
func (w *worker) giveUp(ctx context.Context) bool {
	w.op.Owner = ""
	err := w.save(ctx)
	if errors.Is(err, errStopped) {
		w.noteStop(ctx)
	}
	return err == nil
}
