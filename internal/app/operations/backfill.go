package operations

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Limits of a backfill's rate, in jobs per second.
const (
	DefaultBackfillRate = 100
	MaxBackfillRate     = 1000
	// A batch of a backfill has the jobs of a tenth of a second.
	batchPart, maxBatch = 10, 100
	// oldProgress is the age of a backfill's progress from which on ended jobs are kept
	// for it.
	oldProgress = time.Minute
)

// BackfillDraft is a backfill as a client asks for it.
type BackfillDraft struct {
	Schedule string
	From, To *time.Time
	Rate     *int   // nil: DefaultBackfillRate
	DryRun   bool   // count only
	By       string // as of Draft
}

// Backfill begins an operation that registers the occurrences of a schedule in a span of
// the past. A dry run returns it with the count and without an id. Errors: those of Create,
// and schedules.ErrNotFound.
func (m *Manager) Backfill(ctx context.Context, d BackfillDraft) (Operation, error) {
	var f job.Findings
	rate := DefaultBackfillRate
	if d.Rate != nil {
		if rate = *d.Rate; rate < 1 || rate > MaxBackfillRate {
			f.Add("rate", fmt.Sprintf("must be from 1 to %d jobs per second", MaxBackfillRate))
		}
	}
	from, to := schedules.Span(&f, d.From, d.To)
	if err := f.Err(); err != nil {
		return Operation{}, err
	}
	plan, jobs, err := m.plans.PlanBackfill(ctx, d.Schedule, from, to)
	if err != nil {
		return Operation{}, err
	}
	now, err := store.Now(ctx, m.store)
	if err != nil {
		return Operation{}, fmt.Errorf("ask for the store's time: %w", err)
	}
	o := Operation{
		Action: Backfill, Filter: store.Query{Schedule: d.Schedule}, Backfill: &plan, Rate: rate, By: d.By, Estimate: &jobs,
		State: Running, StartedAt: now, UpdatedAt: now,
	}
	if d.DryRun {
		return o, nil
	}
	if err := m.admit(ctx, &o); err != nil {
		return Operation{}, err
	}
	return m.start(ctx, &o)
}

// backfill registers the next occurrences. The cursor moves when all are registered. Until
// then, they are registered again with the same uids.
func (w *worker) backfill(ctx context.Context) error {
	b, after := w.op.Backfill, w.op.Backfill.Begin()
	if w.op.Cursor != "" {
		var err error
		if after, err = strconv.ParseInt(w.op.Cursor, 10, 64); err != nil {
			return fmt.Errorf("read the cursor: %w", err)
		}
	}
	times, err := b.Times(after, b.Most(min(w.op.Rate/batchPart, maxBatch)))
	if err != nil {
		return err
	}
	if len(times) == 0 {
		return errDone
	}
	if err := w.saveIfDue(ctx); err != nil {
		return err
	}
	if err := w.await(ctx, len(times)); err != nil {
		return err
	}
	results, err := w.registerAll(ctx, b, times)
	if err != nil {
		return err
	}
	for i, at := range times {
		w.count(b.Key(at), results[i])
	}
	w.op.Cursor = strconv.FormatInt(times[len(times)-1], 10)
	return nil
}

// registerAll registers occurrences until their topic has taken all of them, and returns
// an error for each that cannot be registered.
func (w *worker) registerAll(ctx context.Context, b *schedules.Backfill, times []int64) ([]error, error) {
	results := make([]error, len(times))
	places := make([]int, len(times))
	for i := range places {
		places[i] = i
	}
	for rest := times; ; {
		some, err := w.registerSome(ctx, b, rest)
		if err != nil {
			return nil, err
		}
		var refused []int
		var why error
		for i, n := range places {
			if results[n] = some[i]; refusedByTopic(some[i]) {
				refused, why = append(refused, n), some[i]
			}
		}
		if places = refused; len(places) == 0 {
			w.explain("")
			return results, nil
		}
		text, _ := message(why)
		w.explain(text + " The backfill waits.")
		if err := w.pauseRefused(ctx); err != nil {
			return nil, err
		}
		rest = nil
		for _, n := range places {
			rest = append(rest, times[n])
		}
	}
}

func (w *worker) registerSome(ctx context.Context, b *schedules.Backfill, times []int64) (results []error, err error) {
	err = w.insist(ctx, func(ctx context.Context) (err error) {
		results, err = w.m.plans.RegisterBackfill(ctx, b, w.op.ID, times)
		return err
	})
	return results, err
}

func refusedByTopic(err error) bool {
	return errors.Is(err, store.ErrTopicFull) || errors.Is(err, store.ErrTopicDraining)
}

// refusedPause is how long a backfill waits for its topic to take jobs again.
const refusedPause = time.Second

func (w *worker) pauseRefused(ctx context.Context) error {
	if err := job.Sleep(ctx, w.m.clock, refusedPause); err != nil {
		return err
	}
	return w.saveIfDue(ctx)
}

// explain sets why a running operation waits; empty: it does not.
func (w *worker) explain(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.op.Why = why
}

// noteBackfill reports the number of jobs to the schedule, before the operation shows that
// it has ended.
func (w *worker) noteBackfill(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := w.insist(limited, func(ctx context.Context) error {
		return w.m.plans.CountBackfill(ctx, w.op.Backfill, w.op.ID, w.op.Changed)
	})
	if err != nil {
		w.m.log.Error("the counters of a schedule lack jobs of a backfill", "operation", w.op.ID, "error", err)
	}
}

// MayPurge reports whether ended jobs may be forgotten. While the progress of a backfill
// is old, they show what it registered.
func (m *Manager) MayPurge() bool { return m.mayPurge.Load() }

func mayPurge(docs []stored, now job.Instant) bool {
	for i := range docs {
		o := &docs[i].Value
		if docs[i].Err == nil && o.Backfill != nil && !o.State.Ended() && o.Owner != "" && now.Sub(o.UpdatedAt) > oldProgress {
			return false
		}
	}
	return true
}
