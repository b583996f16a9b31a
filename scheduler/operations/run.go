package operations

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/lease"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// leaseTime is how long a document may stay as it is before its operation is
	// taken over. Who works on it writes it every saveEvery.
	leaseTime = 10 * time.Second
	saveEvery = 500 * time.Millisecond
	// lookEvery is how often a node looks for operations to take on while some are
	// at work, and idleLook while none is: who begins one or gives one up says so
	// over the channel, which may get lost. sweepEvery is how often it looks for
	// those to forget.
	lookEvery  = 3 * time.Second
	idleLook   = 30 * time.Second
	channel    = "operations"
	sweepEvery = time.Minute
	// maxWorking is how many operations a node works on at a time.
	maxWorking = 8
	// outagePause is how long to wait before asking the store again.
	outagePause = time.Second
	callTimeout = 10 * time.Second
)

// Run works on operations until ctx ends. Then it writes down how far it has
// come, so that another node may go on at once.
func (m *Manager) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() {
		store.Follow(ctx, m.store, channel, func([]byte) { m.wake() },
			store.PauseBetween(m.clock, m.log, "operations that other nodes begin or give up"))
	})
	watch := lease.NewWatch(m.clock, leaseTime)
	var swept time.Time
	for ctx.Err() == nil {
		pause := lookEvery
		docs, err := m.store.ListDocuments(ctx, documentKind)
		if err == nil {
			if m.take(ctx, docs, watch.Lapsed(docs...), &workers) == 0 {
				pause = idleLook
			}
			if now := m.clock.Now(); now.Sub(swept) >= sweepEvery {
				swept = now
				m.sweep(ctx, docs)
			}
		}
		m.rest(ctx, pause)
	}
	return nil
}

// rest waits until there may be something to do, for pause at most.
func (m *Manager) rest(ctx context.Context, pause time.Duration) {
	timer := m.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-m.kick:
	}
}

// take begins to work on operations that nobody works on, and says how many are
// at work or should be.
func (m *Manager) take(ctx context.Context, docs []store.Document, lapsed map[string]bool, workers *sync.WaitGroup) (running int) {
	for _, d := range docs {
		o, err := decode(d)
		if err != nil || o.State != Running {
			continue
		}
		running++
		if m.busyWith(d.Name) {
			continue
		}
		if o.Owner != "" && !lapsed[d.Name] {
			continue
		}
		m.begin(ctx, o, d.Version, workers)
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
func (m *Manager) begin(ctx context.Context, o Operation, version uint64, workers *sync.WaitGroup) {
	from := o.Owner
	o.Owner = m.id
	doc, err := o.document(version)
	if err == nil {
		doc, err = m.store.PutDocument(ctx, doc)
	}
	if err != nil {
		return // another node has it, or the store is away: it will be seen again
	}
	working, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	m.working[o.ID] = cancel
	m.mu.Unlock()
	m.log.Info("operation: at work", "operation", o.ID, "action", string(o.Action), "taken_from", from)
	workers.Go(func() {
		defer func() {
			cancel()
			m.mu.Lock()
			delete(m.working, o.ID)
			m.mu.Unlock()
			m.wake()
		}()
		newWorker(m, o, doc.Version).run(working)
	})
}

// sweep forgets operations that ended long ago.
func (m *Manager) sweep(ctx context.Context, docs []store.Document) {
	old := func(now job.Instant) (found []store.Document) {
		for _, d := range docs {
			if o, err := decode(d); err == nil && o.State != Running && now.Sub(o.UpdatedAt) > KeptFor {
				found = append(found, d)
			}
		}
		return found
	}
	// The store's clock decides; this one, whether it is worth asking.
	if len(old(job.InstantOf(m.clock.Now().Add(KeptFor/2)))) == 0 {
		return
	}
	depth, err := m.store.Depth(ctx)
	if err != nil {
		return
	}
	for _, d := range old(depth.Now) {
		err := m.store.DeleteDocument(ctx, documentKind, d.Name, d.Version)
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			return
		}
	}
}
