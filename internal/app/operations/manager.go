package operations

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/internal/kit/storetime"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Bounds on stored operations.
const (
	// MaxKept is how many operations there can be, MaxAllBytes how much they take together.
	MaxKept     = 1000
	MaxAllBytes = 16 << 20
	// KeptFor is how long one is kept after its last change, unless it runs.
	KeptFor = 24 * time.Hour
)

// Store is what operations need of a store. Every store.Store is one.
type Store interface {
	store.Reader
	store.Documents
	store.Messaging
}

// Jobs changes jobs. An *app.App is one.
type Jobs interface {
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
	// CheckChange checks a change, which the field names, before its jobs are known.
	CheckChange(field job.Field, d *job.Draft) error
}

// Options are the settings of a Manager. Store, Jobs and ID are required.
type Options struct {
	Store Store
	Jobs  Jobs
	ID    string // of the node, unique to the process
	// Bounds are those of changes of jobs; zero values are those of WithDefaults.
	Bounds job.Bounds
	// Leader elects the node that works on operations; nil: no other node shares the store.
	Leader *leader.Leader
	// Clock paces the work; nil is the machine's. The store's clock
	// decides about jobs.
	Clock   job.Clock
	Time    *storetime.Clock      // nil: one of its own
	Logger  *slog.Logger          // nil: none
	Metrics prometheus.Registerer // nil: metrics are not registered
}

// Manager creates, reports and executes operations. Its methods are safe for concurrent
// use.
type Manager struct {
	store  Store
	jobs   Jobs
	docs   *documents.Collection[Operation]
	id     string
	leader *leader.Leader
	clock  job.Clock
	time   *storetime.Clock
	log    *slog.Logger
	limits job.Bounds
	kick   loops.Signal // an operation may need a worker
	outage *loops.Outage

	metrics *metrics

	mu      sync.Mutex
	working map[string]context.CancelFunc // by id of the operation
}

// New returns a Manager.
func New(o Options) (*Manager, error) {
	if o.Store == nil || o.Jobs == nil || o.ID == "" {
		return nil, errors.New("operations: Options.Store, Options.Jobs or Options.ID is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Time == nil {
		o.Time = storetime.New(o.Store, o.Clock)
	}
	m := &Manager{
		time:  o.Time,
		store: o.Store, jobs: o.Jobs, docs: collection(o.Store, o.Clock), id: o.ID, leader: o.Leader, clock: o.Clock, log: o.Logger, limits: o.Bounds.WithDefaults(),
		kick: loops.NewSignal(), working: map[string]context.CancelFunc{},
		outage: loops.NewOutage("working on operations", o.Clock, o.Logger, mathrand.Float64),
	}
	var err error
	m.metrics, err = newMetrics(o.Metrics, m.countWorking)
	return m, err
}

func (m *Manager) countWorking() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(len(m.working))
}

// Create begins an operation, or returns the one that its Idempotency-Key began. Errors: a
// *job.ValidationError, ErrKeyReused, ErrTooMany, or the store's.
func (m *Manager) Create(ctx context.Context, d Draft) (Operation, error) {
	o, err := m.draft(ctx, d)
	if err != nil {
		return Operation{}, err
	}
	if d.Key == "" {
		return m.create(ctx, &o)
	}
	if err := d.name(&o); err != nil {
		return Operation{}, err
	}
	found, err := m.repeated(ctx, &o)
	if !errors.Is(err, ErrNotFound) {
		return found, err
	}
	created, err := m.create(ctx, &o)
	if errors.Is(err, store.ErrConflict) { // another call was faster
		return m.repeated(ctx, &o)
	}
	return created, err
}

// repeated is the operation that has the id of o.
func (m *Manager) repeated(ctx context.Context, o *Operation) (Operation, error) {
	found, err := m.Get(ctx, o.ID)
	if err == nil && found.Content != o.Content {
		err = ErrKeyReused
	}
	return found, err
}

func (m *Manager) create(ctx context.Context, o *Operation) (_ Operation, err error) {
	if err := m.admit(ctx, o); err != nil {
		return Operation{}, err
	}
	if o.Estimate, err = m.estimate(ctx, o); err != nil {
		return Operation{}, err
	}
	return m.start(ctx, o)
}

