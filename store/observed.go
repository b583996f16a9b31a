package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/job"
)

// Observe measures every call of s: duehook_store_seconds is how long calls
// took, by operation, and duehook_store_errors_total how many the store
// failed. An answer that the caller asked for, such as ErrNotFound or the
// error of Update's own change, is no failure of the store, nor is a call that
// was given up. Pop, Wakeups and
// Listen wait by design, so their time is not measured.
// The metrics are registered with r; when r is nil, s itself is returned.
func Observe(s Store, r prometheus.Registerer) (Store, error) {
	if r == nil {
		return s, nil
	}
	m := measures{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "duehook_store_seconds",
			Help:    "Duration of calls of the store, by operation.",
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, 1, 5},
		}, []string{"op"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_store_errors_total",
			Help: "Calls that the store failed, by operation.",
		}, []string{"op"}),
	}
	for _, c := range []prometheus.Collector{m.seconds, m.errors} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("registering the store's metrics: %w", err)
		}
	}
	return m.wrap(s), nil
}

// measures are the metrics of all operations.
type measures struct {
	seconds *prometheus.HistogramVec
	errors  *prometheus.CounterVec
}

func (m measures) op(name string) operation {
	o := m.waiting(name)
	o.seconds = m.seconds.WithLabelValues(name)
	return o
}

// waiting is an operation that waits by design.
func (m measures) waiting(name string) operation {
	return operation{errors: m.errors.WithLabelValues(name)}
}

// operation is the metrics of one operation.
type operation struct {
	seconds prometheus.Observer // nil: its time says nothing
	errors  prometheus.Counter
}

// begin and end stand around a call. They are no closure, so that measuring
// allocates nothing.
func (o operation) begin() time.Time {
	return time.Now() //nolint:forbidigo // the duration of a call, measured monotonically
}

func (o operation) end(began time.Time, err error) {
	if o.seconds != nil {
		o.seconds.Observe(time.Since(began).Seconds()) //nolint:forbidigo // see begin
	}
	if failed(err) {
		o.errors.Inc()
	}
}

func failed(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		ErrNotFound, ErrBadCursor, ErrConflict, ErrDegraded, ErrTopicFull, ErrTopicDraining, context.Canceled,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

func (m measures) wrap(s Store) *observed {
	return &observed{
		inner:    s,
		register: m.op("register"), update: m.op("update"), restore: m.op("restore"),
		get: m.op("get"), attempts: m.op("attempts"), outlook: m.op("outlook"), list: m.op("list"),
		topics: m.op("topics"), busiest: m.op("busiest"), topic: m.op("topic"), depth: m.op("depth"), deadGroups: m.op("dead_groups"),
		backlogs: m.op("backlogs"), circuits: m.op("circuits"),
		endpoints: m.op("endpoints"), dueCounts: m.op("due_counts"),
		carry: m.op("carry"), wakeups: m.waiting("wakeups"),
		lock: m.op("lock"), extend: m.op("extend"), unlock: m.op("unlock"),
		pop: m.waiting("pop"), claim: m.op("claim"), settle: m.op("settle"),
		hold: m.op("hold"), unhold: m.op("unhold"),
		purge: m.op("purge"), ping: m.op("ping"),
		standings: m.op("standings"), swapMarks: m.op("swap_marks"),
		document: m.op("document"), documents: m.op("list_documents"),
		publish: m.op("publish"), listen: m.waiting("listen"),
		setLimits: m.op("set_limits"), limits: m.op("limits"),
		putDocument: m.op("put_document"), deleteDocument: m.op("delete_document"),
	}
}

// observed does not embed the store it wraps, so that a new method cannot be
// forgotten here.
type observed struct {
	inner Store

	register, update, restore                     operation
	get, attempts, outlook, list                  operation
	topics, busiest, topic, depth, deadGroups     operation
	backlogs, circuits                            operation
	endpoints, dueCounts                          operation
	carry, wakeups, lock, extend, unlock          operation
	pop, claim, settle, hold, unhold, purge, ping operation
	standings, swapMarks                          operation
	document, documents                           operation
	putDocument, deleteDocument                   operation
	publish, listen                               operation
	setLimits, limits                             operation
}

func (s *observed) Register(ctx context.Context, regs []Registration) ([]Registered, error) {
	began := s.register.begin()
	res, err := s.inner.Register(ctx, regs)
	s.register.end(began, err)
	return res, err
}

func (s *observed) Update(
	ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error,
) (job.Job, error) {
	var refused error
	began := s.update.begin()
	j, err := s.inner.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		refused = change(j, now)
		return refused
	})
	failure := err
	if refused != nil && errors.Is(err, refused) {
		failure = nil
	}
	s.update.end(began, failure)
	return j, err
}

