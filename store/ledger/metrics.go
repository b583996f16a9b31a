package ledger

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/store"
)

// metrics are those of this node.
type metrics struct {
	down, waiting, unreadable, noRoom, lastPass, passSeconds prometheus.Gauge
	dropped, restored, conflicts, repaired                   prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		down:    gauge("duehook_ledger_down", "1 while the ledger cannot be written."),
		waiting: gauge("duehook_ledger_waiting_rows", "Rows of changes of the store that wait to be written to the ledger."),
		dropped: counter("duehook_ledger_dropped_rows_total", "Rows of changes dropped because too many waited for the ledger."),
		unreadable: gauge("duehook_restore_unreadable_jobs",
			"Jobs of the ledger that this node could not read in its last complete pass."),
		restored:  counter("duehook_restored_jobs_total", "Lost jobs that this node restored from the ledger."),
		conflicts: counter("duehook_restore_conflicts_total", "Jobs that differed between the ledger and the store, found by this node."),
		repaired:  counter("duehook_restore_repaired_total", "Differing jobs that this node repaired."),
		noRoom: gauge("duehook_restore_no_room_jobs",
			"Lost jobs for which the store had no room in the last complete pass of this node."),
		lastPass: gauge("duehook_restore_last_pass_timestamp_seconds",
			"Time of the last complete pass of this node; 0 if it has made none."),
		passSeconds: gauge("duehook_restore_pass_seconds", "Duration of the last complete pass, with its pauses."),
	}
}

// register registers the metrics with r, which may be nil.
func (m *metrics) register(r prometheus.Registerer) error {
	return metered.Register(r, "the ledger", m.down, m.waiting, m.dropped, m.unreadable,
		m.restored, m.conflicts, m.repaired, m.noRoom, m.lastPass, m.passSeconds)
}

// add counts the report of a pass.
func (m *metrics) add(r store.RestoreReport) {
	m.restored.Add(float64(r.Restored))
	m.conflicts.Add(float64(r.Conflicts))
	m.repaired.Add(float64(r.Repaired))
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}
