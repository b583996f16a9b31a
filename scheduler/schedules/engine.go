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

	"github.com/duehook/duehook/internal/kit/follow"
	"github.com/duehook/duehook/internal/kit/leader"
	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/internal/kit/signal"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/store"
)

const (
	channel = "schedules"
	// The lease of the node that looks after schedules. Another node notices within pollEvery
	// that it expired, so no occurrence is late by more than 10 s when a node dies.
	leaseTime = 6 * time.Second
	heartbeat = 2 * time.Second
	pollEvery = time.Second
	// lookTimeout ends the registrations of a look before another node can take over.
	lookTimeout = 5 * time.Second
	// listEvery is how often all documents are read again: messages may get lost.
	listEvery = 30 * time.Second
	// askEvery is how often the store's time is asked for while nothing is due: its clock
	// may step.
	askEvery = 10 * time.Second
	// retryPause is how long to wait after an occurrence that could not be registered.
	retryPause = time.Second
	// workers bounds the schedules that are executed at a time: those of a batch, so that a
	// ledger commits their jobs together.
	workers = batch
	// keepDeleted is how long tombstones are kept.
	keepDeleted = time.Hour
	longSleep   = time.Hour
)

// engine is the elected node's copy of the schedules.
type engine struct {
	kick signal.Signal

	mu      sync.Mutex
	changed map[string]bool      // names; "" is all of them
	waiting []chan<- job.Instant // calls of Settle

	// The rest belongs to Run.
	entries map[string]*entry
	listed  time.Time
	some    bool          // there are schedules, as far as this node knows
	clock   time.Duration // of the store, before the node's
	asked   time.Time     // when that was measured
}

// entry is a schedule that the elected node looks after.
type entry struct {
	doc   document
	rules *schedule.Rules // nil: the definition cannot be used
	form  string          // whose rules these are: uid, version, and versions of its calendars
	// at is when to visit it, by the store's clock; zero: never.
	at time.Time
	// own: this node wrote the document, so it knows which occurrences are registered.
	own bool
}

func newEngine() *engine {
	return &engine{
		kick: signal.New(), changed: map[string]bool{"": true}, entries: map[string]*entry{},
	}
}

// heard notes that a schedule changed, and wakes Run.
func (e *engine) heard(name string) {
	e.note(name)
	e.kick.Set()
}

// note notes that a schedule is to be read again, or with an empty name all of them.
func (e *engine) note(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed[name] = true
}

func (e *engine) hasChanged() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.changed) > 0
}

// ask has Run answer, when nothing is due, with the time of the next look.
func (e *engine) ask(answer chan<- job.Instant) {
	e.mu.Lock()
	e.waiting = append(e.waiting, answer)
	e.mu.Unlock()
	e.kick.Set()
}

func (e *engine) takeWaiting() []chan<- job.Instant {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := e.waiting
	e.waiting = nil
	return waiting
}

func (e *engine) takeChanged() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := e.changed
	e.changed = map[string]bool{}
	return names
}

// Run looks after the schedules until ctx ends, whenever this node is the elected one.
func (m *Manager) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		follow.Channel(ctx, m.o.Store, channel, m.clock, m.log, func(message []byte) { m.engine.heard(string(message)) })
	})
	var lead *leader.Leader
	if !m.o.Alone {
		lead = leader.New(leader.Options{Store: m.o.Store, Task: channel, Node: m.o.ID, Clock: m.clock, Lease: leaseTime})
	}
	outage := outage.New("executing schedules", m.clock, m.log, nil)
	leading := false
	var waiting []chan<- job.Instant
	for ctx.Err() == nil {
		waiting = append(waiting, m.engine.takeWaiting()...)
		pause, leads, err := m.round(ctx, lead, leading)
		if err == nil {
			outage.Worked()
			if pause > 0 {
				m.answer(waiting)
				waiting = nil
			}
		} else {
			outage.Note(ctx, err)
			m.mayPurge.Store(false)
			pause = retryPause
		}
		if leads != leading {
			m.log.InfoContext(ctx, "the leader of schedules changed", "leading", leads)
		}
		leading = leads
		m.engine.kick.Wait(ctx, m.clock, pause)
	}
	if leading {
		lead.Resign(ctx)
	}
	return nil
}

