package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	// The lease of the node that looks after schedules. Occurrences are registered
	// schedule.LookAhead before their time, so none is late when another node takes over.
	leaseTime = 10 * time.Second
	heartbeat = 5 * time.Second
	// listEvery is how often all documents are read again: messages may get lost.
	listEvery = 30 * time.Second
	// askEvery is how often the store's time is asked for while nothing is due: its clock
	// may step.
	askEvery = 10 * time.Second
	// retryPause is how long to wait after an occurrence that could not be registered.
	retryPause = time.Second
	// workers bounds the schedules that are executed at a time: those of a batch, so that a
	// journal commits their jobs together.
	workers = batch
	// oldIntent is the age of an intent from which ended jobs are kept for it.
	oldIntent = time.Minute
	// keepDeleted is how long tombstones are kept.
	keepDeleted = time.Hour
	longSleep   = time.Hour
)

// engine is the elected node's copy of the schedules.
type engine struct {
	kick signal.Signal

	leads atomic.Bool // this node is the elected one

	mu      sync.Mutex
	changed map[string]bool // names; "" is all of them
	queued  map[string]bool // schedules with a queued occurrence
	ended   map[string]bool // queued schedules with an ended job

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
	form  string          // whose rules these are: uid and version
	// at is when to visit it, by the store's clock; zero: never.
	at    time.Time
	since time.Time // when it could have been decided
}

func newEngine() *engine {
	return &engine{
		kick: signal.New(), changed: map[string]bool{"": true}, entries: map[string]*entry{},
		queued: map[string]bool{}, ended: map[string]bool{},
	}
}

// heard notes that a schedule changed, or with an empty name that any may have.
func (e *engine) heard(name string) {
	e.mu.Lock()
	e.changed[name] = true
	e.mu.Unlock()
	e.kick.Set()
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
		follow.Channel(ctx, m.o.Store, channel, m.clock, m.log, func(message []byte) { m.engine.heardMessage(string(message)) })
	})
	listening.Go(func() { m.passEnds(ctx) })
	var lead *leader.Leader
	if !m.o.Alone {
		lead = leader.New(leader.Options{Store: m.o.Store, Task: channel, Node: m.o.ID, Clock: m.clock, Lease: leaseTime})
	}
	outage := outage.New("executing schedules", m.clock, m.log, nil)
	leading := false
	for ctx.Err() == nil {
		pause, leads, err := m.round(ctx, lead, leading)
		if err == nil {
			outage.Worked()
		} else {
			outage.Note(ctx, err)
			m.mayPurge.Store(false)
			pause = retryPause
		}
		if leads != leading {
			m.log.InfoContext(ctx, "the leader of schedules changed", "leading", leads)
		}
		leading = leads
		m.engine.leads.Store(leads)
		m.engine.kick.Wait(ctx, m.clock, pause)
	}
	if leading {
		lead.Resign(ctx)
	}
	return nil
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
		for name := range e.entries {
			e.remove(name)
		}
		return heartbeat, false, err
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
	m.mayPurge.Store(m.noOldIntent(now))
	wait := m.untilNext(job.InstantOf(m.clock.Now().Add(e.clock)))
	return min(max(wait, 0), heartbeat), leads, nil
}

// storeTime is the store's time. While nothing is to be done, it is computed from an answer
// of the last seconds.
func (m *Manager) storeTime(ctx context.Context) (job.Instant, error) {
	e, own := m.engine, m.clock.Now()
	estimate := job.InstantOf(own.Add(e.clock))
	e.takeEnded(estimate.Time())
	if age := own.Sub(e.asked); age >= 0 && age < askEvery && m.untilNext(estimate) > 0 {
		return estimate, nil
	}
	now, err := m.o.Store.Now(ctx)
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
		if r := &n.doc.Value; n.rules != nil && r.Intent == nil && r.PausedAt == 0 && r.ahead(now) && !r.waitsForClock() {
			n.at = now.Time()
		}
	}
}

func (r *record) waitsForClock() bool { return r.LastError != nil && r.LastError.Reason == ReasonClock }

