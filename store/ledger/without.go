package ledger

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// takeInWithout registers new jobs in the store alone: the journal cannot be
// written, and hears of them when it can. What was tried to be committed before
// may be in the journal or not.
func (s *Store) takeInWithout(ctx context.Context, c *call, taken []*intake) error {
	regs := make([]store.Registration, len(taken))
	for i, in := range taken {
		regs[i], in.insertion = in.reg, nil
	}
	stored, err := s.inner.Register(context.WithoutCancel(ctx), regs)
	if err != nil {
		s.setUnsure(taken, true)
		return err
	}
	s.setUnsure(taken, false)
	now := job.InstantOf(s.o.Clock.Now())
	created := 0
	for i, in := range taken {
		if in.result = stored[i]; in.result.Outcome.Refused() {
			continue
		}
		in.message = newMessage(in.result.Job, now)
		in.overEnded(in.old != nil && in.old.State.Final())
		if in.result.Outcome == store.Created {
			created++
		}
	}
	s.metrics.accepted.Add(float64(created))
	c.journal(rowsPerRegistration*len(taken), int(sizeOf(taken)), func(g *group) {
		for _, in := range taken {
			in.tookWithout(g, now)
		}
	})
	return nil
}

// tookWithout writes what the store made of a registration, whatever the
// journal has of it.
func (in *intake) tookWithout(g *group, now job.Instant) {
	in.settleUnsure(g, now)
	if in.result.Outcome.Refused() {
		return
	}
	if in.result.Outcome.Held() { // another process was faster
		g.holds(&in.message)
		return
	}
	if in.ended != nil {
		g.ended(in.ended)
	}
	if in.old != nil && (!in.old.State.Final() || in.old.State == job.Dead) {
		g.replace(in.reg.Key, in.old, now)
	}
	g.taken(&in.message, in.old)
}

// adoptWithout is adopt for when the journal cannot be written.
func (s *Store) adoptWithout(c *call, adopted []*intake) {
	now := job.InstantOf(s.o.Clock.Now())
	c.journal(2*len(adopted), int(sizeOf(adopted)), func(g *group) {
		for _, in := range adopted {
			in.settleUnsure(g, now)
			g.holds(&in.message)
		}
	})
	s.setUnsure(adopted, false)
}