// Settle waits until everything that is due by now is registered, with the changes made before
// the call. It returns when something is due next; zero: never. Only a node without others can
// tell.
func (m *Manager) Settle(ctx context.Context) (next job.Instant, err error) {
	answer := make(chan job.Instant, 1)
	m.engine.ask(answer)
	select {
	case next = <-answer:
		return next, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// answer answers calls of Settle.
func (m *Manager) answer(waiting []chan<- job.Instant) {
	if len(waiting) == 0 {
		return
	}
	var next time.Time
	for _, n := range m.engine.entries {
		if !n.at.IsZero() {
			next = earlier(next, n.at)
		}
	}
	at := job.Instant(0)
	if !next.IsZero() {
		at = job.InstantOf(next)
	}
	for _, w := range waiting {
		w <- at
	}
}

// round does what there is to do now, and returns how long to rest.
func (m *Manager) round(ctx context.Context, lead *leader.Leader, was bool) (pause time.Duration, leads bool, err error) {
	e := m.engine
	if !e.some { // nobody has to lead without schedules
		e.takeChanged()
		if err := m.list(ctx); err != nil {
			return 0, false, err
		}
		if !e.some {
			m.mayPurge.Store(true)
			return listEvery, false, nil
		}
	}
	if leads, err = lead.Lead(ctx); err != nil || !leads {
		m.mayPurge.Store(false) // the elected node purges
		clear(e.entries)
		return pollEvery, false, err
	}
	if err := m.refresh(ctx, !was); err != nil {
		return 0, leads, err
	}
	if !e.some {
		lead.Resign(ctx)
		return 0, false, nil
	}
	now, err := m.storeTime(ctx)
	if err != nil {
		return 0, leads, err
	}
	if m.untilNext(now) <= 0 {
		if err := m.look(ctx, now); err != nil {
			return 0, leads, err
		}
	}
	m.mayPurge.Store(e.readable())
	wait := m.untilNext(job.InstantOf(m.clock.Now().Add(e.clock)))
	if e.hasChanged() {
		wait = 0
	}
	return min(max(wait, 0), heartbeat), leads, nil
}

// storeTime is the store's time. While nothing is to be done, it is computed from an answer
// of the last seconds.
func (m *Manager) storeTime(ctx context.Context) (job.Instant, error) {
	e, own := m.engine, m.clock.Now()
	estimate := job.InstantOf(own.Add(e.clock))
	if age := own.Sub(e.asked); age >= 0 && age < askEvery && m.untilNext(estimate) > 0 {
		return estimate, nil
	}
	now, err := store.Now(ctx, m.o.Store)
	if err == nil {
		e.asked = m.clock.Now()
		e.clock = now.Sub(job.InstantOf(e.asked))
		e.expectClock(now)
	}
	return now, err
}

// expectClock plans a look at schedules whose cursor the clock went back behind, so that
// they say so.
func (e *engine) expectClock(now job.Instant) {
	for _, n := range e.entries {
		if r := &n.doc.Value; n.rules != nil && r.Pause == nil && r.ahead(now) && !r.waitsForClock() {
			n.at = now.Time()
		}
	}
}

// refresh reads the schedules that changed, or all.
func (m *Manager) refresh(ctx context.Context, all bool) error {
	e := m.engine
	names := e.takeChanged()
	if all || names[""] || m.clock.Now().Sub(e.listed) >= listEvery {
		return m.list(ctx)
	}
	read := m.reading()
	for name := range names {
		d, err := m.docs.Get(ctx, name)
		if d.Version == 0 && errors.Is(err, store.ErrNotFound) {
			delete(e.entries, name)
			continue
		}
		if err != nil && d.Version == 0 {
			e.note(name)
			return err
		}
		if err := m.enter(ctx, d, read); err != nil {
			e.note(name)
			return err
		}
	}
	m.countStates()
	return nil
}

// list reads all schedules. It decodes those that changed. One list costs a store less than
// pages of it.
func (m *Manager) list(ctx context.Context) error {
	e := m.engine
	raws, err := m.docs.List(ctx)
	if err != nil {
		e.note("")
		return err
	}
	seen, read := make(map[string]bool, len(raws)), m.reading()
	for _, raw := range raws {
		seen[raw.Name] = true
		known := e.entries[raw.Name]
		switch {
		case known == nil || known.doc.Version != raw.Version:
			err = m.enter(ctx, m.docs.Decode(raw), read)
		case !known.current(ctx, read):
			err = m.enter(ctx, known.doc, read)
		}
		if err != nil {
			e.note("")
			return err
		}
	}
	for name := range e.entries {
		if !seen[name] {
			delete(e.entries, name)
		}
	}
	e.listed, e.some = m.clock.Now(), len(e.entries) > 0
	m.countStates()
	return nil
}

// current reports whether an entry has the present dates of its calendars.
func (n *entry) current(ctx context.Context, read reader) bool {
	if len(n.doc.Value.Def.Except.Calendars) == 0 {
		return true
	}
	versions, _, err := read(ctx, &n.doc.Value.Def)
	return err == nil && n.form == formOf(&n.doc.Value, versions)
}

func formOf(r *record, calendars string) string {
	return fmt.Sprint(r.UID, " ", r.Version, calendars)
}

// enter keeps a document that was read or written.
func (m *Manager) enter(ctx context.Context, d document, read reader) error {
	e := m.engine
	old := e.entries[d.Name]
	versions, dates, err := read(ctx, &d.Value.Def)
	if err != nil {
		return err
	}
	n := &entry{doc: d, form: formOf(&d.Value, versions)}
	if d.Err != nil {
		if old == nil || old.doc.Version != d.Version {
			m.log.Error("a schedule cannot be read", "schedule", d.Name, "error", d.Err)
		}
	} else if old != nil && old.rules != nil && old.form == n.form {
		n.rules = old.rules
	} else if d.Value.exists() {
		rules, err := compiled(d.Name, &d.Value, dates)
		if err != nil {
			m.log.Error("a schedule cannot be executed: it has invalid settings", "schedule", d.Name, "error", err)
		}
		n.rules = rules
	}
	e.entries[d.Name] = n
	n.plan()
	return nil
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
	if at, ok := n.rules.Next(r.state()); ok {
		n.at = at
	}
	if r.Queued != nil { // ask for the end of the job before
		n.at = earlier(n.at, r.UpdatedAt.Time())
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
	for _, n := range m.engine.entries {
		if !n.at.IsZero() {
			wait = min(wait, n.at.Sub(now.Time()))
		}
	}
	return wait
}

// look decides and registers whatever is due.
func (m *Manager) look(ctx context.Context, now job.Instant) error {
	var due []*entry
	for _, n := range m.engine.entries {
		switch {
		case n.at.IsZero() || n.at.After(now.Time()):
		case n.doc.Value.DeletedAt != 0:
			m.forget(ctx, n)
		default:
			due = append(due, n)
		}
	}
	// A ledger keeps documents with similar names together: a batch changes few of its pages.
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
	err := m.docs.Delete(ctx, &n.doc)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		delete(m.engine.entries, n.doc.Name)
	} else {
		m.engine.note(n.doc.Name)
	}
}

// lookAt decides and registers for some schedules, and then writes what became of them.
func (m *Manager) lookAt(ctx context.Context, all []*entry, now job.Instant) error {
	limited, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	works, errs := make([]*work, len(all)), make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(workers)
	read := m.reading()
	for i, n := range all {
		if !n.current(limited, read) { // the message about a change may have got lost
			m.engine.note(n.doc.Name)
			continue
		}
		w := &work{m: m, name: n.doc.Name, now: now, rules: n.rules, unsure: !n.own, rec: n.doc.Value}
		group.Go(func() error {
			// The message about a change may have got lost.
			d, err := m.docs.Get(limited, n.doc.Name)
			switch {
			case d.Version != n.doc.Version && (err == nil || errors.Is(err, store.ErrNotFound)):
				m.engine.note(w.name)
			case err != nil:
				errs[i] = err
			default:
				works[i], errs[i] = w, w.run(limited)
			}
			return nil
		})
	}
	_ = group.Wait() // none gives an error
	if err := m.o.fail("registered"); err != nil {
		m.distrust(all)
		return err
	}
	var changed []*entry
	var of []*work
	var sure []bool
	for i, n := range all {
		w := works[i]
		if errs[i] != nil {
			m.log.Warn("occurrences cannot be registered; retrying", "schedule", n.doc.Name, "error", errs[i])
			n.own = false
		}
		if w == nil {
			n.at = now.Time().Add(retryPause)
			continue
		}
		if reflect.DeepEqual(w.rec, n.doc.Value) {
			m.planNext(n, now)
			continue
		}
		if w.rec.Done.At > n.doc.Value.Done.At {
			m.metrics.delay.Observe(max(0, now.Time().Sub(n.at).Seconds()))
		}
		n.doc.Value = w.rec
		changed, of, sure = append(changed, n), append(of, w), append(sure, errs[i] == nil)
	}
	stored, err := m.putAll(ctx, changed)
	if err != nil {
		return err
	}
	for i, n := range changed {
		if stored[i] {
			m.o.Emit(of[i].events...)
			if err := m.written(ctx, n, of[i], now, sure[i], read); err != nil {
				return err
			}
		}
	}
	return errors.Join(errs...)
}

// written keeps a document that was written. sure: all registrations were answered.
func (m *Manager) written(ctx context.Context, n *entry, w *work, now job.Instant, sure bool, read reader) error {
	if err := m.enter(ctx, n.doc, read); err != nil {
		m.distrust([]*entry{n})
		return err
	}
	n = m.engine.entries[n.doc.Name]
	n.own = sure
	m.planNext(n, now)
	if w.more {
		n.at = now.Time()
	}
	return nil
}

// planNext plans the look after one that decided whatever it could.
func (m *Manager) planNext(n *entry, now job.Instant) {
	r, next := &n.doc.Value, now.Time().Add(retryPause)
	n.plan()
	switch {
	case r.LastError != nil && !r.waitsForClock() || !n.own:
		n.at = next
	case r.Queued != nil:
		n.at = next
		if at, ok := n.rules.Next(r.state()); ok {
			n.at = earlier(n.at, at)
		}
	}
	if !n.at.IsZero() && n.at.Before(now.Time()) {
		n.at = next
	}
}

// putAll writes documents, and reports which. Another call changed the others, which are read
// again.
func (m *Manager) putAll(ctx context.Context, all []*entry) (stored []bool, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	docs := make([]*document, len(all))
	for i, n := range all {
		docs[i] = &n.doc
	}
	if stored, err = m.docs.PutAll(ctx, docs); err != nil {
		m.distrust(all)
		return nil, err
	}
	for i := range all {
		if !stored[i] {
			m.distrust(all[i : i+1])
		}
	}
	return stored, m.o.fail("written")
}

// distrust forgets documents, so that they are read again.
func (m *Manager) distrust(all []*entry) {
	for _, n := range all {
		delete(m.engine.entries, n.doc.Name)
		m.engine.note(n.doc.Name)
	}
}

// readable reports whether this node knows which occurrences are registered.
func (e *engine) readable() bool {
	for _, n := range e.entries {
		if n.doc.Err != nil {
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
	for _, e := range m.engine.entries {
		switch r := &e.doc.Value; {
		case e.doc.Err != nil || r.DeletedAt != 0:
		case r.Pause != nil:
			n[Paused]++
		case e.at.IsZero():
			n[Completed]++
		default:
			n[Active]++
		}
	}
	for _, s := range States {
		m.metrics.count.WithLabelValues(string(s)).Set(float64(n[s]))
	}
}