func (s *observed) Restore(ctx context.Context, jobs []RestoredJob) (int, error) {
	began := s.restore.begin()
	n, err := s.inner.Restore(ctx, jobs)
	s.restore.end(began, err)
	return n, err
}

func (s *observed) Get(ctx context.Context, key job.Key) (job.Job, error) {
	began := s.get.begin()
	j, err := s.inner.Get(ctx, key)
	s.get.end(began, err)
	return j, err
}

func (s *observed) Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error) {
	began := s.attempts.begin()
	log, err := s.inner.Attempts(ctx, key)
	s.attempts.end(began, err)
	return log, err
}

func (s *observed) Outlook(ctx context.Context, key job.Key) (Outlook, error) {
	began := s.outlook.begin()
	o, err := s.inner.Outlook(ctx, key)
	s.outlook.end(began, err)
	return o, err
}

func (s *observed) List(ctx context.Context, q Query) (Page, error) {
	began := s.list.begin()
	page, err := s.inner.List(ctx, q)
	s.list.end(began, err)
	return page, err
}

func (s *observed) Topics(ctx context.Context, q TopicQuery) (TopicPage, error) {
	began := s.topics.begin()
	page, err := s.inner.Topics(ctx, q)
	s.topics.end(began, err)
	return page, err
}

func (s *observed) Busiest(ctx context.Context, n int) ([]BusyTopic, error) {
	began := s.busiest.begin()
	topics, err := s.inner.Busiest(ctx, n)
	s.busiest.end(began, err)
	return topics, err
}

func (s *observed) Topic(ctx context.Context, topic string) (TopicStats, error) {
	began := s.topic.begin()
	stats, err := s.inner.Topic(ctx, topic)
	s.topic.end(began, err)
	return stats, err
}

func (s *observed) DeadGroups(ctx context.Context, topic string, limit int, cursor string) (DeadPage, error) {
	began := s.deadGroups.begin()
	page, err := s.inner.DeadGroups(ctx, topic, limit, cursor)
	s.deadGroups.end(began, err)
	return page, err
}

func (s *observed) Endpoints(ctx context.Context, q EndpointQuery) (EndpointPage, error) {
	began := s.endpoints.begin()
	page, err := s.inner.Endpoints(ctx, q)
	s.endpoints.end(began, err)
	return page, err
}

func (s *observed) DueCounts(ctx context.Context, bounds []job.Instant) (DueCounts, error) {
	began := s.dueCounts.begin()
	counts, err := s.inner.DueCounts(ctx, bounds)
	s.dueCounts.end(began, err)
	return counts, err
}

func (s *observed) Depth(ctx context.Context) (Depth, error) {
	began := s.depth.begin()
	d, err := s.inner.Depth(ctx)
	s.depth.end(began, err)
	return d, err
}

func (s *observed) Backlogs(ctx context.Context) (Backlogs, error) {
	began := s.backlogs.begin()
	b, err := s.inner.Backlogs(ctx)
	s.backlogs.end(began, err)
	return b, err
}

func (s *observed) Circuits(ctx context.Context) ([]EndpointCircuit, error) {
	began := s.circuits.begin()
	circuits, err := s.inner.Circuits(ctx)
	s.circuits.end(began, err)
	return circuits, err
}

func (s *observed) Shards() int { return s.inner.Shards() }

func (s *observed) Carry(ctx context.Context, shard int, o CarryOptions) (CarryResult, error) {
	began := s.carry.begin()
	res, err := s.inner.Carry(ctx, shard, o)
	s.carry.end(began, err)
	return res, err
}

func (s *observed) Wakeups(ctx context.Context, wake func(shard int)) error {
	err := s.inner.Wakeups(ctx, wake)
	s.wakeups.end(time.Time{}, err)
	return err
}

func (s *observed) Publish(ctx context.Context, channel string, message []byte) error {
	began := s.publish.begin()
	err := s.inner.Publish(ctx, channel, message)
	s.publish.end(began, err)
	return err
}

func (s *observed) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	err := s.inner.Listen(ctx, channel, receive)
	s.listen.end(time.Time{}, err)
	return err
}

