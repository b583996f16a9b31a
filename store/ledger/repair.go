package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// repairPage is the number of jobs that are checked again and repaired together.
	repairPage = 500
	// repairers is the number of pages repaired concurrently.
	repairers = 3
	// restorers is how many calls restore a page: the store may need a round trip for each
	// job.
	restorers = 8
	// rowsPerRepair: message and payload.
	rowsPerRepair = 2
)

// repairAll checks findings a second time and repairs the remaining differences.
func (p *pass) repairAll(ctx context.Context, found []finding) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(repairers)
	for page := range slices.Chunk(found, repairPage) {
		group.Go(func() error { return p.repair(ctx, page) })
	}
	return group.Wait()
}

func (p *pass) repair(ctx context.Context, found []finding) error {
	s := p.s
	if err := s.begin(ctx, true); err != nil {
		return err
	}
	defer s.leave()
	// The ledger should have this process's own changes of these jobs.
	if err := s.flush(ctx); err != nil {
		return err
	}
	still, moving, err := s.comparer.again(ctx, found)
	p.moving.Add(int64(moving))
	if err != nil || len(still) == 0 {
		return err
	}
	var back, ahead []finding
	var conflicts int64
	for _, f := range still {
		switch {
		case f.putsForward():
			back = append(back, f)
		case f.difference == BehindInLedger, f.difference == MissingInLedger:
			ahead = append(ahead, f)
		}
		if f.difference != MissingInStore {
			conflicts++
		}
	}
	back = p.withRoom(back)
	done, bad, err := s.putForward(ctx, back)
	p.addBad(bad...)
	done.Conflicts = conflicts
	p.add(done)
	if err != nil {
		return err
	}
	n, err := s.catchUp(ctx, ahead)
	p.add(store.RestoreReport{Repaired: n})
	return err
}

// withRoom leaves out missing jobs once the store had no room for some. The next pass tries
// again.
func (p *pass) withRoom(found []finding) []finding {
	if p.report().NoRoom == 0 {
		return found
	}
	there := slices.DeleteFunc(found, func(f finding) bool { return f.difference == MissingInStore })
	p.add(store.RestoreReport{NoRoom: int64(len(found) - len(there))})
	return there
}

// putsForward reports whether the store gets the ledger's version. A running job is left
// to its worker.
func (f *finding) putsForward() bool {
	switch f.difference {
	case MissingInStore, FinishedInLedger:
		return true
	case BehindInStore:
		return f.standing.State != job.Running
	}
	return false
}

// putForward writes the ledger's version of jobs to the store, without those that cannot be
// read.
func (s *Store) putForward(ctx context.Context, found []finding) (done store.RestoreReport, bad []*entry, err error) {
	if len(found) == 0 {
		return done, nil, nil
	}
	bySeq := make(map[int64]*finding, len(found))
	seqs := make([]int64, len(found))
	for i := range found {
		seqs[i] = found[i].entry.seq
		bySeq[seqs[i]] = &found[i]
	}
	err = s.messages(ctx, seqs, func(messages []stored, broken []*entry) error {
		bad = append(bad, broken...)
		return s.putPart(ctx, &done, messages, bySeq)
	})
	return done, bad, err
}

// putPart writes some messages to the store, unless it has no room for missing jobs.
func (s *Store) putPart(ctx context.Context, done *store.RestoreReport, messages []stored, bySeq map[int64]*finding) error {
	var missing, other []store.RestoredJob
	for i := range messages {
		f, r := bySeq[messages[i].seq], &messages[i].RestoredJob
		if r.Job.Version != f.entry.version { // it changes
			continue
		}
		if f.standing.Exists() {
			overtake(r, f.standing)
			other = append(other, *r)
		} else {
			missing = append(missing, *r)
		}
	}
	if done.NoRoom > 0 {
		done.NoRoom, missing = done.NoRoom+int64(len(missing)), nil
	}
	restored, err := s.restoreSpread(ctx, missing)
	done.Restored += restored
	if errors.Is(err, store.ErrFull) {
		done.NoRoom, err = int64(len(missing))-restored, nil
	}
	if err != nil {
		return err
	}
	repaired, err := s.restoreSpread(ctx, other)
	done.Repaired += repaired
	return err
}

