package ledger

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// ReconcilerOptions configure a Reconciler.
type ReconcilerOptions struct {
	Metrics prometheus.Registerer // nil: nowhere
	Clock   job.Clock             // nil: the machine's
	Logger  *slog.Logger          // nil discards
	// StoreRetention is that of Options.
	StoreRetention time.Duration
	// Pace of comparisons.
	Pace Pace
	// BeforeRestore is that of Options.
	BeforeRestore func(ctx context.Context) error
}

// Reconciler makes a store and its journal equal.
type Reconciler struct {
	j       *journal.Journal
	inner   store.Store
	o       ReconcilerOptions
	shared  bool // other nodes use the store and the journal
	metrics *metrics
	rewrite func(*journal.Group, *journal.Message)
	asked   chan struct{} // a run was asked for

	mu       sync.Mutex
	compared time.Time // when the last complete comparison by this process began
}

// NewReconciler makes a Reconciler for a journal that one process has. It works on
// request only.
func NewReconciler(s *journal.Store, o ReconcilerOptions) (*Reconciler, error) {
	return newReconciler(s.Journal, s.Inner, o, rewriteAlone)
}

func newReconciler(j *journal.Journal, inner store.Store, o ReconcilerOptions, rewrite func(*journal.Group, *journal.Message)) (*Reconciler, error) {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Pace.setDefaults()
	s := &Reconciler{j: j, inner: inner, o: o, metrics: newMetrics(), rewrite: rewrite, asked: make(chan struct{}, 1)}
	return s, s.metrics.register(o.Metrics)
}

func (s *Reconciler) comparer() comparer { return comparer{s.j.Reader, s.inner} }

// mayForget reports whether the store may delete jobs that ended longer ago than its
// retention. A shared one may if all jobs were compared since: the end of a job must not
// be forgotten as long as the journal would restore the job, because the node that knows
// has not written the end yet. So the reconciling node purges the store.
func (s *Reconciler) mayForget() bool {
	s.mu.Lock()
	compared := s.compared
	s.mu.Unlock()
	return !compared.IsZero() && s.o.Clock.Now().Sub(compared) < s.o.StoreRetention
}

// setCompared notes that all jobs were compared, and when that began.
func (s *Reconciler) setCompared(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compared = began
}
