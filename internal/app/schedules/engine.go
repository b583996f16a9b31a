package schedules

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

const (
	channel = "schedules"
	// Another node notices within pollEvery that the lease of the elected one expired, so no occurrence is late by
	// more than 10 s when a node dies.
	pollEvery = time.Second
	heartbeat = 2 * time.Second
	// lookTimeout ends the registrations of a look before another node can take over.
	lookTimeout = 5 * time.Second
	// listEvery is how often all documents are read again: messages may get lost.
	listEvery = 30 * time.Second
	// retryPause is how long to wait after an occurrence that could not be registered.
	retryPause = time.Second
	// workers bounds the schedules that are executed at a time: those of a batch.
	workers = batch
	// keepDeleted is how long tombstones are kept.
	keepDeleted = time.Hour
	longSleep   = time.Hour
)

// engine is the elected node's copy of the schedules. mu is held by a round, and guards the rest.
type engine struct {
	mu      sync.Mutex
	changed *loops.Mailbox[struct{}] // names of schedules; "" is all of them
	known   *documents.Mirror[record, *entry]
	leading bool
	listed  time.Time
	some    bool // there are schedules, as far as this node knows
	release release
}

// entry is a schedule that the elected node looks after.
type entry struct {
	doc   document
	rules *schedule.Rules // nil: it cannot be executed
	form  string          // whose rules these are: uid and version; empty: nobody's
	// at is when to visit it, by the store's clock; zero: never.
	at  time.Time
	err error // why it cannot be executed; it alone waits
	// sure: this node wrote the document, and all registrations before were answered.
	sure bool
}

func (m *Manager) newEngine() *engine {
	return &engine{changed: loops.NewMailbox[struct{}](), known: documents.NewMirror(m.docs, m.know), release: release{docs: releases(m.o.Store)}}
}

// heard notes that a schedule is to be read again, and wakes Run.
func (e *engine) heard(name string) { e.changed.Put(name, struct{}{}) }

// Run looks after the schedules until ctx ends, whenever this node is the elected one.
func (m *Manager) Run(ctx context.Context) error {
	e := m.engine
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		feed.Follow(ctx, m.o.Store, channel, m.clock, m.log, func(message []byte) { e.heard(string(message)) })
	})
	outage := loops.NewOutage("executing schedules", m.clock, m.log, nil)
	for ctx.Err() == nil {
		pause, err := m.round(ctx)
		if err == nil {
			outage.Worked()
		} else {
			outage.Note(ctx, err)
			pause = retryPause
		}
		e.changed.Wake.Wait(ctx, m.clock, pause)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m.o.Leader.Resign(ctx, channel)
	return nil
}

// Settle registers everything that is due by now, with the changes made before the call. It
// returns when something is due next; zero: never. Only a node without others can tell.
func (m *Manager) Settle(ctx context.Context) (next job.Instant, err error) {
	for {
		pause, err := m.round(ctx)
		if err != nil {
			return 0, err
		}
		if pause > 0 {
			break
		}
	}
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	var first time.Time
	for _, n := range m.engine.known.All() {
		if !n.at.IsZero() {
			first = earlier(first, n.at)
		}
	}
	if first.IsZero() {
		return 0, nil
	}
	return job.InstantOf(first), nil
}

// round does what there is to do now, and returns how long to rest.
func (m *Manager) round(ctx context.Context) (pause time.Duration, err error) {
	e := m.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() {
		if err != nil {
			m.mayPurge.Store(false)
			e.listed = time.Time{}
		}
	}()
	if !e.some { // nobody has to lead without schedules
		if err := m.refresh(ctx); err != nil {
			return 0, err
		}
		if !e.some {
			m.o.Leader.Resign(ctx, channel)
			m.mayPurge.Store(true)
			return listEvery, nil
		}
	}
	if old, err := m.outdated(ctx); old || err != nil {
		m.stand(ctx)
		return releaseEvery, err
	}
	leads, err := m.o.Leader.Lead(ctx, channel)
	if leads != e.leading {
		e.leading, e.listed = leads, time.Time{}
	}
	if err != nil || !leads {
		m.mayPurge.Store(false) // the elected node purges
		e.changed.Take()
		e.known.Clear()
		return pollEvery, err
	}
	if err := m.refresh(ctx); err != nil {
		return 0, err
	}
	if !e.some {
		return 0, nil
	}
	now, err := store.Now(ctx, m.o.Store)
	if err != nil {
		return 0, err
	}
	begun := m.clock.Now()
	if m.untilNext(now) <= 0 {
		if err := m.look(ctx, now); err != nil {
			return 0, err
		}
	}
	m.mayPurge.Store(e.works())
	wait := m.untilNext(now.Add(m.clock.Now().Sub(begun)))
	if e.changed.Any() {
		wait = 0
	}
	return min(max(wait, 0), heartbeat), nil
}