// refresh reads the schedules that changed, or all.
func (m *Manager) refresh(ctx context.Context, all bool) error {
	e := m.engine
	names := e.takeChanged()
	if all || names[""] || m.clock.Now().Sub(e.listed) >= listEvery {
		return m.list(ctx)
	}
	for name := range names {
		d, err := m.docs.Get(ctx, name)
		if d.Version == 0 && errors.Is(err, store.ErrNotFound) {
			e.remove(name)
			continue
		}
		if err != nil && d.Version == 0 {
			e.heard(name)
			return err
		}
		m.enter(d)
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
		e.heard("")
		return err
	}
	seen := make(map[string]bool, len(raws))
	for _, raw := range raws {
		seen[raw.Name] = true
		if known := e.entries[raw.Name]; known == nil || known.doc.Version != raw.Version {
			m.enter(m.docs.Decode(raw))
		}
	}
	for name := range e.entries {
		if !seen[name] {
			e.remove(name)
		}
	}
	e.listed, e.some = m.clock.Now(), len(e.entries) > 0
	m.countStates()
	return nil
}

// remove forgets a schedule.
func (e *engine) remove(name string) {
	delete(e.entries, name)
	e.setQueued(name, false)
}

// enter keeps a document that was read or written.
func (m *Manager) enter(d document) {
	e := m.engine
	old := e.entries[d.Name]
	n := &entry{doc: d, form: fmt.Sprint(d.Value.UID, " ", d.Value.Version)}
	if d.Err != nil {
		if old == nil || old.doc.Version != d.Version {
			m.log.Error("a schedule cannot be read", "schedule", d.Name, "error", d.Err)
		}
	} else if old != nil && old.rules != nil && old.form == n.form {
		n.rules = old.rules
	} else if d.Value.exists() {
		rules, err := d.Value.Def.rules(d.Name)
		if err != nil {
			m.log.Error("a schedule cannot be executed: it has invalid settings", "schedule", d.Name, "error", err)
		}
		n.rules = rules
	}
	e.entries[d.Name] = n
	e.setQueued(d.Name, n.doc.Value.Queued != nil)
	n.plan()
}

