package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
	"github.com/duehook/duehook/store/rules"
)

var _ journal.Sharing = (*Store)(nil)

// Waits reports false while the journal cannot be written: claims and settlements do not
// depend on it. Calls of clients go on only with AcceptWithout.
func (s *Store) Waits(accepting bool) bool {
	return accepting && !s.o.AcceptWithout || s.Owing() == nil
}

// Owe hands over a change that the store has made. While commits fail nobody waits, so
// nothing else bounds what is held: without room it is dropped, and the next comparison
// writes it.
func (s *Store) Owe(c *journal.Call, w journal.Write) {
	if s.Broken() == nil {
		s.dropping.Store(false)
		c.Enqueue(w)
		return
	}
	if c.EnqueueBounded(w) {
		return
	}
	s.counts.dropped.Add(float64(w.Rows))
	if !s.dropping.Swap(true) {
		s.o.Logger.Error("the journal is too far behind: changes of jobs are not written to it until it is back")
	}
}

// Without reports whether the store may go on without the journal. A journal that
// another process has taken over is not down.
func (s *Store) Without(err error) bool {
	return s.o.AcceptWithout && errors.Is(err, store.ErrUnavailable) && !errors.Is(err, journal.ErrOvertaken)
}

// Followed adds a registration that the store made first.
func (s *Store) Followed(g *journal.Group, m *journal.Message, old *job.Job) {
	g.Rules().(*group).taken(m, old)
}

// AcceptedWithout counts registrations.
func (s *Store) AcceptedWithout(jobs int) { s.counts.accepted.Add(float64(jobs)) }

// New returns the registrations of one call.
func (s *Store) New(int) journal.Registering {
	return &registering{s: s, recalled: map[job.Key]bool{}}
}

// registering is the registrations of one call.
type registering struct {
	s        *Store
	recalled map[job.Key]bool // keys whose ended jobs were looked for in the journal
}

func (r *registering) New(reg store.Registration) journal.Steps {
	in := &intake{Intake: journal.Intake{Reg: reg}}
	if rules.Repeats(&reg) && !r.recalled[reg.Key] {
		in.asks = r.s.keptSince()
	}
	return in
}

// conflictPauses are how long a call waits for another node's registration or settlement
// of the same key, which either the store or the journal does not have yet.
var conflictPauses = []time.Duration{
	5 * time.Millisecond, 20 * time.Millisecond, 75 * time.Millisecond, 200 * time.Millisecond, 700 * time.Millisecond,
}

// Again restores ended jobs that the store has lost before their time, because clients
// seem to repeat their registrations: those must get that job, not another. Then it waits
// for other nodes.
func (r *registering) Again(ctx context.Context, refused []journal.Steps, try int) error {
	var seqs []int64
	for _, step := range refused {
		if in := step.(*intake); in.insertion.ended != 0 {
			seqs = append(seqs, in.insertion.ended)
			r.recalled[in.Reg.Key] = true
		}
	}
	err := r.s.Messages(ctx, seqs, func(messages []journal.Stored, bad []journal.Unreadable) error {
		r.s.ReportUnreadable(bad)
		return r.s.recallEnded(ctx, messages)
	})
	if err != nil {
		return err
	}
	if try == len(conflictPauses) {
		return fmt.Errorf("%w: the journal has a job %s that the store lacks", store.ErrUnavailable, refused[0].(*intake).Reg.Key)
	}
	return job.Sleep(ctx, r.s.o.Clock, conflictPauses[try])
}
