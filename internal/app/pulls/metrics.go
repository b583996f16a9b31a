package pulls

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/metered"
)

type metrics struct {
	leased  prometheus.Counter
	results map[Result]prometheus.Counter
}

func newMetrics(r prometheus.Registerer, waiting func() float64) (*metrics, error) {
	results := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "duehook_pull_answers_total",
		Help: "Receipts that consumers acknowledged, gave up or extended, by what became of them.",
	}, []string{"result"})
	m := &metrics{
		leased: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_pull_leases_total",
			Help: "Jobs that this node leased to consumers.",
		}),
		results: map[Result]prometheus.Counter{},
	}
	for _, result := range []Result{OK, Stale, Unknown} {
		m.results[result] = results.WithLabelValues(string(result))
	}
	return m, metered.Register(r, "pulls", m.leased, results, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "duehook_pull_waiting",
		Help: "Calls of consumers that wait for a job at this node.",
	}, waiting))
}
