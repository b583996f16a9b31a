package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/internal/services/leader"
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
	store.Figuring
	store.Documents
	store.Messaging
}

// Jobs registers, changes and reads jobs. A *app.App is one.
type Jobs interface {
	CheckTemplate(d *job.Draft) error
	Occurrence(ctx context.Context, d *job.Draft, o app.Occurrence) ([]store.Registration, error)
	HasGroupJob(ctx context.Context, topic, groupID string, unfinished bool) (bool, error)
	Members(ctx context.Context, group string) (int, error)
	RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
	Get(ctx context.Context, key job.Key) (job.Job, error)
}

// Options are the settings of a Manager. Store, Jobs and ID are required.
type Options struct {
	Store  Store
	Jobs   Jobs
	RunLog *RunLog // nil: no runs are known
	ID     string  // of the node, unique to the process
	// Leader elects the node that decides; nil: no other node shares the store.
	Leader *leader.Leader
	// TZData is the release of the time zones; empty: that of package schedule.
	TZData string
	// MaxRate bounds the jobs that all schedules together register, per second; those of a topic may register half.
	// Zero: no bound.
	MaxRate int
	// Clock paces the work; nil is the machine's. The store's clock decides.
	Clock   job.Clock
	Logger  *slog.Logger            // nil: none
	Metrics prometheus.Registerer   // nil: metrics are not registered
	Emit    func(e ...events.Event) // nil: nobody watches
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
	rates   rates

	// mayPurge is false while an ended job may still be needed: see MayPurge.
	mayPurge atomic.Bool
}

// New returns a Manager. It starts nothing.
func New(o Options) (*Manager, error) {
	if o.Store == nil || o.Jobs == nil || o.ID == "" {
		return nil, errors.New("schedules: Options.Store, Options.Jobs or Options.ID is missing")
	}
	o.Clock, o.TZData = cmp.Or(o.Clock, job.SystemClock()), cmp.Or(o.TZData, schedule.TZData())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Emit == nil {
		o.Emit = func(...events.Event) {}
	}
	if o.RunLog == nil {
		o.RunLog = NewRunLog(o.Store, o.Clock, o.Logger)
	}
	if o.fail == nil {
		o.fail = func(string) error { return nil }
	}
	m := &Manager{o: o, docs: collection(o.Store, o.Clock), log: o.Logger, clock: o.Clock}
	m.o.RunLog.pause = m.stop
	m.engine = m.newEngine()
	var err error
	m.metrics, err = newMetrics(o.Metrics)
	return m, err
}

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
	for _, field := range d.Given("id", "uid", "delay", "at", "on_conflict", "count") {
		f.Add(field.Within("job"), "is given by the schedule: leave it out")
	}
	if err := f.Take("job", m.o.Jobs.CheckTemplate(d)); err != nil {
		return err
	}
	return f.Err()
}

// busy reports whether a job of the schedule is unfinished, and forgets ended ones.
func (m *Manager) busy(ctx context.Context, r *record) (bool, error) {
	open := make([]bool, len(r.Open))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, key := range r.Open {
		group.Go(func() error {
			if id, is := strings.CutSuffix(key.ID, job.MemberID("", "")); is {
				var err error
				open[i], err = m.o.Jobs.HasGroupJob(ctx, key.Topic, id, true)
				return err
			}
			j, err := m.o.Jobs.Get(ctx, key)
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

// announce reports a changed schedule to the leader of schedules.
func (m *Manager) announce(ctx context.Context, name string) {
	m.engine.heard(name)
	if err := m.o.Store.Publish(ctx, channel, []byte(name)); err != nil {
		m.log.DebugContext(ctx, "other nodes were not notified of a changed schedule; they read it later", "error", err)
	}
}

// callTimeout bounds the registration of occurrences. It is much shorter than
// job.KeepOccurrence.
const callTimeout = 20 * time.Second

// atOnce bounds concurrent calls of the store for one schedule.
const atOnce = 16
