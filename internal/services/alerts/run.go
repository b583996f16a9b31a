package alerts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// leaseRounds is the lease of the leader, which evaluates, in rounds.
	leaseRounds = 3
	// idleRounds is for how many rounds nobody looks for rules while there are none:
	// who makes one announces it, which may get lost.
	idleRounds = 6
	// lossNoticed is how late it may be known that the store has lost jobs: it is
	// looked at every two seconds, by a node that another one replaces after ten.
	lossNoticed = 15 * time.Second
	callTimeout = 10 * time.Second
)

// Run counts, and evaluates as long as no other node does, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	group, counting := errgroup.WithContext(ctx)
	group.Go(func() error { return m.counts.Run(counting) })
	for {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := m.round(limited)
		cancel()
		if err != nil {
			m.outage.Note(ctx, err)
		} else {
			m.outage.Worked()
		}
		if job.Sleep(ctx, m.clock, m.every) != nil {
			break
		}
	}
	if !m.alone {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		m.leader.Resign(limited)
	}
	return group.Wait()
}

// round is one look at the rules, and an evaluation if it is this node's turn.
func (m *Manager) round(ctx context.Context) error {
	thresholds := m.topics != nil && len(m.topics.KnownThresholds()) > 0
	if !m.counts.heard.Swap(false) && m.idle > 0 && !thresholds {
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
	if rules, err = m.withTopics(ctx, rules, books); err != nil {
		return err
	}
	m.counts.want(longestWindow(rules))
	m.show(rules, books)
	if len(rules)+len(books) == 0 {
		m.idle = idleRounds - 1
		return nil
	}
	if mine, err := m.lead(ctx); err != nil || !mine {
		return err
	}
	if err := m.evaluate(ctx, rules, books); err != nil {
		return err
	}
	m.show(rules, books)
	return nil
}

// withTopics adds the rules of topics as this node knows them. It may not know
// of some yet, whose alerts must not be resolved for that: then the store is
// asked.
func (m *Manager) withTopics(ctx context.Context, stored []Rule, books map[string]*storedBook) ([]Rule, error) {
	if m.topics == nil {
		return stored, nil
	}
	rules := m.ofTopics(ctx, m.topics.KnownThresholds())
	known := make(map[string]bool, len(rules))
	for i := range rules {
		known[rules[i].Name] = true
	}
	for name := range books {
		if TopicOf(name) == "" || known[name] || known[TopicOf(name)+separator] {
			continue
		}
		thresholds, err := m.topics.Thresholds(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the thresholds of topics: %w", err)
		}
		rules = m.ofTopics(ctx, thresholds)
		break
	}
	return append(stored, rules...), nil
}

func longestWindow(rules []Rule) (longest time.Duration) {
	for i := range rules {
		longest = max(longest, rules[i].Window)
	}
	return longest
}

// lead reports whether this node is to evaluate. That two do is no harm, only
// work: neither can write what the other has.
func (m *Manager) lead(ctx context.Context) (bool, error) {
	if m.alone {
		return true, nil
	}
	return m.leader.Lead(ctx)
}

// evaluate brings all books up to date. What goes wrong with one rule does not
// hold up the others.
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
			b = &storedBook{Name: rule.Name, Value: book{Rule: rule.Name}}
			books[rule.Name] = b
		}
		if m.journal != nil && !rule.counts() {
			rule.KeepFiring = max(rule.KeepFiring, lossNoticed)
		}
		v, complete := r.of(rule)
		failed = errors.Join(failed, m.turn(ctx, b, b.Value.step(rule, v, complete, r.now)))
	}
	named := make(map[string]bool, len(rules))
	for i := range rules {
		named[rules[i].Name] = true
	}
	for name, b := range books {
		if topic := TopicOf(name); !named[name] && (topic == "" || !named[topic+separator]) {
			failed = errors.Join(failed, m.close(ctx, b, r.now))
		}
	}
	return failed
}

// turn writes a book that changed, and registers its webhooks. If another node
// was faster, that one goes on with it.
func (m *Manager) turn(ctx context.Context, stored *storedBook, changed bool) error {
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
	registered, err := m.jobs.RegisterOwn(ctx, regs)
	if err != nil {
		return fmt.Errorf("register webhooks of alerts: %w", err)
	}
	for i := range registered {
		switch registered[i].Outcome {
		case store.Created, store.Same, store.Kept, store.DeadLetter:
		case store.StoreFull:
			return fmt.Errorf("register webhooks of alerts: %w", store.ErrFull)
		default: // they are kept, and tried again
			return fmt.Errorf("the topic %s takes no webhook in", Topic)
		}
	}
	for i := range b.Notices {
		n := &b.Notices[i]
		m.log.WarnContext(ctx, "alert", "rule", n.Rule, "status", string(n.Status), "alert", n.Alert)
	}
	b.Notices = nil
	if err := m.bookDocs.Put(ctx, stored); !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}

// close resolves what a rule leaves behind that was deleted.
func (m *Manager) close(ctx context.Context, stored *storedBook, now job.Instant) error {
	changed := len(stored.Value.Alerts) > 0
	stored.Value.end(now)
	if err := m.turn(ctx, stored, changed); err != nil {
		return err
	}
	err := m.bookDocs.Delete(ctx, stored)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}
