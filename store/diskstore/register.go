package diskstore

import (
	"context"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Register registers jobs.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	results := make([]store.Registered, len(regs))
	if len(regs) > 0 && s.full() {
		for i := range results {
			results[i].Outcome = store.StoreFull
		}
		return results, ctx.Err()
	}
	err := s.change(ctx, true, func(t *txn) {
		t.fetchKeys(regs)
		for i := range regs {
			results[i] = t.register(&regs[i])
		}
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// fetchKeys reads where the records of the keys are.
func (t *txn) fetchKeys(regs []store.Registration) {
	keys := make([][]byte, len(regs))
	for i := range regs {
		keys[i] = row(famKey, regs[i].Key.Topic, regs[i].Key.ID)
	}
	t.note(t.rows.fetch(keys))
}

func (t *txn) register(r *store.Registration) store.Registered {
	j := r.Job(t.now)
	old := t.holder(r.Key)
	if old != nil {
		if outcome := rules.Against(r, old); outcome != store.Created {
			return store.HeldBy(outcome, *old)
		}
		j = r.Over(old, t.now)
		j.Token = old.Token // so that no worker of the old job can settle the new one
	}
	if old == nil || old.State.Final() {
		if outcome := t.s.admits(r.Key.Topic); outcome != store.Created {
			return store.Registered{Outcome: outcome}
		}
	}
	if old != nil {
		if rec := t.load(r.Key); rec != nil {
			t.forget(rec)
		}
	}
	if t.err != nil {
		return store.Registered{}
	}
	t.insert(newRecord(&j))
	return store.Registered{Outcome: store.Created, Job: j}
}

// Update changes a job by comparing its version and replacing it.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	for range store.MaxTries {
		was, now, err := s.read(ctx, key)
		if err != nil {
			return job.Job{}, err
		}
		before, err := was.job()
		if err != nil {
			return job.Job{}, err
		}
		j, _ := was.job() // decoded again, not copied: change may write into the memory of before
		if err := change(&j, now); err != nil {
			return before, err
		}
		if s.full() && rules.NeedsRoom(&before, &j) {
			return before, store.ErrFull
		}
		j.Version, j.UpdatedAt = was.Version+1, max(now, was.CreatedAt)
		u := update{j: &j, was: was, next: followers(j.UID, j.Ended(was.State, job.ShedNothing))}
		if err := s.change(ctx, true, u.apply); err != nil {
			return job.Job{}, err
		}
		if u.refused != nil {
			return before, u.refused
		}
		if u.stored != nil {
			return u.stored.job()
		}
	}
	return job.Job{}, store.ErrConflict
}

// update is a change of a job that was read before.
type update struct {
	j       *job.Job
	was     *record
	next    []successor
	stored  *record // nil: the job has changed
	refused error
}

func (u *update) apply(t *txn) {
	rec := t.load(u.j.Key)
	if rec == nil || rec.UID != u.was.UID || rec.Version != u.was.Version {
		return
	}
	if rec.State.Final() && !u.j.State.Final() {
		if u.refused = t.s.admits(u.j.Topic).Err(); u.refused != nil {
			return
		}
	}
	runs := rec.State == job.Running && u.j.State == job.Running
	stopped := t.turns().HasTurn(rec.order, rec.ID) && rec.State.Final()
	old := *rec
	fresh := rec.changed(u.j)
	t.reindex(&old, fresh)
	if runs && fresh.lane == old.lane && fresh.WakeAt() == old.WakeAt() {
		t.rewrite(fresh) // its lease continues
		t.finish(u, fresh)
		return
	}
	flight := old.flight
	t.take(&old)
	if fresh.flight = nil; !runs && !fresh.State.Final() {
		fresh.State = fresh.Pending()
	}
	if stopped && !fresh.State.Final() { // it goes first
		t.turns().Resume(fresh.order, &fresh.Job)
	}
	t.put(fresh)
	if runs {
		t.resume(fresh, flight)
	}
	t.promote(fresh.order)
	t.finish(u, fresh)
}

// finish ends an update.
func (t *txn) finish(u *update, fresh *record) {
	stored := *fresh
	if f := fresh.flight; f != nil {
		is := *f
		stored.flight = &is
	}
	u.stored = &stored
	t.forgetEnded(fresh)
	t.follow(u.next, u.j.EndedAt)
}

// changed is the record with the content and progress of j, which has its Spec.
func (r *record) changed(j *job.Job) *record {
	fresh := *r
	fresh.Job = *j
	fresh.assignSpec(&j.Spec)
	fresh.Spec, fresh.LastAttempt = job.Spec{}, nil
	return &fresh
}

// reindex replaces the rows by which a record is found.
func (t *txn) reindex(old, fresh *record) {
	was, is := indexRows(old), indexRows(fresh)
	if slices.EqualFunc(was, is, slices.Equal) {
		return
	}
	for _, key := range was {
		t.delete(key)
	}
	for _, key := range is {
		t.set(key, nil)
	}
}

// rewrite writes a record whose entry stays as it is.
func (t *txn) rewrite(rec *record) {
	t.set(rec.place.key(), rec.encode())
	if f := rec.flight; f != nil && f.claimed {
		t.unhold(f)
		f.remember(rec)
		t.writeClaim(f)
	}
}

// resume puts a running job into flight again, in another bucket or at another time.
func (t *txn) resume(rec *record, was *flight) {
	f := t.launch(t.s.laneOf(rec.lane), entryOf(rec), was.until)
	f.claimed, f.claim = true, was.claim
	f.remember(rec)
	t.writeClaim(f)
	rec.flight = f
	t.look(f.lane)
}