// start stores an admitted operation, which starts it.
func (m *Manager) start(ctx context.Context, o *Operation) (Operation, error) {
	d := &stored{Head: documents.Head{Name: o.ID}, Value: *o}
	if err := m.docs.Put(ctx, d); err != nil {
		return Operation{}, err
	}
	m.announce(ctx)
	return operationOf(d), nil
}

func operationOf(d *stored) Operation {
	o := d.Value
	o.Version = d.Version
	return o
}

// shown is an operation as a caller may see it.
func shown(ctx context.Context, o Operation) Operation {
	o.Errors = slices.Clone(o.Errors)
	for i := range o.Errors {
		o.Errors[i].Message = access.SightOf(ctx).Text(o.Errors[i].Message)
	}
	return o
}

// admit sets the id of an operation and makes room for it: if necessary, it deletes the
// oldest ended operations.
func (m *Manager) admit(ctx context.Context, o *Operation) error {
	if o.ID == "" {
		id, err := ulid.New(uint64(o.StartedAt), rand.Reader)
		if err != nil {
			return fmt.Errorf("name an operation: %w", err)
		}
		o.ID = id.String()
	}
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode an operation: %w", err)
	}
	if err = m.docs.Reserve(ctx, 1, len(text)); !errors.Is(err, documents.ErrFull) {
		return err
	}
	if err := m.forgetOldest(ctx, len(text)); err != nil {
		return err
	}
	return m.docs.Reserve(ctx, 1, len(text))
}

func (m *Manager) draft(ctx context.Context, d Draft) (Operation, error) {
	if d.Set != nil {
		if err := m.jobs.CheckChange("set", d.Set); err != nil {
			return Operation{}, err
		}
	}
	now, err := store.Now(ctx, m.store)
	if err != nil {
		return Operation{}, fmt.Errorf("ask for the store's time: %w", err)
	}
	return d.operation(now, m.limits)
}

// estimate counts the jobs of a filter by the counts that the store keeps; nil: they do not
// suffice.
func (m *Manager) estimate(ctx context.Context, o *Operation) (*int64, error) {
	f := o.Filter
	if len(f.Only) > 0 {
		return nil, nil
	}
	f.Topic, f.States = "", nil
	if !selectsAll(f) {
		f.Endpoint, f.Reason = "", ""
		if selectsAll(f) && slices.Equal(o.Filter.States, []job.State{job.Dead}) {
			return m.estimateDead(ctx, &o.Filter)
		}
		return nil, nil
	}
	states, err := m.counts(ctx, o.Filter.Topic)
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	var n int64
	for _, s := range o.Filter.States {
		n += states[s]
	}
	return &n, nil
}

// counts returns the number of jobs by state, of one topic or of all.
func (m *Manager) counts(ctx context.Context, topic string) (map[job.State]int64, error) {
	if topic == "" {
		depth, err := listing.Depth(ctx, m.store)
		return depth.States, err
	}
	page, err := listing.Topics(ctx, m.store, store.TopicQuery{Topic: topic, Limit: 1})
	if err != nil || len(page.Topics) == 0 {
		return nil, err
	}
	return page.Topics[0].States, nil
}

// estimateDead counts dead letters of an endpoint, or for a reason; nil when
// there are too many groups of them.
func (m *Manager) estimateDead(ctx context.Context, f *store.Query) (*int64, error) {
	const pages, limit = 10, 1_000
	groups, all, err := store.ReadPages(pages, func(cursor string) ([]store.DeadGroup, string, error) {
		page, err := listing.DeadGroups(ctx, m.store, f.Topic, limit, cursor)
		return page.Groups, page.Next, err
	})
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	if !all {
		return nil, nil
	}
	var n int64
	for _, g := range groups {
		if (f.Endpoint == "" || f.Endpoint == g.Lane.Endpoint) && (f.Reason == "" || f.Reason == g.Reason) {
			n += g.Count
		}
	}
	return &n, nil
}

