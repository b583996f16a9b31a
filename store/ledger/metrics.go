package ledger

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	down     prometheus.Gauge
	accepted prometheus.Counter
	waiting  prometheus.Gauge
	dropped  prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		down: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "duehook_ledger_down",
			Help: "1 while the ledger cannot be written.",
		}),
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_ledger_accepted_without_total",
			Help: "Registrations that were accepted while the ledger was down.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "duehook_ledger_waiting_rows",
			Help: "Rows of changes that the store has and that wait to be written to the ledger.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_ledger_dropped_rows_total",
			Help: "Rows of changes that were not kept for the ledger, because too many waited.",
		}),
	}
}

// register registers the metrics with r, which may be nil.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.down, m.accepted, m.waiting, m.dropped} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("registering the ledger's metrics: %w", err)
		}
	}
	return nil
}
