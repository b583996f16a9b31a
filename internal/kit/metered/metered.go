// Package metered registers metrics, and measures the calls of a store.
package metered

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Store measures every call of s: duehook_store_seconds is the duration of calls, by
// operation, and duehook_store_errors_total counts the calls that the store failed. An
// answer that the caller asked for, such as store.ErrNotFound or the error of Update's
// change, is no failure of the store, nor is a cancelled call. Take and Listen
// wait by design, so their duration is not measured. duehook_leases_expired_total counts the jobs that Take returned after an earlier
// lease had expired. Lists are the ready lists of s, or nil. The metrics are registered with r;
// if r is nil, s and lists themselves are returned.
func Store(s store.Store, lists store.ReadyList, r prometheus.Registerer) (store.Store, store.ReadyList, error) {
	if r == nil {
		return s, lists, nil
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "duehook_store_seconds",
		Help:    "Duration of calls of the store, by operation.",
		Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, 1, 5},
	}, []string{"op"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "duehook_store_errors_total",
		Help: "Failed calls of the store, by operation.",
	}, []string{"op"})
	expired := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "duehook_leases_expired_total",
		Help: "Jobs claimed again because the lease of an earlier claim had expired.",
	})
	if err := Register(r, "the store", seconds, failures, expired); err != nil {
		return nil, nil, err
	}
	o := &observed{inner: s, ops: map[string]operation{}, expired: expired}
	measuredOps := strings.Fields(storeOps)
	if lists != nil {
		measuredOps = append(measuredOps, strings.Fields(listOps)...)
	}
	for _, name := range measuredOps {
		o.ops[name] = operation{seconds.WithLabelValues(name), failures.WithLabelValues(name)}
	}
	for _, name := range strings.Fields(waitingOps) {
		o.ops[name] = operation{errors: failures.WithLabelValues(name)}
	}
	if lists == nil {
		return o, nil, nil
	}
	return o, &observedLists{o, lists}, nil
}

// The operations. The waiting ones wait by design.
const (
	storeOps = `register update count get outlook names entries read figures
		settle set_circuit purge ping list_documents put_documents publish set_limits`
	listOps    = "carry lock extend unlock"
	waitingOps = "take listen"
)

// operation is the metrics of one operation.
type operation struct {
	seconds prometheus.Observer // nil: not measured
	errors  prometheus.Counter
}

// observed does not embed the store that it wraps, so that no method can be forgotten.
type observed struct {
	inner   store.Store
	ops     map[string]operation
	expired prometheus.Counter
}

// measured makes a call. The closure does not escape: measuring allocates nothing.
func measured[T any](s *observed, op string, call func() (T, error)) (T, error) {
	began := time.Now() //nolint:forbidigo // the duration of a call, measured monotonically
	result, err := call()
	s.ops[op].note(began, err)
	return result, err
}

// measuredError makes a call that returns an error only.
func measuredError(s *observed, op string, call func() error) error {
	began := time.Now() //nolint:forbidigo // see measured
	err := call()
	s.ops[op].note(began, err)
	return err
}

func (o operation) note(began time.Time, err error) {
	if o.seconds != nil {
		o.seconds.Observe(time.Since(began).Seconds()) //nolint:forbidigo // see measured
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
		store.ErrNotFound, store.ErrBadCursor, store.ErrConflict, store.ErrTopicFull, store.ErrTopicDraining, context.Canceled,
		job.ErrNotCounted, job.ErrFinished, job.ErrInFlight,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

func (s *observed) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	return measured(s, "register", func() ([]store.Registered, error) { return s.inner.Register(ctx, regs) })
}

func (s *observed) Update(
	ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error,
) (job.Job, error) {
	var refused error
	var j job.Job
	var err error
	_ = measuredError(s, "update", func() error {
		j, err = s.inner.Update(ctx, key, func(j *job.Job, now job.Instant) error {
			refused = change(j, now)
			return refused
		})
		if refused != nil && errors.Is(err, refused) {
			return nil
		}
		return err
	})
	return j, err
}

func (s *observed) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	return measured(s, "count", func() (store.Counted, error) { return s.inner.Count(ctx, c) })
}