// refresh reads the schedules that changed, or all: one list costs a store less than pages of it.
func (m *Manager) refresh(ctx context.Context) error {
	e := m.engine
	names := e.changed.Take()
	_, all := names[""]
	if now := m.clock.Now(); all || now.Sub(e.listed) >= listEvery {
		if err := e.known.Refresh(ctx); err != nil {
			return err
		}
		e.listed = now
	} else if len(names) == 0 {
		return nil
	}
	for name := range names {
		if name == "" {
			continue
		}
		if err := e.known.Read(ctx, name); err != nil {
			return err
		}
	}
	e.some = len(e.known.All()) > 0
	m.countStates()
	return nil
}

// know makes the entry of a document.
func (m *Manager) know(d *document, old *entry) *entry {
	n := &entry{doc: *d}
	if old != nil {
		n.rules, n.form, n.err = old.rules, old.form, old.err
	}
	m.prepare(n)
	return n
}

// note notes why a schedule cannot be executed, or that it can, and logs the first error.
func (m *Manager) note(n *entry, err error) {
	if err != nil && n.err == nil {
		m.log.Error("a schedule cannot be executed; it waits, and others continue", "schedule", n.doc.Name, "error", err)
	}
	n.err = err
}

// prepare compiles the rules of an entry whose schedule changed, and plans the next visit. An unreadable entry waits
// for a newer node, or until somebody repairs it.
func (m *Manager) prepare(n *entry) {
	r, form, err := &n.doc.Value, "", n.doc.Err
	if err == nil && r.exists() {
		form = fmt.Sprint(r.UID, " ", r.Version)
	}
	if form == "" || form != n.form {
		n.rules, n.form = nil, ""
		if form != "" {
			n.rules, err = r.rules(n.doc.Name)
		}
		if m.note(n, err); n.rules != nil {
			n.form = form
		}
	}
	n.plan()
}

