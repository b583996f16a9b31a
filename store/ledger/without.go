package ledger

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// takeInWithout registers new jobs in the store alone: the journal cannot be
// written, and hears of them when it can. What was tried to be committed before
// may be in the journal or not.
func (s *Store) takeInWithout(ctx context.Context, c *journal.Call, taken []*intake) error {
	regs := make([]store.Registration, len(taken))
	for i, in := range taken {
		regs[i], in.insertion = in.reg, nil
	}
	stored, err := s.Inner.Register(context.WithoutCancel(ctx), regs)
	if err != nil {
		s.noteDoubt(taken, true)
		return err
	}
	s.noteDoubt(taken, false)
	now := job.InstantOf(s.o.Clock.Now())
	created := 0
	for i, in := range taken {
		if in.result = stored[i]; in.result.Outcome.Refused() {
			continue
		}
		in.message = journal.NewMessage(in.result.Job, now)
		if in.old != nil && in.old.State.Final() {
			in.overEnded()
		}
		if in.result.Outcome == store.Created {
			created++
		}
	}
	s.counts.accepted.Add(float64(created))
	s.owe(c, journal.Write{Rows: journal.RowsPerRegistration * len(taken), Bytes: sizeOf(taken), Add: adding(func(g *group) {
		for _, in := range taken {
			in.tookWithout(g, now)
		}
	})})
	return nil
}

// tookWithout writes what the store made of a registration, whatever the
// journal has of it.
func (in *intake) tookWithout(g *group, now job.Instant) {
	in.settleDoubt(g, now)
	if in.result.Outcome.Refused() {
		return
	}
	if in.result.Outcome.Held() { // another process was faster
		g.held(&in.message)
		return
	}
	if in.ended != nil {
		g.ended(in.ended)
	}
	if in.old != nil && (!in.old.State.Final() || in.old.State == job.Dead) {
		g.Replace(in.reg.Key, in.old, now)
	}
	g.taken(&in.message, in.old)
}

// adoptWithout is adopt for when the journal cannot be written.
func (s *Store) adoptWithout(c *journal.Call, adopted []*intake) {
	now := job.InstantOf(s.o.Clock.Now())
	s.owe(c, journal.Write{Rows: 2 * len(adopted), Bytes: sizeOf(adopted), Add: adding(func(g *group) {
		for _, in := range adopted {
			in.settleDoubt(g, now)
			g.held(&in.message)
		}
	})})
	s.noteDoubt(adopted, false)
}
