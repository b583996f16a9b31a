package operations

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/follow"
	"github.com/duehook/duehook/internal/kit/leader"
	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/store"
)

const (
	// A worker writes the document of its operation every saveEvery. Another node takes
	// over an operation whose document did not change for leaseTime.
	leaseTime = 10 * time.Second
	saveEvery = 500 * time.Millisecond
	// A node looks for operations without a worker every lookEvery while some run,
	// otherwise every idleLook. A message over the channel, which may get lost, makes it
	// look at once.
	lookEvery   = 3 * time.Second
	idleLook    = 30 * time.Second
	channel     = "operations"
	forgetEvery = time.Minute // interval of deleting old operations
	maxWorking  = 8           // operations that a node works on at a time
	callTimeout = 10 * time.Second
)

// Run works on operations until ctx ends. Then it writes their progress, so that
// another node continues at once.
func (m *Manager) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() {
		follow.Channel(ctx, m.store, channel, m.clock, m.log, func([]byte) { m.kick.Set() })
	})
	heartbeats := leader.NewHeartbeats(m.clock, leaseTime)
	outage := outage.New("looking for operations", m.clock, m.log, nil)
	var forgot time.Time
	for ctx.Err() == nil {
		pause := lookEvery
		docs, err := m.docs.All(ctx)
		if err == nil {
			if m.take(ctx, docs, heartbeats.Expired(versions(docs)), &workers) == 0 {
				pause = idleLook
			}
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

func versions(docs []stored) map[string]uint64 {
	all := make(map[string]uint64, len(docs))
	for i := range docs {
		all[docs[i].Name] = docs[i].Version
	}
	return all
}

// take starts to work on operations without a worker, and returns how many have one
// or should.
func (m *Manager) take(ctx context.Context, docs []stored, expired map[string]bool, workers *sync.WaitGroup) (running int) {
	for i := range docs {
		d := &docs[i]
		if d.Err != nil || d.Value.State != Running {
			continue
		}
		running++
		if !m.busyWith(d.Name) && (d.Value.Owner == "" || expired[d.Name]) {
			m.begin(ctx, *d, workers)
		}
	}
	return running
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
