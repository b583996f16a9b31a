package journal

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/metered"
)

// metrics are those of the journal on this node.
type metrics struct{ down, waiting, unreadable prometheus.Gauge }

func newMetrics() *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &metrics{
		down:    gauge("duehook_ledger_down", "1 while the ledger cannot be written."),
		waiting: gauge("duehook_ledger_waiting_rows", "Rows of changes of the store that wait to be written to the ledger."),
		unreadable: gauge("duehook_restore_unreadable_jobs",
			"Jobs of the journal that this node could not read at its start or in its last complete pass."),
	}
}

// register registers the metrics with r, which may be nil.
func (m *metrics) register(r prometheus.Registerer) error {
	return metered.Register(r, "the journal", m.down, m.waiting, m.unreadable)
}

// SetUnreadable reports how many jobs of the journal cannot be read.
func (j *Journal) SetUnreadable(jobs int) { j.metrics.unreadable.Set(float64(jobs)) }