// overtake makes r newer than standing. So a worker with the fencing token of standing
// cannot settle r, and a late change of standing does not look newer in the ledger.
func overtake(r *store.RestoredJob, standing store.Standing) {
	r.Over = &standing
	r.Job.Token = max(r.Job.Token, standing.Token)
	if r.Job.UID == standing.UID {
		r.Job.Version = max(r.Job.Version, standing.Version)
	}
}

// restoreSpread restores jobs with several calls at a time.
func (s *Store) restoreSpread(ctx context.Context, jobs []store.RestoredJob) (int64, error) {
	// The calls end soon: jobs read now must not be restored much later.
	group, ctx := errgroup.WithContext(ctx)
	var total atomic.Int64
	for part := range slices.Chunk(jobs, max(1, (len(jobs)+restorers-1)/restorers)) {
		group.Go(func() error {
			n, err := s.inner.Restore(ctx, part)
			total.Add(int64(n))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return total.Load(), fmt.Errorf("put jobs back: %w", err)
	}
	return total.Load(), nil
}

// catchUp writes the store's version of jobs to the ledger, with the attempts missing
// there. It returns the number of jobs.
func (s *Store) catchUp(ctx context.Context, found []finding) (int64, error) {
	var caught int64
	for len(found) > 0 {
		var jobs []record
		rows := 0
		for bytes := int64(0); len(found) > 0 && bytes < store.BatchBytes; found = found[1:] {
			j, err := s.inner.Get(ctx, found[0].key)
			if err != nil || !found[0].standing.Of(&j) { // it changes
				continue
			}
			log, err := store.Attempts(ctx, s.inner, j.Key)
			if err != nil {
				continue
			}
			first := len(jobs)
			r := newRecord(j, log)
			if j.Spec.Count != nil {
				if r.countKeys, err = s.inner.CountKeys(ctx, &j); err != nil {
					continue
				}
			}
			jobs = append(jobs, r)
			jobs = append(jobs, s.callbacksOf(ctx, &j, log)...)
			for i := range jobs[first:] {
				rows += rowsPerRepair + len(jobs[first+i].log) + len(jobs[first+i].countKeys)
				bytes += jobs[first+i].message.size()
			}
		}
		if len(jobs) == 0 {
			continue
		}
		err := s.commit(ctx, write{rows: rows, add: func(g *group) {
			for i := range jobs {
				// If equal versions differ, the store's has ended.
				c := g.rewritten(&jobs[i].message)
				c.log, c.countKeys = jobs[i].log, append(c.countKeys, jobs[i].countKeys...)
			}
		}})
		if err != nil {
			return caught, err
		}
		caught += int64(len(jobs))
	}
	return caught, nil
}

// callbacksOf are the callbacks of a job that the store has. The ledger gets them together
// with the outcome that they report: it would not repeat that outcome if they were lost. It may
// have missed a replay, too. log has the attempts of the job.
func (s *Store) callbacksOf(ctx context.Context, j *job.Job, log []job.Attempt) (records []record) {
	keys := append(j.EarlierCallbackKeys(log), j.CallbackKeys()...)
	if len(keys) == 0 {
		return nil
	}
	standings, err := s.inner.Standings(ctx, keys) // most keys name no job
	if err != nil {
		return nil // the next pass finds the callbacks
	}
	for i, key := range keys {
		if !standings[i].Exists() {
			continue
		}
		callback, err := s.inner.Get(ctx, key)
		if err != nil { // it was forgotten meanwhile
			continue
		}
		if log, err := store.Attempts(ctx, s.inner, key); err == nil {
			records = append(records, newRecord(callback, log))
		}
	}
	return records
}