func (s *observed) Locker(shard int) Locker {
	return &observedLocker{store: s, inner: s.inner.Locker(shard)}
}

func (s *observed) Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]Hint, error) {
	hints, err := s.inner.Pop(ctx, shard, limit, wait)
	s.pop.end(time.Time{}, err)
	return hints, err
}

func (s *observed) Claim(ctx context.Context, shard int, hints []Hint, o ClaimOptions) ([]Claimed, error) {
	began := s.claim.begin()
	claimed, err := s.inner.Claim(ctx, shard, hints, o)
	s.claim.end(began, err)
	return claimed, err
}

func (s *observed) Settle(ctx context.Context, settlements []job.Settlement) ([]Settled, error) {
	began := s.settle.begin()
	settled, err := s.inner.Settle(ctx, settlements)
	s.settle.end(began, err)
	return settled, err
}

func (s *observed) OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error {
	began := s.hold.begin()
	err := s.inner.OpenCircuit(ctx, endpoint, d)
	s.hold.end(began, err)
	return err
}

func (s *observed) CloseCircuit(ctx context.Context, endpoint string) error {
	began := s.unhold.begin()
	err := s.inner.CloseCircuit(ctx, endpoint)
	s.unhold.end(began, err)
	return err
}

func (s *observed) Standings(ctx context.Context, keys []job.Key) ([]Standing, error) {
	began := s.standings.begin()
	all, err := s.inner.Standings(ctx, keys)
	s.standings.end(began, err)
	return all, err
}

func (s *observed) SwapMarks(ctx context.Context, mark string) ([]string, error) {
	began := s.swapMarks.begin()
	before, err := s.inner.SwapMarks(ctx, mark)
	s.swapMarks.end(began, err)
	return before, err
}

func (s *observed) Purge(ctx context.Context, limit int) (int, error) {
	began := s.purge.begin()
	n, err := s.inner.Purge(ctx, limit)
	s.purge.end(began, err)
	return n, err
}

func (s *observed) Ping(ctx context.Context) error {
	began := s.ping.begin()
	err := s.inner.Ping(ctx)
	s.ping.end(began, err)
	return err
}

func (s *observed) Close() error { return s.inner.Close() }

// observedLocker measures a store's lock.
type observedLocker struct {
	store *observed
	inner Locker
}

func (l *observedLocker) TryLock(ctx context.Context, ttl time.Duration) (bool, error) {
	began := l.store.lock.begin()
	ok, err := l.inner.TryLock(ctx, ttl)
	l.store.lock.end(began, err)
	return ok, err
}

func (l *observedLocker) Extend(ctx context.Context) (bool, error) {
	began := l.store.extend.begin()
	ok, err := l.inner.Extend(ctx)
	l.store.extend.end(began, err)
	return ok, err
}

func (l *observedLocker) Unlock(ctx context.Context) error {
	began := l.store.unlock.begin()
	err := l.inner.Unlock(ctx)
	l.store.unlock.end(began, err)
	return err
}

func (s *observed) Document(ctx context.Context, kind, name string) (Document, error) {
	began := s.document.begin()
	d, err := s.inner.Document(ctx, kind, name)
	s.document.end(began, err)
	return d, err
}

func (s *observed) ListDocuments(ctx context.Context, kind string) ([]Document, error) {
	began := s.documents.begin()
	docs, err := s.inner.ListDocuments(ctx, kind)
	s.documents.end(began, err)
	return docs, err
}

func (s *observed) PutDocument(ctx context.Context, d Document) (Document, error) {
	began := s.putDocument.begin()
	stored, err := s.inner.PutDocument(ctx, d)
	s.putDocument.end(began, err)
	return stored, err
}

func (s *observed) DeleteDocument(ctx context.Context, kind, name string, version uint64) error {
	began := s.deleteDocument.begin()
	err := s.inner.DeleteDocument(ctx, kind, name, version)
	s.deleteDocument.end(began, err)
	return err
}

func (s *observed) SetLimits(ctx context.Context, topic string, l Limits) error {
	began := s.setLimits.begin()
	err := s.inner.SetLimits(ctx, topic, l)
	s.setLimits.end(began, err)
	return err
}

func (s *observed) Limits(ctx context.Context) (map[string]Limits, error) {
	began := s.limits.begin()
	all, err := s.inner.Limits(ctx)
	s.limits.end(began, err)
	return all, err
}
