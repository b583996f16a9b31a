package journal

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// rowsPerRegistration is how many rows a registration writes: message, payload, flow,
// and the confirmation. One that replaces another writes as many.
const rowsPerRegistration = 4

// Intake is a registration in progress.
type Intake struct {
	Reg     store.Registration
	Result  store.Registered
	Old     *job.Job // has the key; nil: the key is free
	InDoubt string   // uid of an earlier registration without a known outcome
	// Replaces: Old is unfinished, so only the store can decide.
	Replaces bool
	Message  Message
	// Of is Message in the journal, which gets it before the store. Nil: the store gets it
	// first, or nobody knows whether the journal has it.
	Of      *Target
	Refused bool // set by the rules: Message is not added
	Without bool // the store got it although the journal failed
	// Again: a Renew with the same uid was faster. Its job is that of this registration.
	Again bool
}

func (in *Intake) intake() *Intake { return in }

// Meet decides the outcome if old has the key.
func (in *Intake) Meet(old job.Job) {
	in.Result = store.Registered{Outcome: rules.Against(&in.Reg, &old), Job: old}
	in.Old, in.Replaces = &old, !old.State.Final()
}

// Register writes jobs to the journal, then to the store. While commits fail it refuses,
// unless the store continues without the journal.
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
	keys := make([]job.Key, len(round))
	for i, n := range round {
		keys[i] = regs[n].Key
	}
	c, err := s.begin(ctx, true, rowsPerRegistration*len(round), keys...)
	if err != nil {
		return err
	}
	defer c.End()
	intakes := s.sharing.New(regs, round)
	for try := 0; len(round) > 0; try++ {
		if err := s.takeIn(ctx, c, intakes); err != nil {
			return err
		}
		var again []int
		var refused []Steps
		for i, n := range round {
			in := intakes[i].intake()
			if results[n] = in.Result; in.Again {
				results[n].Outcome = store.Same
			}
			if in.Refused {
				again, refused = append(again, n), append(refused, intakes[i])
			}
		}
		if round = again; len(round) > 0 {
			if intakes, err = s.sharing.Again(ctx, refused, try); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeIn judges registrations, adopts the jobs whose registration is in doubt, and
// registers the new jobs.
func (s *Store) takeIn(ctx context.Context, c *Call, intakes []Steps) error {
	if err := s.judgeAll(ctx, intakes); err != nil {
		return err
	}
	taken, adopted := make([]Steps, 0, len(intakes)), []Steps(nil)
	for _, in := range intakes {
		switch i := in.intake(); {
		case i.Result.Outcome == store.Created:
			taken = append(taken, in)
		case i.InDoubt != "":
			adopted = append(adopted, in)
		}
	}
	if err := s.adopt(c, adopted); err != nil {
		return err
	}
	return s.create(ctx, c, taken)
}

// judges is how many registrations of a shared store are judged at a time: each costs a
// round trip.
const judges = 16

func (s *Store) judgeAll(ctx context.Context, intakes []Steps) error {
	if !s.shared() {
		for _, in := range intakes {
			if err := s.judge(ctx, in.intake()); err != nil {
				return err
			}
		}
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(judges)
	for _, in := range intakes {
		group.Go(func() error { return s.judge(ctx, in.intake()) })
	}
	return group.Wait()
}

// judge decides the outcome of a registration. While the call holds the key, no other
// call of this process changes it.
func (s *Store) judge(ctx context.Context, in *Intake) error {
	in.InDoubt = s.inDoubt.uid(in.Reg.Key)
	old, err := s.Inner.Get(ctx, in.Reg.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		in.Result = store.Registered{Outcome: store.Created}
		return nil
	case err != nil:
		return err
	}
	in.Meet(old)
	return nil
}

// create registers new jobs.
func (s *Store) create(ctx context.Context, c *Call, taken []Steps) error {
	if len(taken) == 0 {
		return nil
	}
	err := s.accept(c, taken)
	without := s.sharing.Without(err)
	if err != nil && !without {
		return err
	}
	regs := make([]store.Registration, 0, len(taken))
	taken = slices.DeleteFunc(taken, func(step Steps) bool {
		in := step.intake()
		if in.Without = without; without {
			in.Of, in.Refused = nil, false
		}
		if !in.Refused {
			regs = append(regs, in.Reg)
		}
		return in.Refused
	})
	if len(taken) == 0 {
		return nil
	}
	// A committed registration must reach the store, even if the caller leaves.
	stored, err := s.Inner.Register(context.WithoutCancel(ctx), regs)
	s.noteDoubt(taken, err != nil)
	if err != nil {
		return err
	}
	created := 0
	for i, step := range taken {
		in := step.intake()
		in.Result = stored[i]
		if in.Again = stored[i].Outcome == store.Same && stored[i].Job.UID == in.Reg.UID; in.Again {
			in.Result.Outcome = store.Created
		}
		if in.Result.Outcome == store.Created {
			created++
		}
	}
	if without {
		s.sharing.AcceptedWithout(created)
	}
	return s.confirm(c, taken, without)
}

func (s *Store) noteDoubt(taken []Steps, is bool) {
	for _, in := range taken {
		s.inDoubt.set(in.intake().Reg.Key, in.intake().Reg.UID, is)
	}
}

// accept commits the registrations whose key is free. If a registration replaces an
// unfinished job, the store gets it first: two unfinished messages of one key would not
// show which was acknowledged.
func (s *Store) accept(c *Call, taken []Steps) error {
	if err := s.Owing(); err != nil {
		return err
	}
	now := job.InstantOf(s.o.Clock.Now())
	fresh, bytes := make([]Steps, 0, len(taken)), int64(0)
	for _, in := range taken {
		if !in.intake().Replaces {
			in.Prepare(now)
			fresh, bytes = append(fresh, in), bytes+in.intake().Message.Size()
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	err := c.Commit(Write{Rows: 3 * len(fresh), Bytes: bytes, Add: func(g *Group) {
		for _, in := range fresh {
			in.Accept(g)
		}
	}})
	if outcomeUnknown(err) {
		s.noteDoubt(fresh, true)
	}
	return err
}

// confirm writes the results of registrations. It waits for the commit if the journal
// differs from the answer.
func (s *Store) confirm(c *Call, taken []Steps, without bool) error {
	now := job.InstantOf(s.o.Clock.Now())
	wait := false
	var changed []Steps
	w := Write{Owed: true, Add: func(g *Group) {
		for _, in := range changed {
			in.Confirm(g, now)
		}
	}}
	for _, step := range taken {
		write, must := step.Answered(now)
		if !write {
			continue
		}
		in := step.intake()
		changed, wait = append(changed, step), wait || must || in.Replaces == (in.Result.Outcome == store.Created)
		w.Bytes += in.Message.Size()
	}
	w.Rows = len(changed)
	switch {
	case len(changed) == 0:
		return nil
	case without:
		w.Rows *= rowsPerRegistration
		s.sharing.Owe(c, w)
		return nil
	case !wait:
		c.Enqueue(w)
		return nil
	}
	err := c.Commit(w)
	if s.sharing.Without(err) {
		s.sharing.AcceptedWithout(len(changed))
		return nil
	}
	return err
}

// adopt writes jobs that have the keys of registrations. The journal may lack them,
// because the answer of an earlier registration was lost.
func (s *Store) adopt(c *Call, adopted []Steps) error {
	if len(adopted) == 0 {
		return nil
	}
	now := job.InstantOf(s.o.Clock.Now())
	w := Write{Rows: 2 * len(adopted), Add: func(g *Group) {
		for _, in := range adopted {
			in.Adopt(g, now)
		}
	}}
	for _, step := range adopted {
		in := step.intake()
		in.Message = NewMessage(*in.Old, now)
		w.Bytes += in.Message.Size()
	}
	err := c.Commit(w)
	if s.sharing.Without(err) {
		for _, in := range adopted {
			in.intake().Without = true
		}
		w.Owed, err = true, nil
		s.sharing.Owe(c, w)
	}
	if err == nil {
		s.noteDoubt(adopted, false)
	}
	return err
}

// inDoubt are the registrations without a known outcome, by key: they may be committed,
// and the store may have them.
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
	switch {
	case !is:
		delete(d.uids, key)
	case d.uids == nil:
		d.uids = map[job.Key]string{key: uid}
	default:
		d.uids[key] = uid
	}
}
