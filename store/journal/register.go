package journal

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// RowsPerRegistration is how many rows a registration writes: message, payload, flow,
// and the confirmation. One that replaces another writes as many.
const RowsPerRegistration = 4

// intake is a registration in progress.
type intake struct {
	reg     store.Registration
	result  store.Registered
	old     *job.Job // holds the key, nil: nobody
	inDoubt string   // uid of an earlier registration without a known outcome
	// replaces an unfinished job: only the store can decide whether it may.
	replaces bool
	message  Message
	inserted *Insertion // of message; nil: the store gets it first
}

// Register takes jobs in: journal, store, answer. While commits fail it refuses.
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
	c, err := s.Begin(ctx, RowsPerRegistration*len(round), keys...)
	if err != nil {
		return err
	}
	defer c.End()
	intakes := make([]intake, len(round))
	var taken, adopted []*intake
	for i, n := range round {
		in := &intakes[i]
		in.reg = regs[n]
		if err := s.judge(ctx, in); err != nil {
			return err
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
	for i, n := range round {
		results[n] = intakes[i].result
	}
	return nil
}

// judge decides the outcome of a registration. Nobody else can change it while the
// call holds the key.
func (s *Store) judge(ctx context.Context, in *intake) error {
	in.inDoubt = s.inDoubt.UID(in.reg.Key)
	old, err := s.Inner.Get(ctx, in.reg.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		in.result = store.Registered{Outcome: store.Created}
		return nil
	case err != nil:
		return err
	}
	in.result = store.Registered{Outcome: in.reg.Against(&old), Job: old}
	in.old, in.replaces = &old, !old.State.Final()
	return nil
}

// takeIn registers new jobs.
func (s *Store) takeIn(ctx context.Context, c *Call, taken []*intake) error {
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
	stored, err := s.Inner.Register(context.WithoutCancel(ctx), regs)
	s.noteDoubt(taken, err != nil)
	if err != nil {
		return err
	}
	for i, in := range taken {
		in.result = stored[i]
	}
	return s.confirm(c, slices.DeleteFunc(taken, (*intake).asExpected))
}

func (s *Store) noteDoubt(taken []*intake, is bool) {
	for _, in := range taken {
		s.inDoubt.Set(in.reg.Key, in.reg.UID, is)
	}
}

// accept commits the registrations whose key is free. Those that replace an unfinished
// job come to the store first: of two unfinished messages of one key, nobody could tell
// which was acknowledged.
func (s *Store) accept(c *Call, taken []*intake) error {
	now := job.InstantOf(s.o.Clock.Now())
	var fresh []*intake
	var bytes int64
	for _, in := range taken {
		if in.replaces {
			if err := s.Owing(); err != nil {
				return err
			}
			continue
		}
		in.prepare(now)
		fresh, bytes = append(fresh, in), bytes+in.message.Size()
	}
	if len(fresh) == 0 {
		return nil
	}
	err := c.Commit(Write{Rows: 3 * len(fresh), Bytes: bytes, Add: func(g *Group) {
		for _, in := range fresh {
			in.accept(g)
		}
	}})
	if OutcomeUnknown(err) {
		s.noteDoubt(fresh, true)
	}
	return err
}

// prepare makes what is committed before the store gets the registration.
func (in *intake) prepare(now job.Instant) {
	in.reg.At = now
	var j job.Job
	if in.old == nil {
		j = in.reg.Job(now)
	} else {
		j = in.reg.Over(in.old, now)
		j.Token = in.old.Token
	}
	in.message = NewMessage(j, now)
	in.inserted = &Insertion{Message: &in.message, At: now}
}

// accept adds it.
func (in *intake) accept(g *Group) {
	if in.inDoubt != "" {
		g.replaceUID(in.reg.Key, in.inDoubt, in.inserted.At)
	}
	if in.old != nil && in.old.State == job.Dead {
		g.Replace(in.reg.Key, in.old, in.inserted.At)
	}
	g.Insert(in.inserted)
}

// asExpected reports whether the store made of the registration what is committed
// already.
func (in *intake) asExpected() bool {
	if in.inserted == nil || in.result.Outcome != store.Created {
		return false
	}
	want, got := &in.message.Job, &in.result.Job
	return got.CreatedAt == want.CreatedAt && got.DueAt == want.DueAt && got.ExpiresAt == want.ExpiresAt &&
		got.NextAt == want.NextAt && got.Token == want.Token && got.Version == want.Version
}

// confirm writes what the store made of registrations. It waits for the commit if the
// journal differs from the answer.
func (s *Store) confirm(c *Call, taken []*intake) error {
	if len(taken) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	wait := false
	e := Write{Rows: len(taken), Owed: true, Add: func(g *Group) {
		for _, in := range taken {
			in.confirm(g, now)
		}
	}}
	for _, in := range taken {
		created := in.result.Outcome == store.Created
		wait = wait || in.replaces == created
		switch {
		case created:
			in.message = NewMessage(in.result.Job, now)
		case !in.replaces && in.old != nil: // it had given way
			in.message = NewMessage(*in.old, now)
		}
		e.Bytes += in.message.Size()
	}
	if wait {
		return c.Commit(e)
	}
	c.Enqueue(e)
	return nil
}

func (in *intake) confirm(g *Group, now job.Instant) {
	switch created := in.result.Outcome == store.Created; {
	case created && in.replaces:
		g.Replace(in.reg.Key, in.old, now)
		g.PutNew(&in.message)
	case created:
		g.Restored(&in.message, nil)
	case !in.replaces:
		g.Drop(in.inserted.Of)
		if in.old != nil && in.old.State == job.Dead {
			g.Restored(&in.message, nil)
		}
	}
}

// adopt writes jobs that hold the keys of registrations and that the journal may not
// have: the answer of an earlier registration was lost.
func (s *Store) adopt(c *Call, adopted []*intake) error {
	if len(adopted) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	for _, in := range adopted {
		in.message = NewMessage(*in.old, now)
	}
	err := c.Commit(Write{Rows: 2 * len(adopted), Add: func(g *Group) {
		for _, in := range adopted {
			if in.inDoubt != in.old.UID {
				g.replaceUID(in.reg.Key, in.inDoubt, now)
			}
			g.Restored(&in.message, nil)
		}
	}})
	if err == nil {
		s.noteDoubt(adopted, false)
	}
	return err
}

// InDoubt are the registrations without a known outcome: they may be committed, and
// the store may have them.
type InDoubt struct {
	mu   sync.Mutex
	uids map[job.Key]string
}

// UID returns the uid of the registration of key that is in doubt, or nothing.
func (d *InDoubt) UID(key job.Key) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uids[key]
}

// Set notes a registration that is in doubt, or that its key is not any more.
func (d *InDoubt) Set(key job.Key, uid string, is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !is:
		delete(d.uids, key)
	case d.uids == nil:
		d.uids = map[job.Key]string{key: uid}
	default:
		d.uids[key] = uid
	}
}
