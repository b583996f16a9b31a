package schedules

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/schedule"
)

type metrics struct {
	outcomes *prometheus.CounterVec
	delay    prometheus.Histogram
	count    *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_schedule_occurrences_total", Help: "Occurrences of schedules that this node decided, by outcome.",
		}, []string{"outcome"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "duehook_schedule_decision_delay_seconds", Help: "Time from when an occurrence could be decided to its decision.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		count: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "duehook_schedules", Help: "Schedules by state, on the node that looks after them; zero on the others.",
		}, []string{"state"}),
	}
	for _, o := range []schedule.Outcome{schedule.Fired, schedule.Missed, schedule.Skipped, schedule.Failed} {
		m.outcomes.WithLabelValues(string(o))
	}
	for _, s := range States {
		m.count.WithLabelValues(string(s))
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.outcomes, m.delay, m.count} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of schedules: %w", err)
		}
	}
	return m, nil
}
