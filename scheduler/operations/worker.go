package operations

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// Jobs that are listed at a time: those of a second, within these bounds.
	leastPage, maxPage = 50, 500

	atOnce = 32 // jobs of an operation that are changed at a time
	// burst is the part of a second whose jobs may be changed at once after a
	// delay, so that the rate is reached although timers are late and writing
	// progress takes a while: a quarter.
	burst = 4
)

// Ends of a worker's work, and of a job's turn.
var (
	errLost       = errors.New("the operation is no longer this node's")
	errPassedOver = errors.New("the job is not meant any more")
)

// unknown is a number of jobs.
const unknown = -1

// worker works on one operation. Its run alone writes the document; changes of
// jobs run beside it and count under the lock.
type worker struct {
	m     *Manager
	doc   stored // as written last
	saved time.Time
	pace  *rate.Limiter
	ahead time.Duration // of the store's clock before the node's
	// before is how many jobs were changed when this pass began; not known of a
	// pass that another worker began.
	before int64

	mu sync.Mutex
	op Operation
}

func newWorker(m *Manager, d stored) *worker {
	now, full := m.clock.Now(), max(1, d.Value.Rate/burst)
	w := &worker{m: m, op: d.Value, doc: d, saved: now, pace: rate.NewLimiter(rate.Limit(d.Value.Rate), full), before: unknown}
	w.pace.ReserveN(now, full) // nothing is due to it yet
	return w
}

// run works until the operation is done or not this node's any more, or ctx ends.
func (w *worker) run(ctx context.Context) {
	err := w.readClock(ctx)
	for err == nil {
		err = w.page(ctx)
	}
	switch {
	case errors.Is(err, errLost):
	case errors.Is(err, errDone):
		w.finish(ctx, Done, "")
	case errors.Is(err, store.ErrBadCursor):
		w.finish(ctx, Failed, "The place that it had reached cannot be found again. Begin another: what is done is not done twice.")
	case ctx.Err() != nil:
		w.leave(context.WithoutCancel(ctx))
	default:
		w.m.log.Error("operation: it cannot go on", "operation", w.op.ID, "error", err)
		w.finish(ctx, Failed, "The jobs cannot be listed; the log says more.")
	}
	w.m.log.Info("operation: no longer at work", "operation", w.op.ID, "state", string(w.op.State),
		"matched", w.op.Matched, "changed", w.op.Changed, "skipped", w.op.Skipped, "failed", w.op.Failed)
}

var errDone = errors.New("there are no more jobs")

// readClock learns how far the store's clock is from this one.
func (w *worker) readClock(ctx context.Context) error {
	return w.insist(ctx, func(ctx context.Context) error {
		depth, err := w.m.store.Depth(ctx)
		w.ahead = depth.Now.Sub(job.InstantOf(w.m.clock.Now()))
		return err
	})
}

// now is the time by the store's clock, as near as matters for showing it.
func (w *worker) now() job.Instant { return job.InstantOf(w.m.clock.Now().Add(w.ahead)) }

// insist repeats a call until the store can do it, or ctx ends.
func (w *worker) insist(ctx context.Context, call func(context.Context) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := call(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil || !away(err):
			return err
		}
		if err := job.Sleep(ctx, w.m.clock, outagePause); err != nil {
			return err
		}
	}
}

