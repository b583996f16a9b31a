package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

const (
	// A worker writes the document of its operation every saveEvery.
	saveEvery = 500 * time.Millisecond
	// A node looks for operations without a worker every lookEvery while some run,
	// otherwise every idleLook. A message over the channel, which may get lost, makes it
	// look at once.
	lookEvery   = 3 * time.Second
	idleLook    = 30 * time.Second
	channel     = "operations"
	forgetEvery = time.Minute // interval of deleting old operations
	maxWorking  = 8           // operations in progress at a time
	callTimeout = 10 * time.Second
)

// Run works on operations until ctx ends. Then it writes their progress, so that
// another node continues at once.
func (m *Manager) Run(ctx context.Context) error {
	defer m.leader.Resign(ctx, channel)
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() {
		feed.Follow(ctx, m.store, channel, m.clock, m.log, func([]byte) { m.kick.Set() })
	})
	outage := loops.NewOutage("looking for operations", m.clock, m.log, nil)
	var forgot time.Time
	for ctx.Err() == nil {
		pause := lookEvery
		docs, err := m.docs.All(ctx)
		if err == nil {
			var some bool
			if some, err = m.take(ctx, docs, &workers); !some {
				pause = idleLook
			}
		}
		if err == nil {
			if m.clock.Now().Sub(forgot) >= forgetEvery {
				forgot = m.clock.Now()
				err = m.forget(ctx, docs)
			}
		}
		if err != nil {
			outage.Note(ctx, err)
		} else {
			outage.Worked()
		}
		m.kick.Wait(ctx, m.clock, pause)
	}
	return nil
}

// take starts to work on operations if this node is the elected one, and stops otherwise. It reports whether operations
// run. Their documents fence: a worker that does not know yet that another node is elected writes none.
func (m *Manager) take(ctx context.Context, docs []stored, workers *sync.WaitGroup) (some bool, err error) {
	running := slices.DeleteFunc(slices.Clone(docs), func(d stored) bool { return d.Err != nil || d.Value.State != Running })
	if len(running) == 0 {
		m.leader.Resign(ctx, channel)
		return false, nil
	}
	leads, err := m.leader.Lead(ctx, channel)
	if err != nil {
		return true, err
	}
	if !leads {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, stop := range m.working {
			stop()
		}
		return true, nil
	}
	for i := range running {
		if d := &running[i]; !m.busyWith(d.Name) {
			m.begin(ctx, *d, workers)
		}
	}
	return true, nil
}

// busyWith reports whether this node works on an operation, or can take no other.
func (m *Manager) busyWith(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.working[id] != nil || len(m.working) >= maxWorking
}

// begin starts a worker if no other node is faster.
func (m *Manager) begin(ctx context.Context, d stored, workers *sync.WaitGroup) {
	o := &d.Value
	from := o.Owner
	o.Owner = m.id
	if m.docs.Put(ctx, &d) != nil {
		return // another node has it, or the store is unavailable: the next look sees it
	}
	working, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	m.working[o.ID] = cancel
	m.mu.Unlock()
	m.log.Info("operation started on this node", "operation", o.ID, "action", string(o.Action), "taken_from", from)
	workers.Go(func() {
		defer func() {
			cancel()
			m.mu.Lock()
			delete(m.working, o.ID)
			m.mu.Unlock()
			m.kick.Set()
		}()
		newWorker(m, d).run(working)
	})
}

// forget deletes the documents of operations that ended long ago.
func (m *Manager) forget(ctx context.Context, docs []stored) error {
	if len(docs) == 0 {
		return nil
	}
	now, err := store.Now(ctx, m.store)
	if err != nil {
		return err
	}
	for i := range docs {
		o := &docs[i].Value
		if docs[i].Err != nil || o.State == Running || now.Sub(o.UpdatedAt) <= KeptFor {
			continue
		}
		err := m.docs.Delete(ctx, &docs[i])
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("delete operation %s: %w", o.ID, err)
		}
	}
	return nil
}