// forgetOldest deletes the oldest ended operations, until that many bytes are free.
func (m *Manager) forgetOldest(ctx context.Context, bytes int) error {
	all, err := m.byAge(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		d := &all[i]
		if !d.Value.State.Ended() {
			continue
		}
		size := len(d.Data)
		err := m.docs.Delete(ctx, d)
		switch {
		case err == nil || errors.Is(err, store.ErrNotFound):
			if bytes -= size; bytes <= 0 {
				return nil
			}
		case !errors.Is(err, store.ErrConflict):
			return err
		}
	}
	return nil
}

// byAge are the operations that can be read, the oldest first.
func (m *Manager) byAge(ctx context.Context) ([]stored, error) {
	raws, err := m.docs.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []stored
	for _, raw := range raws {
		d := m.docs.Decode(raw)
		if d.Err != nil {
			m.log.Error("an operation cannot be read; it is left to newer nodes", "error", d.Err)
			continue
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b stored) int { return strings.Compare(a.Value.age(), b.Value.age()) })
	return all, nil
}

// Page is a page of a listing; Next is empty on the last.
type Page struct {
	Operations []Operation
	Next       string
}

// List returns up to limit operations, the newest first, after the one that the cursor
// names. The error is the store's.
func (m *Manager) List(ctx context.Context, limit int, cursor string) (Page, error) {
	var page Page
	err := access.Paged(ctx, cursor, func(cursor string) (_ *string, err error) {
		page, err = m.list(ctx, limit, cursor)
		return &page.Next, err
	})
	return page, err
}

func (m *Manager) list(ctx context.Context, limit int, cursor string) (page Page, err error) {
	if err := documents.CheckCursor(cursor); err != nil {
		return Page{}, err
	}
	all, err := m.byAge(ctx)
	if err != nil {
		return Page{}, err
	}
	for i := range slices.Backward(all) {
		d := &all[i]
		if cursor != "" && d.Value.age() >= cursor {
			continue
		}
		if len(page.Operations) == limit {
			page.Next = page.Operations[limit-1].age()
			break
		}
		page.Operations = append(page.Operations, shown(ctx, operationOf(d)))
	}
	return page, nil
}

// Get returns one operation. Errors: ErrNotFound, or the store's.
func (m *Manager) Get(ctx context.Context, id string) (Operation, error) {
	d, err := m.docs.Get(ctx, id)
	return shown(ctx, operationOf(&d)), err
}

// Stop ends the work on an operation, within two seconds or so. It can be
// resumed. Errors: ErrNotFound, ErrEnded, those of allow, or the store's.
func (m *Manager) Stop(ctx context.Context, id string, allow ...documents.Allow) (Operation, error) {
	o, err := m.setState(ctx, id, Stopped, allow)
	if err == nil {
		m.mu.Lock()
		if cancel := m.working[id]; cancel != nil {
			cancel()
		}
		m.mu.Unlock()
	}
	return o, err
}

// Resume continues a stopped operation. Errors: those of Stop.
func (m *Manager) Resume(ctx context.Context, id string, allow ...documents.Allow) (Operation, error) {
	o, err := m.setState(ctx, id, Running, allow)
	m.kick.Set()
	return o, err
}

// setState starts or stops an operation. Its worker may write progress meanwhile, and
// notices the change by its next write.
func (m *Manager) setState(ctx context.Context, id string, to State, allow []documents.Allow) (Operation, error) {
	d, err := m.docs.Change(ctx, id, func(d *stored) error {
		switch {
		case d.Value.State.Ended():
			return ErrEnded
		case d.Value.State == to:
			return documents.ErrKept
		}
		d.Value.State = to
		return nil
	}, allow...)
	return operationOf(&d), err
}

// announce notifies all nodes of an operation without a worker, this node in any case.
func (m *Manager) announce(ctx context.Context) {
	m.kick.Set()
	if err := m.store.Publish(ctx, channel, []byte(m.id)); err != nil {
		m.log.DebugContext(ctx, "other nodes were not notified of an operation; they read it later", "error", err)
	}
}
