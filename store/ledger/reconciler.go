package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// Reconciling configures a Reconciler.
type Reconciling struct {
	Pace Pace
	// BeforeRestore is called before jobs are restored to a store that has lost some, to
	// restore its other data first; may be nil.
	BeforeRestore func(ctx context.Context) error
}

// Reconciler makes a store and its journal equal.
type Reconciler struct {
	j       *journal.Journal
	inner   store.Restorable
	o       Options // without AcceptWithout
	shared  bool    // other nodes use the store and the journal
	metrics *metrics
	asked   chan struct{} // a run was asked for

	mu       sync.Mutex
	compared time.Time // when the last full pass of this process began
}

// NewReconciler makes a Reconciler for a journal of one process. It works on request only.
func NewReconciler(s *journal.Store, o Reconciling) (*Reconciler, error) {
	return newReconciler(s, o, false)
}

func newReconciler(of *journal.Store, o Reconciling, shared bool) (*Reconciler, error) {
	o.Pace.setDefaults()
	s := &Reconciler{
		j: of.Journal, inner: of.Inner, o: Options{Options: of.Options(), Reconciling: o},
		shared: shared, metrics: newMetrics(), asked: make(chan struct{}, 1),
	}
	return s, s.metrics.register(s.o.Metrics)
}

func (s *Reconciler) comparer() comparer { return comparer{s.j.Reader, s.inner} }

// mayForget reports whether the store may delete jobs that ended longer ago than its
// retention. A shared one may if a full pass began since. Otherwise the journal could
// restore a job whose end only the store has, because another node has not journaled it
// yet. So the reconciling node purges the store.
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
