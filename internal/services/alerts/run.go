package alerts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/store"
)

const (
	// leaseRounds is the lease of the leader, which evaluates, in rounds.
	leaseRounds = 3
	// idleRounds is how many rounds pass without a look for rules while there are none.
	// New rules are announced, but messages may get lost.
	idleRounds  = 6
	callTimeout = 10 * time.Second
)

// Run counts, and evaluates while this node leads, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	group, counting := errgroup.WithContext(ctx)
	group.Go(func() error { return m.o.Counts.Run(counting) })
	outage.New("evaluating alerts", m.o.Clock, m.o.Logger, nil).Repeat(ctx, outage.Task{Every: m.o.Every, Limit: callTimeout, Do: m.round})
	m.leader.Resign(ctx)
	return group.Wait()
}

// round reads the rules, and evaluates them if this node leads.
func (m *Manager) round(ctx context.Context) error {
	if !m.o.Counts.heard.Swap(false) && m.idle > 0 {
		m.idle--
		return nil
	}
	m.idle = 0
	rules, err := m.stored(ctx)
	if err != nil {
		return err
	}
	books, err := m.books(ctx)
	if err != nil {
		return err
	}
	m.o.Counts.want(longestWindow(rules))
	m.show(rules, books)
	if len(rules)+len(books) == 0 {
		m.idle = idleRounds - 1
		return nil
	}
	// Two evaluating nodes do no harm: neither can overwrite the other's documents.
	if leads, err := m.leader.Lead(ctx); err != nil || !leads {
		return err
	}
	if err := m.evaluate(ctx, rules, books); err != nil {
		return err
	}
	m.show(rules, books)
	return nil
}

func longestWindow(rules []Rule) (longest time.Duration) {
	for i := range rules {
		longest = max(longest, rules[i].Window)
	}
	return longest
}

// evaluate updates all books. An error of one rule does not affect the others.
func (m *Manager) evaluate(ctx context.Context, rules []Rule, books map[string]*storedBook) error {
	r, err := m.read(ctx, rules)
	if err != nil {
		return err
	}
	var failed error
	for i := range rules {
		rule := &rules[i]
		if rule.Newer {
			continue
		}
		b := books[rule.Name]
		if b == nil {
			b = &storedBook{Head: documents.Head{Name: rule.Name}, Value: book{Rule: rule.Name}}
			books[rule.Name] = b
		}
		v, complete := r.of(rule)
		failed = errors.Join(failed, m.save(ctx, b, b.Value.step(rule, v, complete, r.now)))
	}
	named := make(map[string]bool, len(rules))
	for i := range rules {
		named[rules[i].Name] = true
	}
	for name, b := range books {
		if !named[name] {
			failed = errors.Join(failed, m.close(ctx, b, r.now))
		}
	}
	return failed
}

// save writes a changed book and registers its webhooks. If another node was faster, that
// node continues.
func (m *Manager) save(ctx context.Context, stored *storedBook, changed bool) error {
	b := &stored.Value
	if changed {
		if err := m.bookDocs.Put(ctx, stored); errors.Is(err, store.ErrConflict) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if len(b.Notices) == 0 {
		return nil
	}
	regs := make([]store.Registration, len(b.Notices))
	for i := range b.Notices {
		regs[i] = b.Notices[i].registration()
	}
	registered, err := m.o.Jobs.RegisterOwn(ctx, regs)
	if err != nil {
		return fmt.Errorf("register webhooks of alerts: %w", err)
	}
	for i := range registered {
		switch registered[i].Outcome {
		case store.Created, store.Same, store.Kept, store.DeadLetter:
		case store.StoreFull:
			return fmt.Errorf("register webhooks of alerts: %w", store.ErrFull)
		default: // they stay, and are tried again
			return fmt.Errorf("the topic %s accepts no webhook", Topic)
		}
	}
	for i := range b.Notices {
		n := &b.Notices[i]
		m.o.Logger.WarnContext(ctx, "alert", "rule", n.Rule, "status", string(n.Status), "alert", n.Alert)
	}
	b.Notices = nil
	if err := m.bookDocs.Put(ctx, stored); !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}

// close resolves the alerts of a deleted rule.
func (m *Manager) close(ctx context.Context, stored *storedBook, now job.Instant) error {
	changed := len(stored.Value.Alerts) > 0
	stored.Value.end(now)
	if err := m.save(ctx, stored, changed); err != nil {
		return err
	}
	err := m.bookDocs.Delete(ctx, stored)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}
