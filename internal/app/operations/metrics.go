package operations

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/metered"
)

// Results for a job of an operation.
const (
	resultChanged = "changed"
	resultSkipped = "skipped"
	resultFailed  = "failed"
)

type metrics struct {
	jobs    *prometheus.CounterVec
	ended   *prometheus.CounterVec
	working prometheus.GaugeFunc
}

// newMetrics registers the metrics with r, unless that is nil.
func newMetrics(r prometheus.Registerer, working func() float64) (*metrics, error) {
	m := &metrics{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_operation_jobs_total", Help: "Jobs that operations processed, by action and result.",
		}, []string{"action", "result"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_operation_ended_total", Help: "Operations that this node ended, by action and final state.",
		}, []string{"action", "state"}),
		working: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "duehook_operation_working", Help: "Operations that run on this node.",
		}, working),
	}
	for action := range states {
		for _, result := range []string{resultChanged, resultSkipped, resultFailed} {
			m.jobs.WithLabelValues(string(action), result)
		}
		for _, s := range []State{Done, Failed} {
			m.ended.WithLabelValues(string(action), string(s))
		}
	}
	return m, metered.Register(r, "operations", m.jobs, m.ended, m.working)
}
