package schedules

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// Bounds of all schedules together: their number, and their stored bytes.
const (
	MaxSchedules = 10_000
	MaxAllBytes  = 64 << 20
)

// Errors on which callers decide.
var (
	// ErrNotFound: no schedule has this name.
	ErrNotFound = errors.New("schedule not found")
	// ErrTooMany: there are MaxSchedules, or they take MaxAllBytes.
	ErrTooMany = errors.New("too many schedules")
	// ErrBusy: the schedule went on changing.
	ErrBusy = fmt.Errorf("%w: the schedule is being changed", store.ErrUnavailable)
)

// Store is what schedules need of a store. Every store.Store is one.
type Store interface {
	Now(ctx context.Context) (job.Instant, error)
	store.Documents
	store.Messaging
}

// Jobs registers, changes and reads jobs. A *scheduler.Scheduler is one.
type Jobs interface {
	CheckTemplate(d *job.Draft) error
	Occurrence(d *job.Draft, o scheduler.Occurrence) (store.Registration, error)
	RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
	Get(ctx context.Context, key job.Key) (job.Job, error)
}

// Journal knows jobs that the store may have lost or forgotten.
type Journal interface {
	RestoreJob(ctx context.Context, key job.Key) (j job.Job, restored bool, err error)
}

// Options are the settings of a Manager. Store, Jobs and ID are required.
type Options struct {
	Store   Store
	Jobs    Jobs
	Journal Journal // nil: the store has none
	ID      string  // of the node, unique to the process
	// Alone: no other node shares the store, so none has to be elected.
	Alone bool
	// Clock paces the work; nil is the machine's. The store's clock decides.
	Clock   job.Clock
	Logger  *slog.Logger            // nil: none
	Metrics prometheus.Registerer   // nil: metrics are not registered
	Emit    func(e ...events.Event) // nil: nobody watches
	Ends    *Ends                   // nil: queued occurrences are registered up to a second later
	fail    func(step string) error // of tests: a crash at a step
}

// Manager keeps schedules and registers their occurrences. Its methods are safe for
// concurrent use.
type Manager struct {
	o       Options
	docs    *documents.Collection[record]
	log     *slog.Logger
	clock   job.Clock
	metrics *metrics
	engine  *engine

	// mayPurge is false while an ended job may still be needed: see MayPurge.
	mayPurge atomic.Bool
}

