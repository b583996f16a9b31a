package sqlstore

import (
	"bytes"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
	"github.com/duehook/duehook/store/successors"
)

// Get returns a job.
func (s *Store) Get(ctx context.Context, key job.Key) (job.Job, error) {
	rec, _, err := s.read(ctx, key)
	if err != nil {
		return job.Job{}, err
	}
	return rec.job()
}

// read reads a record, with the database's time.
func (s *Store) read(ctx context.Context, key job.Key) (r *record, now job.Instant, err error) {
	var failed error
	now, err = s.ask(ctx, func(b *pgx.Batch) { s.askRecord(b, key, &r, &failed) })
	if err == nil {
		err = failed
	}
	return r, now, err
}

// askRecord asks for a record.
func (s *Store) askRecord(b *pgx.Batch, key job.Key, r **record, failed *error) {
	*r, *failed = nil, store.ErrNotFound
	collect(b.Queue(s.sql(`SELECT `+withContent+` FROM duehook.job j WHERE topic = $1 AND id = $2`), text(key.Topic), text(key.ID)), func(row pgx.Rows) error {
		if *r, *failed = scan(row); *r == nil {
			return *failed
		}
		if *failed == nil {
			*failed = (*r).locate()
		}
		return nil
	})
}

// Update changes a job by comparing its version and replacing it.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	for range store.Tries(ctx) {
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
		j.Version, j.UpdatedAt = was.Version+1, max(now, was.CreatedAt)
		u := update{j: j, was: was, next: j.Ended(was.State, job.ShedNothing)}
		if err := s.change(ctx, u.apply); err != nil {
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
	j       job.Job
	was     *record
	next    []job.Successor
	stored  *record // nil: the job has changed
	refused error
}

func (u *update) apply(ctx context.Context, t *txn) error {
	u.stored, u.refused = nil, nil
	b := &pgx.Batch{}
	var limited []string
	revived := u.was.State.Final() && !u.j.State.Final()
	if revived || records.OrderOf(u.j.Topic, u.j.Spec.OrderKey) != "" || len(u.next) > 0 {
		limited = append(limited, u.j.Topic)
	}
	limits := t.readLimits(b, limited, revived)
	var orders []string
	for _, order := range []string{u.was.order, records.OrderOf(u.j.Topic, u.j.Spec.OrderKey)} {
		if order != "" {
			orders = append(orders, order)
		}
	}
	t.lockTurns(b, orders)
	t.lock(b, withContent, []job.Key{u.j.Key})
	if err := t.send(ctx, b); err != nil {
		return err
	}
	rec := t.readable(u.j.Key)
	if rec == nil || rec.UID != u.was.UID || rec.Version != u.was.Version {
		return nil
	}
	if revived {
		if outcome := limits.admits(u.j.Topic); outcome.Refused() {
			u.refused = outcome.Err()
			return nil
		}
	}
	return u.move(ctx, t, rec, limits)
}

// move moves the record to the bucket or list of its new state and lane.
func (u *update) move(ctx context.Context, t *txn, rec *record, limits *admission) error {
	turns, rows := t.turns(ctx)
	runs := rec.State == job.Running && u.j.State == job.Running
	stopped := turns.HasTurn(rec.order, rec.ID) && rec.State.Final()
	if !runs {
		turns.Leave(rec.order, &rec.Job)
	}
	spec := rec.spec
	rec.Job, rec.changed = u.j, true
	rec.assignSpec(&u.j.Spec)
	rec.content = !bytes.Equal(spec, rec.spec)
	rec.Spec, rec.LastAttempt = job.Spec{}, nil
	switch {
	case runs: // its lease continues
	case rec.State.Final():
		t.end(turns, rec, limits)
	default:
		rec.State, rec.EndedAt = rec.Pending(), 0
		if stopped { // it goes first
			turns.Resume(rec.order, &rec.Job)
		}
		t.enter(turns, rec)
	}
	for _, order := range []string{u.was.order, rec.order} {
		t.promote(turns, order)
	}
	stored := *rec
	u.stored = &stored
	t.follow(rec.UID, u.next, limits, u.j.EndedAt)
	return rows.err
}

// end notes that a job has ended and left its turn.
func (t *txn) end(turns records.Turns, r *record, limits *admission) {
	r.parked, r.until = false, 0
	if r.State == job.Dead && r.order != "" && limits.limits[r.Topic].StopOnDead {
		t.move(r.order, turns.Stop(r.order, &r.Job), true)
	}
	// Without retention, only dead letters and what must be kept are kept.
	r.gone = t.s.retention == 0 && r.State != job.Dead && !r.keepsEnd
}

// follow registers the successors of the job with a uid, when the transaction ends, and returns what it left out. A callback that
// the store has already was registered when the outcome was stored before.
func (t *txn) follow(uid string, all []job.Successor, limits *admission, now job.Instant) (shed job.Shed) {
	if len(all) == 0 {
		return job.ShedNothing
	}
	for i, reg := range successors.Of(uid, all) {
		if all[i].Passing && limits.isFull(reg.Key.Topic) {
			shed = job.ShedPassing
			continue
		}
		j := reg.Job(now)
		t.followers = append(t.followers, newRecord(&j))
		limits.unfinished[reg.Key.Topic]++
	}
	return shed
}
