package ledger

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/store"
)

// metrics tell of the journal, and of what comparing it with the store found.
// Each node counts what it did itself.
type metrics struct {
	down, waiting     prometheus.Gauge
	accepted, dropped prometheus.Counter

	restored, conflicts, repaired     prometheus.Counter
	unreadable, lastPass, passSeconds prometheus.Gauge
	noRoom                            prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		down:     gauge("duehook_ledger_down", "1 while the ledger cannot be written."),
		accepted: counter("duehook_ledger_accepted_without_total", "Registrations that were accepted while the ledger was down."),
		waiting:  gauge("duehook_ledger_waiting_rows", "Rows of changes that the store has and that wait to be written to the ledger."),
		dropped:  counter("duehook_ledger_dropped_rows_total", "Rows of changes that were not kept for the ledger, because too many waited."),
		restored: counter("duehook_restored_jobs_total", "Jobs of the journal that the store lacked, and that this node put back."),
		conflicts: counter("duehook_restore_conflicts_total",
			"Jobs that this node found differently in the journal and in the store."),
		repaired: counter("duehook_restore_repaired_total", "Jobs of these that it made equal."),
		unreadable: gauge("duehook_restore_unreadable_jobs",
			"Jobs of the journal that this node could not read when it started, or last completed a comparison of all jobs."),
		noRoom: gauge("duehook_restore_no_room_jobs",
			"Jobs of the journal that the store lacked and had no room for when this node last completed a comparison of all jobs."),
		lastPass: gauge("duehook_restore_last_pass_timestamp_seconds",
			"When this node last completed a comparison of all jobs; 0 on nodes that do not sweep."),
		passSeconds: gauge("duehook_restore_pass_seconds", "How long that took, with its pauses."),
	}
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// register registers the metrics with r, which may be nil.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.down, m.waiting, m.accepted, m.dropped,
		m.restored, m.conflicts, m.repaired, m.unreadable, m.noRoom, m.lastPass, m.passSeconds,
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register the metrics of the journal: %w", err)
	}
	return nil
}

// add counts what a comparison did.
func (m *metrics) add(r store.RestoreReport) {
	m.restored.Add(float64(r.Restored))
	m.conflicts.Add(float64(r.Conflicts))
	m.repaired.Add(float64(r.Repaired))
}