// New returns a Manager. It starts nothing.
func New(o Options) (*Manager, error) {
	if o.Store == nil || o.Jobs == nil || o.ID == "" {
		return nil, errors.New("schedules: Options.Store, Options.Jobs or Options.ID is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Emit == nil {
		o.Emit = func(...events.Event) {}
	}
	if o.fail == nil {
		o.fail = func(string) error { return nil }
	}
	m := &Manager{o: o, docs: collection(o.Store, o.Clock), log: o.Logger, clock: o.Clock, engine: newEngine()}
	var err error
	m.metrics, err = newMetrics(o.Metrics)
	return m, err
}

// Version is a version of a schedule. Zero: there is none.
type Version struct {
	UID    string
	Number uint64
	Topic  string // of its jobs
}

// Allow returns an error if a schedule of this version may not be changed.
type Allow func(is Version) error

// allowing asks before a change is decided. A change that is written was allowed before.
func allowing(allow []Allow, decide decision) decision {
	var last *change
	return func(r *record, now job.Instant) (c *change, err error) {
		var is Version
		if r.exists() {
			is = Version{r.UID, r.Version, r.Def.Topic()}
		}
		for _, allowed := range allow {
			if last != nil && last.intended {
				break
			}
			if err := allowed(is); err != nil {
				return nil, err
			}
		}
		last, err = decide(r, now)
		return last, err
	}
}

// Set makes or replaces a schedule. Errors of this and the following calls: a
// *job.ValidationError, a *scheduler.BlockedError, ErrNotFound, ErrTooMany, ErrBusy,
// store.ErrNewer, the store's, and those of allow.
func (m *Manager) Set(ctx context.Context, name string, d *Draft, allow ...Allow) (s Schedule, created bool, err error) {
	def, _, err := m.check(name, d, false)
	if err != nil {
		return Schedule{}, false, err
	}
	err = m.change(ctx, name, allowing(allow, func(r *record, now job.Instant) (*change, error) {
		created = !r.exists()
		if created {
			return nil, m.create(ctx, r, def, d, now)
		}
		switch {
		case !def.equal(&r.Def) && len(r.pending(after(now))) >= maxForms:
			return nil, ErrBusy
		case !def.equal(&r.Def):
			return &change{Kind: changePut, At: now, Def: &def}, m.docs.Reserve(ctx, 0, def.size()-r.Def.size())
		}
		return d.pause(r, now)
	}))
	if err == nil && d.Paused != nil { // what comes beside another definition
		err = m.changeExisting(ctx, name, d.pause)
	}
	if err != nil {
		return Schedule{}, false, err
	}
	m.announce(ctx, name)
	s, err = m.Get(ctx, name)
	return s, created, err
}

// pause returns the change of a pause that the draft asks for.
func (d *Draft) pause(r *record, now job.Instant) (*change, error) {
	switch {
	case d.Paused == nil:
		return nil, documents.ErrKept
	case *d.Paused:
		return r.noted(change{Kind: changePause, At: now, Note: d.Note}, r.PausedAt == 0)
	}
	return r.noted(change{Kind: changeResume, At: now}, r.PausedAt != 0)
}

// noted is a change that is due. Otherwise it sets the note, if there is another one.
func (r *record) noted(c change, due bool) (*change, error) {
	switch {
	case due:
		return &c, nil
	case c.Note == nil || r.Note != nil && *r.Note == *c.Note:
		return nil, documents.ErrKept
	}
	r.Note = c.Note
	return nil, nil
}

func (r *record) exists() bool { return r.UID != "" && r.DeletedAt == 0 }

// check reads everything of a draft. A preview needs neither a name nor a job.
func (m *Manager) check(name string, d *Draft, preview bool) (Definition, *schedule.Rules, error) {
	var f job.Findings
	if name != "" || !preview {
		_ = f.Take("", CheckName(name))
	}
	def, rules, err := d.definition(name)
	if err := f.Take("", err); err != nil {
		return Definition{}, nil, err
	}
	_ = f.Take("", d.checkNote())
	if d.Job != nil {
		def.Job = *d.Job
		if err := f.Take("", m.checkJob(d.Job)); err != nil && (f.Err() == nil || errors.Is(err, job.ErrBodyTooLarge)) {
			return Definition{}, nil, err
		}
	} else if !preview {
		f.Add("job", "is required")
	}
	return def, rules, f.Err()
}

// checkJob checks the template, which has no time and no id of its own.
func (m *Manager) checkJob(d *job.Draft) error {
	var f job.Findings
	for _, field := range d.Given("id", "delay", "at", "on_conflict", "count") {
		f.Add(field.Within("job"), "is given by the schedule: leave it out")
	}
	if err := f.Take("job", m.o.Jobs.CheckTemplate(d)); err != nil {
		return err
	}
	return f.Err()
}

// create fills in the record of a new schedule.
func (m *Manager) create(ctx context.Context, r *record, def Definition, d *Draft, now job.Instant) error {
	if err := m.docs.Reserve(ctx, 1, def.size()); err != nil {
		return err
	}
	id, err := ulid.New(uint64(now), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a uid: %w", err)
	}
	*r = record{UID: id.String(), Version: 1, CreatedAt: now, UpdatedAt: now, Def: def, Since: after(now), Cursor: after(now)}
	if d.Paused != nil && *d.Paused {
		r.PausedAt, r.Note = now, d.Note
	}
	return nil
}

// Delete deletes a schedule, and withdraws its jobs that are not due.
func (m *Manager) Delete(ctx context.Context, name string, allow ...Allow) error {
	return m.changeExisting(ctx, name, allowing(allow, func(_ *record, now job.Instant) (*change, error) {
		return &change{Kind: changeDelete, At: now}, nil
	}))
}

// Pause pauses a schedule. A note says why; nil keeps the one of a paused schedule.
func (m *Manager) Pause(ctx context.Context, name string, note *string) (Schedule, error) {
	return m.changeNoted(ctx, name, note, func(r *record, now job.Instant) (*change, error) {
		return r.noted(change{Kind: changePause, At: now, Note: note}, r.PausedAt == 0)
	})
}

func (m *Manager) changeNoted(ctx context.Context, name string, note *string, decide decision) (Schedule, error) {
	if note != nil {
		if err := checkNote(*note); err != nil {
			return Schedule{}, err
		}
	}
	if err := m.changeExisting(ctx, name, decide); err != nil {
		return Schedule{}, err
	}
	return m.Get(ctx, name)
}

// clockBack is how far ahead of the clock a cursor may be.
const clockBack = schedule.Ahead + time.Minute

// Resume resumes a schedule. A schedule that waits for the clock continues from now. The
// note replaces that of the pause; nil removes it, or keeps the one of an active schedule.
func (m *Manager) Resume(ctx context.Context, name string, note *string) (Schedule, error) {
	return m.changeNoted(ctx, name, note, func(r *record, now job.Instant) (*change, error) {
		return r.noted(change{Kind: changeResume, At: now, Note: note}, r.PausedAt != 0 || r.ahead(now))
	})
}

// ahead reports whether the clock went back behind the cursor.
func (r *record) ahead(now job.Instant) bool {
	return seconds(r.Cursor).Sub(now.Time()) > clockBack
}

// changeExisting is change for a schedule that exists.
func (m *Manager) changeExisting(ctx context.Context, name string, decide decision) error {
	err := m.change(ctx, name, func(r *record, now job.Instant) (*change, error) {
		if !r.exists() {
			return nil, ErrNotFound
		}
		return decide(r, now)
	})
	if err == nil {
		m.announce(ctx, name)
	}
	return err
}

// decision alters the record of a schedule, or returns a change that is made when everything
// up to it is decided. It may be called again.
type decision = func(r *record, now job.Instant) (*change, error)

// changeTries bounds how often a change starts over.
const changeTries = 50

// change changes a schedule.
func (m *Manager) change(ctx context.Context, name string, decide decision) error {
	for range changeTries {
		done, err := m.tryChange(ctx, name, decide)
		switch {
		case errors.Is(err, documents.ErrKept):
			return nil
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil || done:
			return err
		}
	}
	return ErrBusy
}

func (m *Manager) tryChange(ctx context.Context, name string, decide decision) (done bool, err error) {
	d, err := m.docs.Get(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	now, err := m.o.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	if d.Value.Intent != nil { // of another call: it comes first
		return false, m.finish(ctx, &d, now, true)
	}
	c, err := decide(&d.Value, now)
	if err != nil {
		return false, err
	}
	if c == nil {
		return true, m.docs.Put(ctx, &d)
	}
	in, more := &intent{At: now}, false
	if c.Kind != changeRun {
		if in, more, err = m.decideUntil(ctx, name, &d.Value, now); err != nil {
			return false, err
		}
	}
	if !more {
		in.Change = c
	}
	d.Value.Intent = in
	if err := m.put(ctx, &d, "intent"); err != nil {
		return false, err
	}
	c.intended = !more
	topic := d.Value.Def.Topic()
	if err := m.finish(ctx, &d, now, false); err != nil || more {
		return false, err
	}
	if c.Kind != changeRun {
		m.o.Emit(events.Event{Type: eventOf[c.Kind], At: c.At, Schedule: name, Topic: topic})
	}
	return true, nil
}

var eventOf = map[changeKind]events.Type{
	changePut: events.ScheduleChanged, changePause: events.SchedulePaused,
	changeResume: events.ScheduleResumed, changeDelete: events.ScheduleDeleted,
}

// put writes a document, unless a test crashes the node before or after.
func (m *Manager) put(ctx context.Context, d *document, step string) error {
	if err := m.o.fail("before " + step); err != nil {
		return err
	}
	if err := m.docs.Put(ctx, d); err != nil {
		return err
	}
	return m.o.fail("after " + step)
}

// decideUntil decides all occurrences up to a change; more: they are too many for one
// intent.
func (m *Manager) decideUntil(ctx context.Context, name string, r *record, now job.Instant) (*intent, bool, error) {
	in := &intent{At: now, Final: true}
	if r.PausedAt != 0 || r.ahead(now) {
		return in, false, nil
	}
	rules, err := r.Def.rules(name)
	if err != nil {
		return nil, false, err
	}
	busy, err := m.busy(ctx, r)
	if err != nil {
		return nil, false, err
	}
	d := rules.Decide(r.state(), schedule.Facts{Now: now.Time(), Busy: busy, Until: seconds(after(now))})
	in.take(&d)
	return in, d.More, nil
}

func (in *intent) take(d *schedule.Decision) {
	in.Release = d.Release
	for _, s := range d.Steps {
		in.Steps = append(in.Steps, step{Time: s.Time.Unix(), Outcome: s.Outcome, Late: s.Late, Count: s.Count})
	}
}

// busy reports whether a job of the schedule is unfinished, and forgets ended ones.
func (m *Manager) busy(ctx context.Context, r *record) (bool, error) {
	open := make([]bool, len(r.Open))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, key := range r.Open {
		group.Go(func() error {
			j, err := m.lookUp(ctx, key)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrFinished) {
				return nil
			}
			open[i] = err == nil && !j.State.Final()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	var left []job.Key
	for i, key := range r.Open {
		if open[i] {
			left = append(left, key)
		}
	}
	r.Open = left
	return len(left) > 0, nil
}

// lookUp returns a job. A store that lost its data does not have a job that the journal
// knows as unfinished. Then lookUp restores it.
func (m *Manager) lookUp(ctx context.Context, key job.Key) (job.Job, error) {
	j, err := m.o.Jobs.Get(ctx, key)
	if m.o.Journal != nil && errors.Is(err, store.ErrNotFound) {
		j, _, err = m.o.Journal.RestoreJob(ctx, key)
	}
	return j, err
}

// finish executes the intent of a document and writes the result.
func (m *Manager) finish(ctx context.Context, d *document, now job.Instant, inherited bool) error {
	w := &work{m: m, name: d.Name, now: now, inherited: inherited, rec: d.Value}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := w.execute(limited); err != nil {
		return err
	}
	if err := m.o.fail("registered"); err != nil {
		return err
	}
	in := d.Value.Intent
	d.Value = w.rec
	if err := m.put(ctx, d, "result"); err != nil {
		return err
	}
	m.o.Emit(w.events...)
	if in.Change != nil && in.Change.ended != nil {
		in.Change.ended(w)
	}
	return nil
}

// announce reports a changed schedule to the leader of schedules.
func (m *Manager) announce(ctx context.Context, name string) {
	m.engine.heard(name)
	if err := m.o.Store.Publish(ctx, channel, []byte(name)); err != nil {
		m.log.DebugContext(ctx, "other nodes were not notified of a changed schedule; they read it later", "error", err)
	}
}

// callTimeout bounds the execution of an intent. It is much shorter than
// job.KeepOccurrence.
const callTimeout = 20 * time.Second

// atOnce bounds concurrent calls of the store for one schedule.
const atOnce = 16
