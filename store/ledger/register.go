package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// headStart is how much later than it should be a job is due if the process
// dies between the commit of its registration and that of the times which the
// store gave it, a moment later. A job must not come before its time, and how
// long the first commit will take is not known when its rows are made.
const headStart = 2 * time.Second

// rowsPerRegistration: message, payload, flow, and the confirmation. One that
// replaces another writes as many.
const rowsPerRegistration = 4

// Register takes jobs in: journal, store, answer.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	results := make([]store.Registered, len(regs))
	for _, round := range rounds(regs) {
		if err := s.registerRound(ctx, regs, round, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// rounds parts the indexes of regs so that no key comes twice in a part.
func rounds(regs []store.Registration) [][]int {
	var parts [][]int
	seen := make(map[job.Key]int, len(regs))
	for i := range regs {
		n := seen[regs[i].Key]
		seen[regs[i].Key]++
		if n == len(parts) {
			parts = append(parts, nil)
		}
		parts[n] = append(parts[n], i)
	}
	return parts
}

// intake is one registration on its way. It is no part of what the caller gets,
// who may have changed that when the last of it is written.
type intake struct {
	reg    store.Registration
	result store.Registered
	old    *job.Job // who holds the key, if anybody
	unsure bool     // an earlier registration got no answer from the store
	// replaces an unfinished job: only the store can tell whether it may.
	replaces bool

	message message
	seq     int64
}

func (s *Store) registerRound(ctx context.Context, regs []store.Registration, round []int, results []store.Registered) error {
	keys := make([]job.Key, len(round))
	for i, n := range round {
		keys[i] = regs[n].Key
	}
	c, err := s.begin(ctx, rowsPerRegistration*len(round), keys...)
	if err != nil {
		return err
	}
	defer c.end()
	intakes := make([]*intake, len(round))
	var taken, adopted []*intake
	for i, n := range round {
		in, err := s.judge(ctx, regs[n])
		switch {
		case err != nil:
			return err
		case in.result.Outcome == store.Created:
			taken = append(taken, in)
		case in.unsure:
			adopted = append(adopted, in)
		}
		intakes[i] = in
	}
	if err := s.adopt(c, adopted); err != nil {
		return err
	}
	if err := s.takeIn(ctx, c, taken); err != nil {
		return err
	}
	for i, n := range round {
		results[n] = intakes[i].result
	}
	return nil
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
	in.result = store.Registered{Outcome: reg.Against(&old), Job: old}
	in.old, in.replaces = &old, !old.State.Final()
	return in, nil
}

// takeIn registers new jobs.
func (s *Store) takeIn(ctx context.Context, c *call, taken []*intake) error {
	if len(taken) == 0 {
		return nil
	}
	if err := s.accept(c, taken); err != nil {
		return err
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
	return s.confirm(c, taken)
}

// accept commits the registrations whose key is free. Those that replace an
// unfinished job come to the store first: two unfinished messages of one key
// would not tell which of them was answered for.
func (s *Store) accept(c *call, taken []*intake) error {
	now := job.InstantOf(s.o.Clock.Now())
	var fresh []*intake
	for _, in := range taken {
		if in.replaces {
			if err := s.committer.owing(); err != nil {
				return err
			}
			continue
		}
		var err error
		if in.message, err = newMessage(in.reg.Job(now.Add(headStart)), now); err != nil {
			return err
		}
		fresh = append(fresh, in)
	}
	if len(fresh) == 0 {
		return nil
	}
	return s.committer.commit(&entry{rows: c.take(3 * len(fresh)), add: func(g *group) {
		for _, in := range fresh {
			if in.unsure || in.old != nil && in.old.State == job.Dead {
				g.replace(in.reg.Key, in.old, now)
			}
			in.seq = g.insert(&in.message, now)
		}
	}})
}

// confirm writes what the store made of registrations. It waits for the commit
// if the journal says something else than the answer will.
func (s *Store) confirm(c *call, taken []*intake) error {
	now := job.InstantOf(s.o.Clock.Now())
	wait := false
	for _, in := range taken {
		created := in.result.Outcome == store.Created
		if in.replaces && created {
			var err error
			if in.message, err = newMessage(in.result.Job, now); err != nil {
				return err
			}
		}
		wait = wait || in.replaces == created
	}
	e := &entry{rows: c.take(len(taken)), owed: true, add: func(g *group) {
		for _, in := range taken {
			in.confirm(g, now)
		}
	}}
	if wait {
		return s.committer.commit(e)
	}
	s.committer.enqueue(e)
	return nil
}

func (in *intake) confirm(g *group, now job.Instant) {
	switch created := in.result.Outcome == store.Created; {
	case created && in.replaces:
		g.replace(in.reg.Key, in.old, now)
		g.insert(&in.message, now)
	case created:
		g.confirm(in.seq, &in.result.Job)
	case !in.replaces: // another process was faster
		g.drops = append(g.drops, in.seq)
	}
}

// adopt writes jobs that hold the keys of registrations and of which the
// journal may not know, because the store's answer was lost.
func (s *Store) adopt(c *call, adopted []*intake) error {
	if len(adopted) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	for _, in := range adopted {
		var err error
		if in.message, err = newMessage(*in.old, now); err != nil {
			return err
		}
	}
	err := s.committer.commit(&entry{rows: c.take(2 * len(adopted)), add: func(g *group) {
		for _, in := range adopted {
			g.restored(&in.message, nil)
		}
	}})
	if err == nil {
		s.setUnsure(adopted, false)
	}
	return err
}

func (s *Store) isUnsure(key job.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.unsure[key]
	return ok
}

func (s *Store) setUnsure(taken []*intake, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range taken {
		if unsure {
			s.unsure[in.reg.Key] = struct{}{}
		} else {
			delete(s.unsure, in.reg.Key)
		}
	}
}