// plan sets when to visit the schedule again.
func (n *entry) plan() {
	r := &n.doc.Value
	n.at = time.Time{}
	switch {
	case n.doc.Err != nil:
		return
	case r.DeletedAt != 0:
		n.at = r.DeletedAt.Time().Add(keepDeleted)
		return
	case n.rules == nil:
		return
	case r.Pause != nil:
		if r.Pause.Until != 0 {
			n.at = r.Pause.Until.Time()
		}
		return
	}
	if next, ok := n.rules.Next(r.progress()); ok {
		n.at = next.At
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// untilNext is how long nothing is to be done.
func (m *Manager) untilNext(now job.Instant) time.Duration {
	wait := longSleep
	for _, n := range m.engine.known.All() {
		if !n.at.IsZero() {
			wait = min(wait, n.at.Sub(now.Time()))
		}
	}
	return wait
}

// look decides and registers whatever is due.
func (m *Manager) look(ctx context.Context, now job.Instant) error {
	var due []*entry
	for _, n := range m.engine.known.All() {
		switch {
		case !n.due(now):
		case n.doc.Value.DeletedAt != 0:
			m.forget(ctx, n)
		default:
			due = append(due, n)
		}
	}
	// In one order, so that a simulated world is repeated by its seed.
	slices.SortFunc(due, func(a, b *entry) int { return strings.Compare(a.doc.Name, b.doc.Name) })
	for some := range slices.Chunk(due, batch) {
		if err := m.lookAt(ctx, some, now); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// batch bounds the schedules that are decided together.
const batch = 1000

func (m *Manager) forget(ctx context.Context, n *entry) {
	if err := m.docs.Delete(ctx, &n.doc); err == nil || errors.Is(err, store.ErrNotFound) {
		m.engine.known.Keep(&document{Head: documents.Head{Name: n.doc.Name}})
	} else {
		m.engine.heard(n.doc.Name)
	}
}

// lookAt decides and registers for some schedules, and then writes what became of them.
func (m *Manager) lookAt(ctx context.Context, all []*entry, now job.Instant) error {
	limited, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	works, errs := make([]*work, len(all)), make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, n := range all {
		w := &work{m: m, name: n.doc.Name, now: now, rules: n.rules, unsure: !n.sure, rec: n.doc.Value}
		group.Go(func() error {
			// The message about a change may have got lost.
			d, err := m.docs.Get(limited, n.doc.Name)
			switch {
			case err != nil && d.Err == nil && !errors.Is(err, store.ErrNotFound):
				errs[i] = err
			case d.Version != n.doc.Version || d.Err != nil:
				m.engine.heard(w.name)
			default:
				works[i], errs[i] = w, w.run(limited)
			}
			return nil
		})
	}
	_ = group.Wait() // none gives an error
	err := m.o.fail("registered")
	var changed []*entry
	var docs []*document
	var of []*work
	for i, n := range all {
		w, visited, broken := works[i], n.at, errs[i] != nil
		if !broken || !store.Unreachable(errs[i]) {
			m.note(n, errs[i])
			errs[i] = nil
		}
		n.sure = n.sure && !broken && err == nil
		if n.at = now.Time().Add(retryPause); w == nil {
			continue
		}
		if reflect.DeepEqual(w.rec, n.doc.Value) {
			n.planNext(now)
			continue
		}
		if w.rec.Done.At > n.doc.Value.Done.At {
			m.metrics.delay.Observe(max(0, now.Time().Sub(visited).Seconds()))
		}
		d := n.doc
		d.Value, w.broken = w.rec, broken
		changed, docs, of = append(changed, n), append(docs, &d), append(of, w)
	}
	if err == nil && len(docs) > 0 {
		err = m.put(ctx, changed, docs, of, now)
	}
	return errors.Join(append(errs, err)...)
}

// put writes documents. Another call changed those that are not written, which are read again.
func (m *Manager) put(ctx context.Context, all []*entry, docs []*document, of []*work, now job.Instant) error {
	stored, err := m.docs.PutAll(ctx, docs)
	if err == nil {
		err = m.o.fail("written")
	}
	for i, n := range all {
		if n.sure = err == nil && stored[i] && !of[i].broken; err != nil {
			continue
		}
		if !stored[i] {
			m.engine.heard(n.doc.Name)
			continue
		}
		m.o.Emit(of[i].events...)
		m.engine.known.Wrote(docs[i])
		n.doc = *docs[i]
		m.prepare(n)
		if n.planNext(now); of[i].more {
			n.at = now.Time()
		}
	}
	return err
}

// planNext plans the look after one that decided whatever it could. What is still due is tried again.
func (n *entry) planNext(now job.Instant) {
	if n.plan(); n.due(now) {
		n.at = now.Time().Add(retryPause)
	}
}

// due reports whether it is time to visit the schedule.
func (n *entry) due(now job.Instant) bool { return !n.at.IsZero() && !n.at.After(now.Time()) }

// works reports whether this node knows which occurrences of each schedule are registered.
func (e *engine) works() bool {
	for _, n := range e.known.All() {
		if n.err != nil {
			return false
		}
	}
	return true
}

// MayPurge reports whether this node may delete ended jobs. They show which occurrences are
// registered, as long as a decision failed.
func (m *Manager) MayPurge() bool { return m.mayPurge.Load() }

func (m *Manager) countStates() {
	n := map[State]int{}
	for _, e := range m.engine.known.All() {
		switch r := &e.doc.Value; {
		case e.err != nil:
			n[failing]++
		case r.DeletedAt != 0:
		case r.Pause != nil:
			n[Paused]++
		case e.at.IsZero():
			n[Completed]++
		default:
			n[Active]++
		}
	}
	for _, s := range countedStates {
		m.metrics.count.WithLabelValues(string(s)).Set(float64(n[s]))
	}
}
