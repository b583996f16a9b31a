package schedules

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/schedule"
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
			Name: "duehook_schedules", Help: "Schedules by state, on the node that looks after them; zero on the others. Failing ones cannot be executed.",
		}, []string{"state"}),
	}
	for _, o := range []schedule.Outcome{schedule.Fired, schedule.Missed, schedule.Skipped, schedule.Failed} {
		m.outcomes.WithLabelValues(string(o))
	}
	for _, s := range countedStates {
		m.count.WithLabelValues(string(s))
	}
	return m, metered.Register(r, "schedules", m.outcomes, m.delay, m.count)
}
