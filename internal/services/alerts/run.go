package alerts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

const (
	task          = "alerts" // of the leader
	evaluateEvery = 5 * time.Second
)

// Run counts, and evaluates while this node leads, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	group, counting := errgroup.WithContext(ctx)
	group.Go(func() error { return m.o.Counts.Run(counting) })
	loops.NewOutage("evaluating alerts", m.o.Clock, m.o.Logger, nil).Repeat(ctx, loops.Task{Every: evaluateEvery, Limit: callTimeout, Do: m.round})
	m.o.Leader.Resign(ctx, task)
	return group.Wait()
}

// round reads the rules, and evaluates them if this node leads.
func (m *Manager) round(ctx context.Context) error {
	docs, err := m.rules.All(ctx)
	if err != nil {
		return err
	}
	m.firing.Reset()
	if len(docs) == 0 {
		m.o.Leader.Resign(ctx, task)
		return nil
	}
	// Two evaluating nodes do no harm: neither can overwrite the other's documents.
	if leads, err := m.o.Leader.Lead(ctx, task); err != nil || !leads {
		return err
	}
	return m.evaluate(ctx, docs)
}

// evaluate updates all rules. An error of one does not affect the others.
func (m *Manager) evaluate(ctx context.Context, docs []stored) error {
	now, err := store.Now(ctx, m.o.Store)
	if err != nil {
		return fmt.Errorf("ask for the store's time: %w", err)
	}
	var failed error
	figures := m.reading(ctx, docs)
	for i := range docs {
		d := &docs[i]
		if d.Err != nil {
			m.o.Logger.ErrorContext(ctx, "an alert rule cannot be read; its alerts do not change", "error", d.Err)
			continue
		}
		if err := m.apply(ctx, d, figures, now); err != nil && !errors.Is(err, store.ErrConflict) { // another node, or a client, was faster
			failed = errors.Join(failed, err)
		}
		if r := &d.Value; !r.Deleted {
			m.firing.WithLabelValues(r.Name).Set(float64(len(r.Alerts)))
		}
	}
	return failed
}

// apply applies the figures to a rule. It writes what changed, registers webhooks, and then writes that it did.
func (m *Manager) apply(ctx context.Context, d *stored, figures *reading, now job.Instant) error {
	r, changed := &d.Value, false
	if r.Deleted {
		r.end(now)
	} else {
		v, complete, err := figures.of(r)
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", r.Metric, err)
		}
		changed = r.step(v, complete, now)
	}
	if changed {
		if err := m.rules.Put(ctx, d); err != nil {
			return err
		}
	}
	if err := m.tell(ctx, r.webhooks()); err != nil {
		return err
	}
	told := r.told()
	switch {
	case r.Deleted:
		return m.rules.Delete(ctx, d)
	case told:
		return m.rules.Put(ctx, d)
	}
	return nil
}
