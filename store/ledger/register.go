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
	"github.com/duehook/duehook/store/journal"
)

// headStart is how much later than it should be a job of a shared store is due
// if that is lost, and the process died between the commit of its registration
// and that of the times which the store gave it, a moment later. A job must not
// come before its time, and how long the first commit will take is not known when
// its rows are made.
const headStart = 2 * time.Second

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
	c, err := s.beginAccepting(ctx, journal.RowsPerRegistration*len(round), keys...)
	if err != nil {
		return err
	}
	defer c.End()
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
			case in.inDoubt != "":
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
			if in := intakes[i].insertion; in != nil && in.Refused {
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
	in := &intake{reg: reg, inDoubt: s.inDoubt.UID(reg.Key)}
	old, err := s.Inner.Get(ctx, reg.Key)
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
func (s *Store) takeIn(ctx context.Context, c *journal.Call, taken []*intake) error {
	if len(taken) == 0 {
		return nil
	}
	if err := s.accept(c, taken); s.doWithout(err) {
		return s.takeInWithout(ctx, c, taken)
	} else if err != nil {
		return err
	}
	taken = slices.DeleteFunc(slices.Clone(taken), func(in *intake) bool { return in.insertion != nil && in.insertion.Refused })
	if len(taken) == 0 {
		return nil
	}
	regs := make([]store.Registration, len(taken))
	for i, in := range taken {
		regs[i] = in.reg
	}
	// What is committed must reach the store, whatever the caller does.
	stored, err := s.Inner.Register(context.WithoutCancel(ctx), regs)
	if err != nil {
		s.noteDoubt(taken, true)
		return err
	}
	s.noteDoubt(taken, false)
	for i, in := range taken {
		in.result = stored[i]
	}
	return s.confirm(c, taken)
}

// accept commits the registrations whose key is free. Those that replace an
// unfinished job come to the store first: two unfinished messages of one key
// would not tell which of them was answered for.
func (s *Store) accept(c *journal.Call, taken []*intake) error {
	if err := s.Owing(); err != nil {
		return err
	}
	now := job.InstantOf(s.o.Clock.Now())
	var fresh []*intake
	for _, in := range taken {
		if !in.replaces {
			in.prepare(now)
			fresh = append(fresh, in)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	err := c.Commit(journal.Write{Rows: 3 * len(fresh), Bytes: sizeOf(fresh), Add: adding(func(g *group) {
		for _, in := range fresh {
			in.accept(g)
		}
	})})
	if journal.OutcomeUnknown(err) {
		s.noteDoubt(fresh, true)
	}
	return err
}

func sizeOf(taken []*intake) int64 {
	var n int64
	for _, in := range taken {
		n += in.message.Size()
	}
	return n
}

// confirm writes what the store made of registrations. It waits for the commit
// if the journal says something else than the answer will.
func (s *Store) confirm(c *journal.Call, taken []*intake) error {
	if len(taken) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	wait := false
	for _, in := range taken {
		contested := in.answered(now)
		wait = wait || contested || in.replaces == (in.result.Outcome == store.Created)
	}
	w := journal.Write{Rows: len(taken), Bytes: sizeOf(taken), Owed: true, Add: adding(func(g *group) {
		for _, in := range taken {
			in.confirm(g, now)
		}
	})}
	if !wait {
		c.Enqueue(w)
		return nil
	}
	err := c.Commit(w)
	if s.doWithout(err) {
		s.counts.accepted.Add(float64(len(taken)))
		return nil
	}
	return err
}

// adopt writes jobs that hold the keys of registrations and of which the
// journal may not know, because the store's answer was lost.
func (s *Store) adopt(c *journal.Call, adopted []*intake) error {
	if len(adopted) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	for _, in := range adopted {
		in.message = journal.NewMessage(*in.old, now)
	}
	err := c.Commit(journal.Write{Rows: 2 * len(adopted), Add: adding(func(g *group) {
		for _, in := range adopted {
			in.settleDoubt(g, now)
			// Another node may have written what became of it since it was looked up.
			g.rewritten(&in.message).holds = true
		}
	})})
	switch {
	case err == nil:
		s.noteDoubt(adopted, false)
	case s.doWithout(err):
		s.adoptWithout(c, adopted)
		return nil
	}
	return err
}

func (s *Store) noteDoubt(taken []*intake, is bool) {
	for _, in := range taken {
		s.inDoubt.Set(in.reg.Key, in.reg.UID, is)
	}
}
