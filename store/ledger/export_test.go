package ledger

import (
	"context"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/store"
)

// HeadStart is how late a job may be after a crash in the wrong moment.
const HeadStart = headStart

// CompareOnce compares all jobs once, without pauses.
func (s *Reconciler) CompareOnce(ctx context.Context) (store.RestoreReport, error) {
	p := s.startPass(ctx, passOptions{urgent: true})
	<-p.done
	if p.err == nil {
		p.log()
		s.setCompared(p.began)
	}
	return p.report(), p.err
}

// Restored is how many jobs this node put back.
func (s *Reconciler) Restored(t testing.TB) float64 {
	t.Helper()
	return testutil.ToFloat64(s.metrics.restored)
}

// Unchecked lets claims go unchecked from now on.
func (s *Store) Unchecked() { s.checkFrom.Store(math.MaxInt64) }

// MayForget reports whether the store may forget what has ended.
func (s *Reconciler) MayForget() bool { return s.mayForget() }
