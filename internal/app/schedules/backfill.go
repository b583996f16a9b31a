package schedules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

const (
	// MaxBackfill is the most occurrences of one backfill.
	MaxBackfill = 10_000
	// keptCounts is how many backfills a schedule counts one by one.
	keptCounts = 16
	// backfillBytes bounds the bodies that are registered in one call.
	backfillBytes = 1 << 20
)

// ErrNotEnded means that another job has the id of the occurrence and has not ended.
var ErrNotEnded = errors.New("the job of the occurrence has not ended")

// Backfill is a span of a timetable, From <= T < To, with the form that the schedule had
// when a client asked for it. An operation keeps it.
type Backfill struct {
	Schedule string      `json:"schedule"`
	UID      string      `json:"uid"`
	Def      Definition  `json:"definition"`
	From     job.Instant `json:"from"`
	To       job.Instant `json:"to"`
}

// backfilled is the number of jobs of all backfills.
func (r *record) backfilled() int64 {
	n := r.Backfilled
	for _, c := range r.Backfills {
		n += c
	}
	return n
}

// Span checks the span of a backfill as a client asks for it.
func Span(f *job.Findings, from, to *time.Time) (begin, end job.Instant) {
	read := func(field job.Field, at *time.Time) job.Instant {
		if at == nil {
			f.Add(field, "is required")
			return 0
		}
		checkYear(f, field, at)
		return max(job.InstantOf(*at), 1) // zero would be none
	}
	return read("from", from), read("to", to)
}

// PlanBackfill checks a backfill and counts its occurrences. It changes nothing.
func (m *Manager) PlanBackfill(ctx context.Context, name string, from, to job.Instant) (Backfill, int64, error) {
	s, err := m.Get(ctx, name)
	if err != nil {
		return Backfill{}, 0, err
	}
	b := Backfill{Schedule: name, UID: s.UID, Def: s.Def, From: from, To: to}
	if b.Def.HasEvery && b.Def.Anchor.IsZero() {
		b.Def.Anchor = b.Def.Start
	}
	b.Def.Start, b.Def.End = time.Time{}, time.Time{}
	switch {
	case to > s.Now:
		return Backfill{}, 0, job.Invalid("to", "must not be in the future")
	case to <= from:
		return Backfill{}, 0, job.Invalid("to", "must be after from")
	}
	times, err := b.Times(b.Begin(), MaxBackfill+1)
	if len(times) > MaxBackfill {
		err = job.Invalid("from", fmt.Sprintf("must be later: a backfill has at most %d occurrences", MaxBackfill))
	}
	return b, int64(len(times)), err
}

// Begin is the time in seconds behind which the occurrences begin.
func (b *Backfill) Begin() int64 { return (b.From - 1).Time().Unix() }

// Times returns the first n occurrences with T > after, in seconds.
func (b *Backfill) Times(after int64, n int) ([]int64, error) {
	rules, err := b.Def.rules(b.Schedule)
	if err != nil {
		return nil, err
	}
	var times []int64
	for t := range rules.Table.Between(seconds(after), (b.To - 1).Time()) {
		if len(times) == n {
			break
		}
		times = append(times, t.Unix())
	}
	return times, nil
}

// Most bounds a number of jobs that are registered in one call, by the size of their body.
func (b *Backfill) Most(n int) int {
	if body := b.Def.Job.Body; body != nil && len(body.Content) > 0 {
		n = min(n, backfillBytes/len(body.Content))
	}
	return max(n, 1)
}

// Key is the key of the job of an occurrence.
func (b *Backfill) Key(at int64) job.Key {
	return job.Key{Topic: b.Def.Topic(), ID: schedule.ID(b.Schedule, seconds(at))}
}

// CountBackfill notes how many jobs an operation has registered in all. It may be called
// again: the number counts once.
func (m *Manager) CountBackfill(ctx context.Context, b *Backfill, operation string, jobs int64) error {
	err := m.changeExisting(ctx, b.Schedule, nil, func(a *alteration) error {
		r := a.rec
		if r.UID != b.UID || jobs <= r.Backfills[operation] {
			return documents.ErrKept
		}
		counts := maps.Clone(r.Backfills)
		if counts == nil {
			counts = map[string]int64{}
		}
		counts[operation] = jobs
		for _, oldest := range slices.Sorted(maps.Keys(counts)) { // ids grow with time
			if len(counts) > keptCounts {
				r.Backfilled += counts[oldest]
				delete(counts, oldest)
			}
		}
		r.Backfills = counts
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// RegisterBackfill registers the occurrences of an operation at the times. It returns an
// error for each that is not registered. A repeated call registers nothing again. ErrNotFound:
// the schedule is gone.
func (m *Manager) RegisterBackfill(ctx context.Context, b *Backfill, operation string, times []int64) ([]error, error) {
	if err := m.expectBackfill(ctx, b, times); err != nil {
		return nil, err
	}
	now, err := store.Now(ctx, m.o.Store)
	if err != nil {
		return nil, err
	}
	results := make([]error, len(times))
	var regs []store.Registration
	var places []int
	for i, at := range times {
		key, t := b.Key(at), job.InstantOf(seconds(at))
		reg, err := m.o.Jobs.Occurrence(&b.Def.Job, app.Occurrence{
			Key: key, UID: uidOf(b.UID+" "+operation, t, key), Now: now, Due: now,
			Of: job.Occurrence{Schedule: b.Schedule, Time: t, Kind: job.ByBackfill},
		})
		if results[i] = err; err == nil {
			regs, places = append(regs, reg), append(places, i)
		}
	}
	registered, err := m.o.Jobs.RegisterOwn(ctx, regs)
	if err != nil {
		return nil, fmt.Errorf("register the occurrences of %s: %w", b.Schedule, err)
	}
	for i := range registered {
		results[places[i]] = backfillError(&regs[i], &registered[i])
	}
	return results, nil
}

func backfillError(reg *store.Registration, got *store.Registered) error {
	if err := got.Outcome.Err(); err != nil || got.Job.UID == reg.UID {
		return err
	}
	return ErrNotEnded
}

// expectBackfill notes the jobs to come, so that no occurrence overlooks them that asks
// whether one has not ended.
func (m *Manager) expectBackfill(ctx context.Context, b *Backfill, times []int64) error {
	d, err := m.docs.Get(ctx, b.Schedule)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && (!d.Value.exists() || d.Value.UID != b.UID):
		return ErrNotFound
	case err != nil || d.Value.Def.Overlap == schedule.Allow:
		return err
	}
	return m.changeExisting(ctx, b.Schedule, nil, func(a *alteration) error {
		r := a.rec
		if r.UID != b.UID {
			return ErrNotFound
		}
		for _, at := range times {
			r.open(b.Key(at))
		}
		return nil
	})
}

func seconds(at int64) time.Time { return time.Unix(at, 0).UTC() }
