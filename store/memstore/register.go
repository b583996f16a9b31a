package memstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// maxTries bounds how often Update starts over because the job changed.
const maxTries = 20

// Register registers jobs.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	specs := make([]encoded, len(regs))
	var to encoder
	for i := range regs {
		specs[i] = to.encode(regs[i].Key, &regs[i].Spec)
	}
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	results := make([]store.Registered, len(regs))
	for i := range regs {
		if results[i], err = s.register(&regs[i], specs[i], now); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Store) register(r *store.Registration, e encoded, now job.Instant) (store.Registered, error) {
	at := cmp.Or(r.At, now)
	j := r.Job(at)
	old := s.find(r.Key)
	if old != nil {
		was := old.snapshot()
		before, err := was.job()
		if err != nil {
			return store.Registered{}, err
		}
		if outcome := rules.Against(r, &before); outcome != store.Created {
			return store.Registered{Outcome: outcome, Job: before}, nil
		}
		j = r.Over(&before, at)
		j.Token = old.token // so that no worker of the old job can settle the new one
	}
	if old == nil || old.state.Final() {
		if outcome := s.admits(r.Key.Topic); outcome != store.Created {
			return store.Registered{Outcome: outcome}, nil
		}
	}
	if old != nil {
		if old.hasTurn() {
			s.noteLast(old)
		}
		s.remove(old, now)
	}
	s.add(newRecord(&j, e), &j, e, now)
	return store.Registered{Outcome: store.Created, Job: j}, nil
}

// Update changes a job by comparing its version and replacing it.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	for range maxTries {
		rec, was, now, err := s.read(ctx, key)
		if err != nil {
			return job.Job{}, err
		}
		j, err := was.job()
		if err != nil {
			return job.Job{}, err
		}
		if refused := change(&j, now); refused != nil {
			before, err := was.job() // change may have altered j
			if err != nil {
				return job.Job{}, err
			}
			return before, refused
		}
		j.Version = was.Version + 1
		next := encodeSuccessors(j.UID, j.Ended(was.State, job.ShedNothing))
		stored, done, err := s.replace(ctx, rec, was.Version, j, new(encoder).encode(key, &j.Spec), next)
		if err != nil {
			before, undecodable := was.job()
			return before, errors.Join(err, undecodable)
		}
		if done {
			return stored.job()
		}
	}
	return job.Job{}, store.ErrConflict
}

// read returns a job's record, a copy of it, and the time.
func (s *Store) read(ctx context.Context, key job.Key) (*record, snapshot, job.Instant, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, snapshot{}, 0, err
	}
	defer s.leave()
	rec := s.find(key)
	if rec == nil {
		return nil, snapshot{}, 0, store.ErrNotFound
	}
	return rec, rec.snapshot(), now, nil
}

// replace stores j in rec if rec is still kept and has the version given.
func (s *Store) replace(ctx context.Context, rec *record, version uint64, j job.Job, e encoded, next []successor) (snapshot, bool, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return snapshot{}, false, err
	}
	defer s.leave()
	if s.find(j.Key) != rec || rec.version != version {
		return snapshot{}, false, nil
	}
	if rec.state.Final() && !j.State.Final() {
		if err := s.resumes(j.Topic); err != nil {
			return rec.snapshot(), false, err
		}
	}
	running, score := rec.state == job.Running, rec.score
	hadTurn := rec.hasTurn()
	stopped := hadTurn && rec.state.Final()
	s.unplace(rec, now)
	s.unindexByNames(rec)
	rec.assign(&j, e)
	switch {
	case j.State.Final():
		rec.score = endedScore(j.EndedAt, j.State)
	case j.State == job.Running && running:
		rec.score = score // its lease continues
	default:
		rec.state = j.Pending()
		rec.score = bucketScore(j.WakeAt(), rec.state)
	}
	if stopped && !rec.state.Final() {
		rec.turns.head = rec // it goes first
	}
	s.indexByNames(rec)
	s.place(rec, e.lane, now)
	s.promote(rec.turns, now)
	if hadTurn && rec.state.Final() {
		s.noteLast(rec)
	}
	stored := rec.snapshot()
	s.forgetEnded(rec, now)
	s.follow(next, rec, j.EndedAt)
	return stored, true, nil
}

// Restore stores jobs whose keys are free, or held by RestoredJob.Over.
func (s *Store) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	specs := make([]encoded, len(jobs))
	var to encoder
	for i := range jobs {
		specs[i] = to.encode(jobs[i].Job.Key, &jobs[i].Job.Spec)
	}
	now, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer s.leave()
	restored := 0
	for i := range jobs {
		old, over := s.find(jobs[i].Job.Key), jobs[i].Over
		if old != nil && (over == nil || old.uid != over.UID || old.version != over.Version) {
			continue
		}
		if old != nil {
			s.remove(old, now)
		}
		s.restore(&jobs[i], specs[i], now)
		restored++
	}
	return restored, nil
}

func (s *Store) restore(r *store.RestoredJob, e encoded, now job.Instant) {
	j := &r.Job
	rec := newRecord(j, e)
	if len(r.Log) > 0 || j.LastAttempt != nil {
		rec.more().restoreLog(r.Log, j.LastAttempt)
	}
	if len(r.CountKeys) > 0 {
		rec.tallied().add(r.CountKeys)
	}
	if j.State.Final() {
		rec.score = endedScore(j.EndedAt, j.State)
	} else {
		rec.state = j.Pending()
		rec.score = bucketScore(j.WakeAt(), rec.state)
	}
	s.insert(rec, j.Topic, e.lane, now)
}
