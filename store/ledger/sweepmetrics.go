package ledger

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/store"
)

// sweepMetrics tell what comparing the journal and the store found. Each node
// counts what it did itself.
type sweepMetrics struct {
	restored, conflicts, repaired prometheus.Counter
	lastPass, seconds             prometheus.Gauge
}

func newSweepMetrics(r prometheus.Registerer) (*sweepMetrics, error) {
	m := &sweepMetrics{
		restored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_restored_jobs_total",
			Help: "Jobs of the journal that the store lacked, and that this node put back.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_restore_conflicts_total",
			Help: "Jobs that this node found differently in the journal and in the store.",
		}),
		repaired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_restore_repaired_total",
			Help: "Jobs of these that it made equal.",
		}),
		lastPass: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "duehook_restore_last_pass_timestamp_seconds",
			Help: "When this node last completed a comparison of all jobs; 0 on nodes that do not sweep.",
		}),
		seconds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "duehook_restore_pass_seconds",
			Help: "How long that took, with its pauses.",
		}),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.restored, m.conflicts, m.repaired, m.lastPass, m.seconds} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the metrics of the journal: %w", err)
	}
	return m, nil
}

func (m *sweepMetrics) add(r store.RestoreReport) {
	m.restored.Add(float64(r.Restored))
	m.conflicts.Add(float64(r.Conflicts))
	m.repaired.Add(float64(r.Repaired))
}