func (s *observed) Get(ctx context.Context, key job.Key) (job.Job, error) {
	return measured(s, "get", func() (job.Job, error) { return s.inner.Get(ctx, key) })
}

func (s *observed) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	return measured(s, "outlook", func() (store.Outlook, error) { return s.inner.Outlook(ctx, key) })
}

func (s *observed) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	return measured(s, "names", func() ([]string, error) { return s.inner.Names(ctx, q) })
}

func (s *observed) Entries(ctx context.Context, of store.Index, span store.Span) (entries []store.Entry, next *store.Position, err error) {
	err = measuredError(s, "entries", func() (err error) {
		entries, next, err = s.inner.Entries(ctx, of, span)
		return err
	})
	return entries, next, err
}

func (s *observed) Read(ctx context.Context, q store.ReadQuery) (store.Records, error) {
	return measured(s, "read", func() (store.Records, error) { return s.inner.Read(ctx, q) })
}

func (s *observed) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	return measured(s, "figures", func() (store.Figures, error) { return s.inner.Figures(ctx, q) })
}

func (s *observed) Shards() int { return s.inner.Shards() }

func (s *observed) Publish(ctx context.Context, channel string, message []byte) error {
	return measuredError(s, "publish", func() error { return s.inner.Publish(ctx, channel, message) })
}

func (s *observed) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	return measuredError(s, "listen", func() error { return s.inner.Listen(ctx, channel, receive) })
}

func (s *observed) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	taken, err := measured(s, "take", func() (store.Taken, error) { return s.inner.Take(ctx, shard, o) })
	for i := range taken.Claims {
		if taken.Claims[i].From == job.Running {
			s.expired.Inc()
		}
	}
	return taken, err
}

func (s *observed) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	return measured(s, "settle", func() ([]store.Settled, error) { return s.inner.Settle(ctx, settlements) })
}

func (s *observed) SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error {
	return measuredError(s, "set_circuit", func() error { return s.inner.SetCircuit(ctx, endpoint, to, d) })
}

func (s *observed) Purge(ctx context.Context, limit int) (int, error) {
	return measured(s, "purge", func() (int, error) { return s.inner.Purge(ctx, limit) })
}

func (s *observed) Ping(ctx context.Context) error {
	return measuredError(s, "ping", func() error { return s.inner.Ping(ctx) })
}

func (s *observed) Close() error { return s.inner.Close() }

// observedLists measures the ready lists of a store.
type observedLists struct {
	store *observed
	inner store.ReadyList
}

func (l *observedLists) Shards() int { return l.inner.Shards() }

func (l *observedLists) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	return measured(l.store, "carry", func() (store.CarryResult, error) { return l.inner.Carry(ctx, shard, o) })
}

func (l *observedLists) Locker(shard int) store.Locker {
	return &observedLocker{store: l.store, inner: l.inner.Locker(shard)}
}

// observedLocker measures a store's lock.
type observedLocker struct {
	store *observed
	inner store.Locker
}

func (l *observedLocker) TryLock(ctx context.Context, ttl time.Duration) (bool, error) {
	return measured(l.store, "lock", func() (bool, error) { return l.inner.TryLock(ctx, ttl) })
}

func (l *observedLocker) Extend(ctx context.Context) (bool, error) {
	return measured(l.store, "extend", func() (bool, error) { return l.inner.Extend(ctx) })
}

func (l *observedLocker) Unlock(ctx context.Context) error {
	return measuredError(l.store, "unlock", func() error { return l.inner.Unlock(ctx) })
}

func (s *observed) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	return measured(s, "list_documents", func() ([]store.Document, error) { return s.inner.ListDocuments(ctx, q) })
}

func (s *observed) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	return measured(s, "put_documents", func() ([]uint64, error) { return s.inner.PutDocuments(ctx, docs) })
}

func (s *observed) SetLimits(ctx context.Context, topic string, l store.Limits) error {
	return measuredError(s, "set_limits", func() error { return s.inner.SetLimits(ctx, topic, l) })
}
