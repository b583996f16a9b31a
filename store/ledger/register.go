package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// rowsPerRegistration is how many rows a registration writes: message, payload, flow,
// and the confirmation. One that replaces another writes as many.
const rowsPerRegistration = 4

// conflictPauses are how long a call waits for another node's registration or settlement
// of the same key, which either the store or the ledger does not have yet.
var conflictPauses = []time.Duration{
	5 * time.Millisecond, 20 * time.Millisecond, 75 * time.Millisecond, 200 * time.Millisecond, 700 * time.Millisecond,
}

// Register writes jobs to the ledger, then to the store. While commits fail it refuses.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	results := make([]store.Registered, len(regs))
	for _, round := range rules.KeysApart(regs) {
		if err := s.registerRound(ctx, regs, round, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Store) registerRound(ctx context.Context, regs []store.Registration, round []int, results []store.Registered) error {
	keys, intakes := make([]job.Key, len(round)), make([]*intake, len(round))
	for i, n := range round {
		keys[i], intakes[i] = regs[n].Key, &intake{reg: regs[n]}
		if rules.Repeats(&regs[n]) {
			intakes[i].asks = s.keptSince()
		}
	}
	c, err := s.begin(ctx, true, rowsPerRegistration*len(round), keys...)
	if err != nil {
		return err
	}
	defer c.end()
	for try := 0; ; try++ {
		if err := s.takeIn(ctx, c, intakes); err != nil {
			return err
		}
		var again []int
		var refused []*intake
		for i, in := range intakes {
			if results[round[i]] = in.result; in.again {
				results[round[i]].Outcome = store.Same
			}
			if in.refused {
				again, refused = append(again, round[i]), append(refused, in)
			}
		}
		if len(again) == 0 {
			return nil
		}
		if err := s.waitForOthers(ctx, refused, try); err != nil {
			return err
		}
		round, intakes = again, refused
	}
}

// waitForOthers prepares the next try of registrations that the ledger refused. It restores
// ended jobs that the store has lost before their time, because clients seem to repeat
// their registrations: those must get that job, not another. Then it waits for other nodes.
func (s *Store) waitForOthers(ctx context.Context, refused []*intake, try int) error {
	var seqs []int64
	for _, in := range refused {
		next := intake{reg: in.reg, asks: in.asks}
		if in.lost != 0 {
			seqs = append(seqs, in.lost)
			next.asks = 0
		}
		*in = next
	}
	err := s.messages(ctx, seqs, func(messages []stored, bad []unreadable) error {
		s.reportUnreadable(bad)
		return s.recallEnded(ctx, messages)
	})
	if err != nil {
		return err
	}
	if try == len(conflictPauses) {
		return fmt.Errorf("%w: the ledger has a job %s that the store lacks", store.ErrUnavailable, refused[0].reg.Key)
	}
	return job.Sleep(ctx, s.o.Clock, conflictPauses[try])
}

// takeIn judges registrations, adopts the jobs whose registration the ledger may lack, and
// registers the new jobs.
func (s *Store) takeIn(ctx context.Context, c *call, intakes []*intake) error {
	judging, judged := errgroup.WithContext(ctx)
	judging.SetLimit(judges)
	for _, in := range intakes {
		judging.Go(func() error { return s.judge(judged, in) })
	}
	if err := judging.Wait(); err != nil {
		return err
	}
	taken := make([]*intake, 0, len(intakes))
	var adopted, same []*intake
	for _, in := range intakes {
		switch {
		case in.result.Outcome == store.Created:
			taken = append(taken, in)
		case in.inDoubt != "":
			adopted = append(adopted, in)
		case in.result.Outcome == store.Same:
			same = append(same, in)
		}
	}
	lacking, err := s.unwritten(ctx, same)
	if err != nil {
		return err
	}
	if err := s.adopt(c, append(adopted, lacking...)); err != nil {
		return err
	}
	return s.create(ctx, c, taken)
}

// judges is how many registrations are judged at a time: each costs a round trip.
const judges = 16

// judge decides the outcome of a registration. While the call holds the key, no other
// call of this process changes it.
func (s *Store) judge(ctx context.Context, in *intake) error {
	in.inDoubt = s.inDoubt.uid(in.reg.Key)
	old, err := s.inner.Get(ctx, in.reg.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		in.result = store.Registered{Outcome: store.Created}
		return nil
	case err != nil:
		return err
	}
	in.meet(old)
	return nil
}

// create registers new jobs.
func (s *Store) create(ctx context.Context, c *call, taken []*intake) error {
	if len(taken) == 0 {
		return nil
	}
	if err := s.accept(c, taken); err != nil {
		return err
	}
	taken = slices.DeleteFunc(taken, func(in *intake) bool { return in.refused })
	if len(taken) == 0 {
		return nil
	}
	regs := make([]store.Registration, len(taken))
	for i, in := range taken {
		regs[i] = in.reg
	}
	// A committed registration must reach the store, even if the caller leaves.
	results, err := s.inner.Register(context.WithoutCancel(ctx), regs)
	s.noteDoubt(taken, err != nil)
	if err != nil {
		return err
	}
	for i, in := range taken {
		in.result = results[i]
		if in.again = in.result.Outcome == store.Same && in.result.Job.UID == in.reg.UID; in.again {
			in.result.Outcome = store.Created
		}
	}
	return s.confirm(c, taken)
}

func (s *Store) noteDoubt(taken []*intake, is bool) {
	for _, in := range taken {
		s.inDoubt.set(in.reg.Key, in.reg.UID, is)
	}
}

// accept commits the registrations whose key is free. If a registration replaces an
// unfinished job, the store gets it first: two unfinished messages of one key would not
// show which was acknowledged.
func (s *Store) accept(c *call, taken []*intake) error {
	if err := s.owing(); err != nil {
		return err
	}
	now := job.InstantOf(s.o.Clock.Now())
	fresh, bytes := make([]*intake, 0, len(taken)), int64(0)
	for _, in := range taken {
		if !in.replaces {
			in.prepare(now)
			fresh, bytes = append(fresh, in), bytes+in.message.size()
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	err := c.commit(write{rows: 3 * len(fresh), bytes: bytes, add: func(g *group) {
		for _, in := range fresh {
			in.accept(g)
		}
	}})
	if outcomeUnknown(err) {
		s.noteDoubt(fresh, true)
	}
	return err
}

// confirm writes the results of registrations. It waits for the commit if one must.
func (s *Store) confirm(c *call, taken []*intake) error {
	now := job.InstantOf(s.o.Clock.Now())
	wait := false
	w := write{rows: len(taken), owed: true, add: func(g *group) {
		for _, in := range taken {
			in.confirm(g, now)
		}
	}}
	for _, in := range taken {
		wait = in.answered(now) || wait
		w.bytes += in.message.size()
	}
	if !wait {
		s.committer.enqueue(c.entry(w))
		return nil
	}
	return c.commit(w)
}

// adopt writes jobs that have the keys of registrations. The ledger may lack them,
// because the answer of an earlier registration was lost.
func (s *Store) adopt(c *call, adopted []*intake) error {
	if len(adopted) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	w := write{rows: 2 * len(adopted), add: func(g *group) {
		for _, in := range adopted {
			in.adopt(g, now)
		}
	}}
	for _, in := range adopted {
		in.message = newMessage(*in.old, now)
		w.bytes += in.message.size()
	}
	err := c.commit(w)
	if err == nil {
		s.noteDoubt(adopted, false)
	}
	return err
}

// unwritten returns the registrations whose job the ledger lacks. The first answer was lost, and
// this one acknowledges the job: its node may have died after the store replaced another job by it.
func (s *Store) unwritten(ctx context.Context, same []*intake) (lacking []*intake, err error) {
	if len(same) == 0 {
		return nil, nil
	}
	keys, standings := make([]job.Key, len(same)), make([]store.Standing, len(same))
	for i, in := range same {
		keys[i], standings[i] = in.reg.Key, store.StandingOf(in.old)
	}
	own, _, err := s.entries(ctx, keys, standings)
	for i, in := range same {
		if err == nil && (own[i] == nil || own[i].confirmed == unconfirmed && !own[i].open) {
			lacking = append(lacking, in)
		}
	}
	return lacking, err
}

// maxInDoubt bounds the registrations in doubt of a node, to a few MB.
const maxInDoubt = 10_000

// inDoubt are the registrations without a known outcome, by key: they may be committed,
// and the store may have them. Those beyond maxInDoubt are forgotten. Their repetitions are then
// answered as at another node: refused, until the reconciler has restored the job.
type inDoubt struct {
	mu   sync.Mutex
	uids map[job.Key]string
}

// uid returns the uid of the registration of key that is in doubt; empty for none.
func (d *inDoubt) uid(key job.Key) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uids[key]
}

// set notes whether the registration of a key is in doubt.
func (d *inDoubt) set(key job.Key, uid string, is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.uids, key)
	if !is {
		return
	}
	if d.uids == nil {
		d.uids = map[job.Key]string{}
	}
	for other := range d.uids {
		if len(d.uids) < maxInDoubt {
			break
		}
		delete(d.uids, other)
	}
	d.uids[key] = uid
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
		case r.Job.State.Final() && o.Now < r.Job.EndedAt.Add(s.o.StoreRetention):
			ended = append(ended, *r)
		}
	}
	n, err := s.restoreSpread(context.WithoutCancel(ctx), ended)
	s.metrics.add(store.RestoreReport{Restored: n})
	return err
}
