package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// maxTries is how often a call is tried again because a job changes or differs meanwhile.
const maxTries = 20

// look is what the store and the ledger have of a key before a call changes its job.
type look struct {
	key job.Key
	// asks: the call may repeat the registration of a job that ended at this time or later and that
	// the store has lost. Zero: it does not.
	asks job.Instant

	old  store.Standing
	rows []*entry
	put  bool // the store got the ledger's version
}

// lookFirst looks at keys, and puts right what the store or the ledger lacks: a job that the store has
// lost or has in an older version, and an end that a node has not written yet. A job that has ended
// and that the store has lost before its time comes back as well if the client seems to repeat its
// call: the client must get that job, not another.
func (s *Store) lookFirst(ctx context.Context, looks ...*look) (err error) {
	for try, left := 0, looks; len(left) > 0; try++ {
		if try == maxTries {
			return fmt.Errorf("%w: the ledger and the store differ about the job %s", store.ErrUnavailable, left[0].key)
		}
		if left, err = s.lookOnce(ctx, left); err != nil {
			return err
		}
	}
	return nil
}

// lookOnce returns those to be looked at again.
func (s *Store) lookOnce(ctx context.Context, looks []*look) (again []*look, err error) {
	keys := make([]job.Key, len(looks))
	for i, l := range looks {
		keys[i] = l.key
	}
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return nil, err
	}
	rows, err := s.entriesFirst(ctx, keys, standings)
	if err != nil {
		return nil, err
	}
	var ahead, behind []finding
	var ended []int64
	for i, l := range looks {
		l.old, l.rows = standings[i], rows[i]
		f, lost, late := l.compare()
		switch {
		case f != nil && f.entry.bad != nil:
			return nil, s.cannotRead(f.entry)
		case f != nil:
			again, ahead = append(again, l), append(ahead, *f)
		case lost != 0:
			again, ended, l.asks = append(again, l), append(ended, lost), 0
		case late:
			behind = append(behind, finding{key: l.key, standing: l.old})
		}
	}
	put, err := s.putAhead(ctx, ahead)
	if err != nil {
		return nil, err
	}
	for _, l := range again {
		l.put = l.put || put
	}
	if _, err := s.catchUp(ctx, behind); err != nil {
		return nil, err
	}
	return again, s.messages(ctx, ended, func(messages []stored, bad []*entry) error {
		s.reportUnreadable(bad)
		return s.recallEnded(ctx, messages)
	})
}

// compare compares what the store and the ledger have. ahead is a job that the store has lost or has
// in an older version. lost is the seq of a job that has ended and that the store has lost before its
// time, or zero. late: the ledger lacks the end of the store's job, because the node that made it has
// not written it yet.
func (l *look) compare() (ahead *finding, lost int64, late bool) {
	own, last := pickOwn(l.rows, l.old.UID), pickOwn(l.rows, "")
	if last != nil && last.open && last.bad != nil && last.uid != l.old.UID { // otherwise the store decides
		return &finding{entry: last}, 0, false
	}
	f := compare(l.key, l.old, l.rows)
	switch {
	case f.putsForward():
		return &f, 0, false
	case l.asks != 0 && !l.old.Exists() && last != nil && !last.open && last.done >= l.asks:
		return nil, last.seq, false
	}
	return nil, 0, l.old.Exists() && l.old.State.Final() && own != nil && own.version < l.old.Version
}

// since reports whether j is the store's job that was looked at, or what became of it.
func (l *look) since(j *job.Job) bool { return j.UID == l.old.UID && j.Version >= l.old.Version }

// putAhead updates the store with the ledger's version of jobs, and reports whether that did
// anything.
func (s *Store) putAhead(ctx context.Context, found []finding) (put bool, err error) {
	done, bad, err := s.putForward(context.WithoutCancel(ctx), found)
	done.Conflicts = done.Repaired
	s.metrics.add(done)
	switch {
	case err != nil:
		return false, err
	case len(bad) > 0:
		return false, s.cannotRead(bad[0])
	case done.NoRoom > 0:
		return false, store.ErrFull
	}
	return done.Restored+done.Repaired > 0, nil
}

// clockSlack is by how much the clocks of this node and of the store may differ
// before a repeated registration is not recognised.
const clockSlack = time.Minute

// keptSince is since when a job must have ended to be still kept by the store,
// more or less; zero: the store keeps none.
func (s *Store) keptSince() job.Instant {
	if s.o.StoreRetention <= 0 {
		return 0
	}
	return job.InstantOf(s.o.Clock.Now()).Add(-s.o.StoreRetention - clockSlack)
}

// recallEnded puts back what the store lacks of messages and would still keep.
func (s *Store) recallEnded(ctx context.Context, messages []stored) error {
	var ended []store.RestoredJob
	for i := range messages {
		r := &messages[i].RestoredJob
		o, err := s.inner.Outlook(ctx, r.Job.Key)
		switch {
		case err == nil: // somebody else was faster
		case !errors.Is(err, store.ErrNotFound):
			return err
		case r.Job.State.Final() && (r.Job.Spec.Occurrence != nil || o.Now < r.Job.EndedAt.Add(s.o.StoreRetention)):
			ended = append(ended, *r)
		}
	}
	n, err := s.restoreSpread(context.WithoutCancel(ctx), ended)
	s.metrics.add(store.RestoreReport{Restored: n})
	return err
}
