package carrier

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/store"
)

type metrics struct {
	rounds  prometheus.Counter
	seconds prometheus.Histogram
	carried *prometheus.CounterVec
	again   *prometheus.CounterVec
	held    *prometheus.GaugeVec
	purged  prometheus.Counter
	depth   depthGauges
}

func newMetrics() *metrics {
	m := &metrics{
		rounds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_carry_rounds_total",
			Help: "Calls that asked the store for due jobs.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "duehook_carry_seconds",
			Help:    "Duration of one round of carrying.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, 1, 5},
		}),
		carried: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_carried_total",
			Help: "Jobs moved to a ready list, by their state before.",
		}, []string{"from"}),
		again: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_carried_again_total",
			Help: "Jobs carried again: their lease expired (lease), or no worker claimed them in time (hint).",
		}, []string{"what"}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "duehook_carrier_lock_held",
			Help: "1 while this node holds the carrier's lock of the shard.",
		}, []string{"shard"}),
		purged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_purged_total",
			Help: "Ended jobs deleted after their retention.",
		}),
	}
	for from := job.Waiting; !from.Final(); from++ {
		m.carried.WithLabelValues(from.String())
	}
	m.again.WithLabelValues("lease")
	m.again.WithLabelValues("hint")
	return m
}

// register registers the metrics, without those of ready lists if there are none.
func (m *metrics) register(r prometheus.Registerer, lists bool) error {
	all := []prometheus.Collector{m.purged, &m.depth}
	if m.depth.lists = lists; lists {
		all = append(all, m.rounds, m.seconds, m.carried, m.again, m.held)
	}
	return metered.Register(r, "the carrier", all...)
}

// round counts a round and returns a function that ends its measurement.
func (m *metrics) round() func() {
	m.rounds.Inc()
	timer := prometheus.NewTimer(m.seconds)
	return func() { timer.ObserveDuration() }
}

func (m *metrics) carriedJobs(jobs []store.Carried) {
	var from [job.Delivered]int
	for _, c := range jobs {
		from[c.From]++
	}
	for state, n := range from {
		if n > 0 {
			m.carried.WithLabelValues(job.State(state).String()).Add(float64(n))
		}
	}
	m.again.WithLabelValues("lease").Add(float64(from[job.Running]))
	m.again.WithLabelValues("hint").Add(float64(from[job.Ready]))
}

func (m *metrics) lockHeld(shard int) prometheus.Gauge {
	return m.held.WithLabelValues(strconv.Itoa(shard))
}

// depthGauges shows the last sample of the store's depth. After a failed sampling it
// shows nothing: an old figure would hide a backlog. All nodes show the same store, so
// aggregate with max, not sum.
type depthGauges struct {
	last  atomic.Pointer[store.Depth]
	lists bool // the store has ready lists
}

var (
	jobsDesc  = prometheus.NewDesc("duehook_jobs", "Jobs in the store, by state.", []string{"state"}, nil)
	readyDesc = prometheus.NewDesc("duehook_ready_length", "Hints on the ready lists.", nil, nil)
	dueDesc   = prometheus.NewDesc("duehook_oldest_due_seconds", "Time since the oldest due job has been due, in seconds.", nil, nil)
	openDesc  = prometheus.NewDesc("duehook_open_circuits", "Endpoints whose circuit is open or half-open.", nil, nil)
	keysDesc  = prometheus.NewDesc("duehook_order_keys", "Order keys with unfinished jobs, or stopped by a dead letter.", nil, nil)
	waitsDesc = prometheus.NewDesc("duehook_order_waiting_jobs", "Jobs that wait for another job of their order key.", nil, nil)
)

func (g *depthGauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsDesc
	if g.lists {
		ch <- readyDesc
	}
	ch <- dueDesc
	ch <- openDesc
	ch <- keysDesc
	ch <- waitsDesc
}

func (g *depthGauges) Collect(ch chan<- prometheus.Metric) {
	d := g.last.Load()
	if d == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range job.States {
		gauge(jobsDesc, float64(d.States[s]), s.String())
	}
	var overdue float64
	if d.OldestDue != 0 {
		overdue = max(0, d.Now.Sub(d.OldestDue).Seconds())
	}
	if g.lists {
		gauge(readyDesc, float64(d.ReadyList))
	}
	gauge(dueDesc, overdue)
	gauge(openDesc, float64(d.OpenCircuits))
	gauge(keysDesc, float64(d.OrderKeys))
	gauge(waitsDesc, float64(d.Behind))
}
