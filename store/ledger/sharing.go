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

// Owe queues a change that the store has made. While commits fail no caller waits, so the
// room alone bounds the queue: without room the change is dropped, and the next pass writes
// it.
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
		s.o.Logger.Error("the journal is too far behind: changes are not journaled until it catches up")
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

// New returns intakes.
func (s *Store) New(regs []store.Registration, which []int) []journal.Steps {
	list := make([]journal.Steps, len(which))
	for i, n := range which {
		in := &intake{Intake: journal.Intake{Reg: regs[n]}}
		if rules.Repeats(&in.Reg) {
			in.asks = s.keptSince()
		}
		list[i] = in
	}
	return list
}

// conflictPauses are how long a call waits for another node's registration or settlement
// of the same key, which either the store or the journal does not have yet.
var conflictPauses = []time.Duration{
	5 * time.Millisecond, 20 * time.Millisecond, 75 * time.Millisecond, 200 * time.Millisecond, 700 * time.Millisecond,
}

// Again restores ended jobs that the store has lost before their time, because clients
// seem to repeat their registrations: those must get that job, not another. Then it waits
// for other nodes.
func (s *Store) Again(ctx context.Context, refused []journal.Steps, try int) ([]journal.Steps, error) {
	next := make([]journal.Steps, len(refused))
	var seqs []int64
	for i, step := range refused {
		in := step.(*intake)
		again := &intake{Intake: journal.Intake{Reg: in.Reg}, asks: in.asks}
		if in.lost != 0 {
			seqs = append(seqs, in.lost)
			again.asks = 0
		}
		next[i] = again
	}
	err := s.Messages(ctx, seqs, func(messages []journal.Stored, bad []journal.Unreadable) error {
		s.ReportUnreadable(bad)
		return s.recallEnded(ctx, messages)
	})
	if err != nil {
		return nil, err
	}
	if try == len(conflictPauses) {
		return nil, fmt.Errorf("%w: the journal has a job %s that the store lacks", store.ErrUnavailable, refused[0].(*intake).Reg.Key)
	}
	return next, job.Sleep(ctx, s.o.Clock, conflictPauses[try])
}
