package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// headStart is how much later than it should be a job of a shared store is due
// if that is lost, and the process died between the commit of its registration
// and that of the times which the store gave it, a moment later. A job must not
// come before its time, and how long the first commit will take is not known when
// its rows are made. A store of this process alone is told the time.
const headStart = 2 * time.Second

// rowsPerRegistration: message, payload, flow, and the confirmation. One that
// replaces another writes as many.
const rowsPerRegistration = 4

// Register takes jobs in: journal, store, answer. While the journal cannot be
// written it refuses, unless it may do without.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	results := make([]store.Registered, len(regs))
	for _, round := range store.KeysApart(regs) {
		if err := s.registerRound(ctx, regs, round, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Store) registerRound(ctx context.Context, regs []store.Registration, round []int, results []store.Registered) error {
	keys := make([]job.Key, len(round))
	for i, n := range round {
		keys[i] = regs[n].Key
	}
	c, err := s.beginAccepting(ctx, rowsPerRegistration*len(round), keys...)
	if err != nil {
		return err
	}
	defer c.end()
	recalled := map[job.Key]bool{}
	for try := 0; len(round) > 0; try++ {
		intakes, err := s.judgeAll(ctx, regs, round)
		if err != nil {
			return err
		}
		var taken, adopted []*intake
		for _, in := range intakes {
			if in.reg.Repeats() && in.old == nil && !recalled[in.reg.Key] {
				in.asks = s.keptSince()
			}
			switch {
			case in.result.Outcome == store.Created:
				taken = append(taken, in)
			case in.unsure != "":
				adopted = append(adopted, in)
			}
		}
		if err := s.adopt(c, adopted); err != nil {
			return err
		}
		if err := s.takeIn(ctx, c, taken); err != nil {
			return err
		}
		var again []int
		for i, n := range round {
			results[n] = intakes[i].result
			if in := intakes[i].insertion; in != nil && in.conflict {
				again = append(again, n)
			}
		}
		round = again
		if err := s.recall(ctx, intakes, recalled); err != nil {
			return err
		}
		if err := s.conflicted(ctx, regs, round, try); err != nil {
			return err
		}
	}
	return nil
}

// conflictPauses are how long another node's registration or settlement of the
// same key is waited for, of which either the store or the journal does not
// know yet.
var conflictPauses = []time.Duration{
	5 * time.Millisecond, 20 * time.Millisecond, 75 * time.Millisecond, 200 * time.Millisecond, 700 * time.Millisecond,
}

// conflicted waits before the registrations of round are judged again.
func (s *Store) conflicted(ctx context.Context, regs []store.Registration, round []int, try int) error {
	if len(round) == 0 {
		return nil
	}
	if try == len(conflictPauses) {
		return fmt.Errorf("%w: the journal has a job %s that the store lacks", store.ErrUnavailable, regs[round[0]].Key)
	}
	return job.Sleep(ctx, s.o.Clock, conflictPauses[try])
}

// judges is how many registrations are judged at a time by a store that is a
// round trip away.
const judges = 16

func (s *Store) judgeAll(ctx context.Context, regs []store.Registration, round []int) ([]*intake, error) {
	intakes := make([]*intake, len(round))
	if !s.o.Shared {
		for i, n := range round {
			var err error
			if intakes[i], err = s.judge(ctx, regs[n]); err != nil {
				return nil, err
			}
		}
		return intakes, nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(judges)
	for i, n := range round {
		group.Go(func() (err error) {
			intakes[i], err = s.judge(ctx, regs[n])
			return err
		})
	}
	return intakes, group.Wait()
}

// judge decides what becomes of a registration. Nobody else in this process
// can change that while the call holds the key.
func (s *Store) judge(ctx context.Context, reg store.Registration) (*intake, error) {
	in := &intake{reg: reg, unsure: s.isUnsure(reg.Key)}
	old, err := s.inner.Get(ctx, reg.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		in.result = store.Registered{Outcome: store.Created}
		return in, nil
	case err != nil:
		return nil, err
	}
	in.meets(&old)
	return in, nil
}

// takeIn registers new jobs.
func (s *Store) takeIn(ctx context.Context, c *call, taken []*intake) error {
	if len(taken) == 0 {
		return nil
	}
	if err := s.accept(c, taken); s.doWithout(err) {
		return s.takeInWithout(ctx, c, taken)
	} else if err != nil {
		return err
	}
	taken = slices.DeleteFunc(slices.Clone(taken), func(in *intake) bool { return in.insertion != nil && in.insertion.conflict })
	if len(taken) == 0 {
		return nil
	}
	regs := make([]store.Registration, len(taken))
	for i, in := range taken {
		regs[i] = in.reg
	}
	// What is committed must reach the store, whatever the caller does.
	stored, err := s.inner.Register(context.WithoutCancel(ctx), regs)
	if err != nil {
		s.setUnsure(taken, true)
		return err
	}
	s.setUnsure(taken, false)
	for i, in := range taken {
		in.result = stored[i]
	}
	taken = slices.DeleteFunc(taken, (*intake).asExpected)
	return s.confirm(c, taken)
}

// accept commits the registrations whose key is free. Those that replace an
// unfinished job come to the store first: two unfinished messages of one key
// would not tell which of them was answered for.
func (s *Store) accept(c *call, taken []*intake) error {
	if s.o.Shared {
		if err := s.committer.owing(); err != nil {
			return err
		}
	}
	now := job.InstantOf(s.o.Clock.Now())
	var fresh []*intake
	for _, in := range taken {
		if in.replaces {
			if err := s.committer.owing(); err != nil {
				return err
			}
			continue
		}
		in.prepare(s.o.Shared, now)
		fresh = append(fresh, in)
	}
	if len(fresh) == 0 {
		return nil
	}
	err := s.committer.commit(&entry{rows: c.take(3 * len(fresh)), bytes: sizeOf(fresh), add: func(g *group) {
		for _, in := range fresh {
			in.accept(g)
		}
	}})
	if unknown := (*commitError)(nil); errors.As(err, &unknown) {
		s.setUnsure(fresh, true)
	}
	return err
}

func sizeOf(taken []*intake) int64 {
	var n int64
	for _, in := range taken {
		n += in.message.size()
	}
	return n
}

// confirm writes what the store made of registrations. It waits for the commit
// if the journal says something else than the answer will.
func (s *Store) confirm(c *call, taken []*intake) error {
	if len(taken) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	wait := false
	for _, in := range taken {
		contested := in.answered(s.o.Shared, now)
		wait = wait || contested || in.replaces == (in.result.Outcome == store.Created)
	}
	e := &entry{rows: c.take(len(taken)), bytes: sizeOf(taken), owed: true, add: func(g *group) {
		for _, in := range taken {
			in.confirm(g, now)
		}
	}}
	if !wait {
		s.committer.enqueue(e)
		return nil
	}
	err := s.committer.commit(e)
	if s.doWithout(err) {
		s.metrics.accepted.Add(float64(len(taken)))
		return nil
	}
	return err
}

// adopt writes jobs that hold the keys of registrations and of which the
// journal may not know, because the store's answer was lost.
func (s *Store) adopt(c *call, adopted []*intake) error {
	if len(adopted) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	for _, in := range adopted {
		in.message = newMessage(*in.old, now)
	}
	err := s.committer.commit(&entry{rows: c.take(2 * len(adopted)), add: func(g *group) {
		for _, in := range adopted {
			in.settleUnsure(g, now)
			// Another node may have written what became of it since it was looked up.
			g.rewritten(&in.message).holds = true
		}
	}})
	switch {
	case err == nil:
		s.setUnsure(adopted, false)
	case s.doWithout(err):
		s.adoptWithout(c, adopted)
		return nil
	}
	return err
}

// isUnsure gives the uid of a registration that got no answer, or nothing.
func (s *Store) isUnsure(key job.Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsure[key]
}

func (s *Store) setUnsure(taken []*intake, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range taken {
		if unsure {
			s.unsure[in.reg.Key] = in.reg.UID
		} else {
			delete(s.unsure, in.reg.Key)
		}
	}
}