// plan sets when to visit the schedule again.
func (n *entry) plan() {
	r := &n.doc.Value
	n.at = time.Time{}
	switch {
	case n.doc.Err != nil:
		return
	case r.Intent != nil:
		n.at = r.Intent.At.Time()
		return
	case r.DeletedAt != 0:
		n.at = r.DeletedAt.Time().Add(keepDeleted)
		return
	case r.PausedAt != 0 || n.rules == nil:
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

// look decides and executes whatever is to be decided at now.
func (m *Manager) look(ctx context.Context, now job.Instant) error {
	var intents, inherited []*entry
	for _, n := range m.engine.entries {
		switch {
		case n.at.IsZero() || n.at.After(now.Time()):
		case n.doc.Value.DeletedAt != 0:
			m.forget(ctx, n)
		case n.doc.Value.Intent != nil:
			inherited = append(inherited, n)
		default:
			intents = append(intents, n)
		}
	}
	m.executeAll(ctx, inherited, now, true)
	// A journal keeps documents with similar names together: a batch changes few of its pages.
	slices.SortFunc(intents, func(a, b *entry) int { return strings.Compare(a.doc.Name, b.doc.Name) })
	var written []*entry
	for len(intents) > 0 {
		some := intents[:min(len(intents), batch)]
		intents = intents[len(some):]
		planned := m.decideAll(ctx, some, now)
		stored, err := m.putAll(ctx, planned, "intent")
		if err != nil {
			return err
		}
		written = append(written, stored...)
		m.executeAll(ctx, stored, now, false)
	}
	for _, n := range written {
		if !n.since.IsZero() {
			m.metrics.delay.Observe(max(0, now.Time().Sub(n.since).Seconds()))
		}
	}
	return ctx.Err()
}

// batch bounds the schedules that are decided together.
const batch = 1000

func (m *Manager) forget(ctx context.Context, n *entry) {
	err := m.docs.Delete(ctx, &n.doc)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		m.engine.remove(n.doc.Name)
	} else {
		m.engine.heard(n.doc.Name)
	}
}

// decideAll decides for each schedule, and returns those with an intent.
func (m *Manager) decideAll(ctx context.Context, all []*entry, now job.Instant) []*entry {
	meant := make([]bool, len(all))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, n := range all {
		group.Go(func() error {
			meant[i] = m.decide(ctx, n, now)
			return nil
		})
	}
	_ = group.Wait() // none gives an error
	var planned []*entry
	for i, n := range all {
		if meant[i] {
			planned = append(planned, n)
		}
	}
	return planned
}

func (m *Manager) decide(ctx context.Context, n *entry, now job.Instant) bool {
	r := &n.doc.Value
	n.since, n.at = n.at, now.Time().Add(retryPause)
	if r.ahead(now) {
		if r.waitsForClock() {
			n.plan()
			return false
		}
		r.LastError = &LastError{At: now, Reason: ReasonClock, Message: "The clock of the store went back. The schedule waits for it; resume lets it go on from now."}
		return true
	}
	busy := false
	if r.Queued != nil || n.rules.Overlap != schedule.Allow {
		var err error
		if busy, err = m.busy(ctx, r); err != nil {
			return false
		}
	}
	d := n.rules.Decide(r.state(), schedule.Facts{Now: now.Time(), Busy: busy})
	if !d.Release && len(d.Steps) == 0 {
		if queued := r.Queued != nil; queued {
			n.at = now.Time().Add(m.engine.queuedPause())
		} else {
			n.at = time.Time{}
		}
		if at, ok := n.rules.Next(r.state()); ok {
			n.at = earlier(n.at, at)
		}
		return false
	}
	r.Intent = &intent{At: now}
	r.Intent.take(&d)
	return true
}

// putAll writes documents and returns the written ones. Another call changed the others,
// which are read again.
func (m *Manager) putAll(ctx context.Context, all []*entry, step string) ([]*entry, error) {
	if len(all) == 0 {
		return nil, nil
	}
	if err := m.o.fail("before " + step); err != nil {
		return nil, err
	}
	docs := make([]*document, len(all))
	for i, n := range all {
		docs[i] = &n.doc
	}
	stored, err := m.docs.PutAll(ctx, docs)
	if err != nil {
		m.engine.heard("") // what is known of them may be wrong
		m.distrust(all)
		return nil, err
	}
	var written []*entry
	for i, n := range all {
		if stored[i] {
			written = append(written, n)
		} else {
			m.distrust(all[i : i+1])
			m.engine.heard(n.doc.Name)
		}
	}
	return written, m.o.fail("after " + step)
}

// distrust forgets documents, so that they are read again.
func (m *Manager) distrust(all []*entry) {
	for _, n := range all {
		m.engine.remove(n.doc.Name)
	}
}

// executeAll executes intents and writes the results. A failed intent stays, and is
// executed again.
func (m *Manager) executeAll(ctx context.Context, all []*entry, now job.Instant, inherited bool) {
	if len(all) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	works := make([]*work, len(all))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, n := range all {
		if n.doc.Value.Intent == nil { // only an error was noted
			n.at = now.Time().Add(retryPause)
			continue
		}
		group.Go(func() error {
			w := &work{m: m, name: n.doc.Name, now: now, inherited: inherited, rec: n.doc.Value}
			if err := w.execute(limited); err != nil {
				m.log.Warn("occurrences cannot be registered; retrying", "schedule", n.doc.Name, "error", err)
				return nil
			}
			works[i] = w
			return nil
		})
	}
	_ = group.Wait()
	if m.o.fail("registered") != nil {
		m.distrust(all)
		return
	}
	var done []*entry
	var of []*work
	for i, n := range all {
		if works[i] == nil {
			if n.doc.Value.Intent != nil {
				n.at = now.Time().Add(retryPause)
			}
			continue
		}
		n.doc.Value = works[i].rec
		done, of = append(done, n), append(of, works[i])
	}
	if _, err := m.putAll(ctx, done, "result"); err != nil {
		m.distrust(done)
		m.engine.heard("")
		return
	}
	for i, n := range done {
		m.o.Emit(of[i].events...)
		if m.engine.entries[n.doc.Name] != n {
			continue // it is read again
		}
		m.enter(n.doc)
		if n.doc.Value.LastError != nil {
			m.engine.entries[n.doc.Name].at = now.Time().Add(retryPause)
		}
	}
}

// noOldIntent reports whether no intent needs ended jobs.
func (m *Manager) noOldIntent(now job.Instant) bool {
	for _, n := range m.engine.entries {
		if in := n.doc.Value.Intent; n.doc.Err != nil || in != nil && now.Sub(in.At) > oldIntent {
			return false
		}
	}
	return true
}

// MayPurge reports whether this node may delete ended jobs. Unfinished intents need them to
// see which jobs were registered.
func (m *Manager) MayPurge() bool { return m.mayPurge.Load() }

func (m *Manager) countStates() {
	n := map[State]int{}
	for _, e := range m.engine.entries {
		switch r := &e.doc.Value; {
		case e.doc.Err != nil || r.DeletedAt != 0:
		case r.PausedAt != 0:
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