// away: the store may be able to do it later.
func away(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// page works on the jobs of one page. The cursor moves on when all are done.
func (w *worker) page(ctx context.Context) error {
	q := w.op.listing()
	q.Limit, q.Cursor = min(max(w.op.Rate, leastPage), maxPage), w.op.Cursor
	var page store.Page
	err := w.insist(ctx, func(ctx context.Context) (err error) {
		page, err = w.m.store.List(ctx, q)
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
	_ = changes.Wait() // none gives an error
	if err != nil {
		return err
	}
	w.op.Cursor = page.Next
	if page.Next == "" && !w.passAgain() {
		return errDone
	}
	return w.saveIfDue(ctx)
}

// passAgain begins another pass, unless this one changed nothing: a job that is
// carried, claimed or put off while the listing is walked may move to a place
// behind the cursor. Each job is changed once, so the passes come to an end. Jobs
// that could not be changed have another turn.
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

// next changes a job when its turn has come.
func (w *worker) next(ctx context.Context, j *job.Job, changes *errgroup.Group) error {
	if err := w.saveIfDue(ctx); err != nil || !w.op.selects(j, w.now()) {
		return err
	}
	now := w.m.clock.Now()
	turn := now.Add(w.pace.ReserveN(now, 1).DelayFrom(now))
	for {
		wait := turn.Sub(w.m.clock.Now())
		if wait <= 0 {
			break
		}
		if err := job.Sleep(ctx, w.m.clock, min(wait, saveEvery)); err != nil {
			return err
		}
		if err := w.saveIfDue(ctx); err != nil {
			return err
		}
	}
	key := j.Key
	changes.Go(func() error {
		w.count(key, w.change(context.WithoutCancel(ctx), ctx.Done(), key))
		return nil
	})
	return nil
}

// change changes one job. What was begun is brought to an end, except that an
// outage of the store is not waited for any longer once stop is closed.
func (w *worker) change(ctx context.Context, stop <-chan struct{}, key job.Key) error {
	for unsure := false; ; unsure = true {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := w.m.jobs.Update(limited, key, func(j *job.Job, now job.Instant) error {
			return w.op.change(j, now, w.m.limits)
		})
		cancel()
		switch {
		case unsure && skipped(err):
			return nil // the call before did it, but its answer was lost
		case !away(err):
			return err
		}
		timer := w.m.clock.NewTimer(outagePause)
		select {
		case <-stop:
			timer.Stop()
			return err
		case <-timer.C():
		}
	}
}

// skipped: the job changed before its turn came.
func skipped(err error) bool {
	for _, known := range []error{errPassedOver, store.ErrNotFound, job.ErrFinished, job.ErrInFlight, job.ErrNotEnded, job.ErrNotDead} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// count writes down what became of a job's turn.
func (w *worker) count(key job.Key, err error) {
	if away(err) {
		return // it is left to whoever goes on
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
			w.m.log.Error("operation: a job cannot be changed", "operation", w.op.ID, "job", key.String(), "error", err)
		}
		if len(w.op.Errors) < maxErrors {
			w.op.Errors = append(w.op.Errors, JobError{Job: key.String(), Message: text})
		}
	}
	w.m.metrics.jobs.WithLabelValues(string(w.op.Action), result).Inc()
}

// message is what is shown of an error, as it goes to clients, and whether that
// says all there is.
func message(err error) (text string, known bool) {
	var wrong *job.ValidationError
	switch {
	case errors.As(err, &wrong):
		return "It cannot be set: " + wrong.Error() + ".", true
	case errors.Is(err, store.ErrTopicFull):
		return "Its topic holds as many unfinished jobs as its capacity allows.", true
	case errors.Is(err, store.ErrTopicDraining):
		return "Its topic is drained, so it takes no more jobs.", true
	case errors.Is(err, store.ErrConflict):
		return "The job went on changing.", false
	}
	return "The job cannot be changed; the log says more.", false
}

// saveIfDue writes the document when the last time was saveEvery ago. No job is
// changed while that fails, so that no other node can have taken over.
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

// settle is for a document of another version than expected. It may be this
// node's own, when only the answer to its writing was lost. A client that stopped
// the operation does not know what was done since the last time: that is added.
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
	case d.Value.State != Stopped:
		return errLost
	}
	w.mu.Lock()
	w.op.State, w.op.Why, w.op.EndedAt, w.op.Owner = Stopped, "", 0, ""
	d.Value = w.op
	d.Value.Errors = slices.Clone(w.op.Errors)
	w.mu.Unlock()
	_ = w.m.docs.Put(ctx, &d) // or it counts a few jobs less
	return errLost
}

// finish ends the operation.
func (w *worker) finish(ctx context.Context, s State, why string) {
	w.op.State, w.op.Why, w.op.Owner, w.op.EndedAt = s, why, "", w.now()
	if w.save(ctx) == nil { // or the last page is worked on again
		w.m.metrics.ended.WithLabelValues(string(w.op.Action), string(s)).Inc()
	}
}

// leave lets another node go on at once.
func (w *worker) leave(ctx context.Context) {
	w.op.Owner = ""
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if w.save(limited) == nil { // or it is taken over when the lease ends
		w.m.announce(limited)
	}
}
