package dispatcher

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
)

// outcomeNames are the values of the label "outcome".
var outcomeNames = [...]string{
	job.OutcomeDelivered:    "delivered",
	job.OutcomeFailed:       "failed",
	job.OutcomeRefused:      "refused",
	job.OutcomeSnoozed:      "snoozed",
	job.OutcomeReleased:     "released",
	job.OutcomeExpired:      "expired",
	job.OutcomeCancelled:    "cancelled",
	job.OutcomeLeaseExpired: "lease_expired",

	job.OutcomeRescheduled: "rescheduled",
}

var (
	latenessBuckets = []float64{.001, .002, .004, .008, .016, .032, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// shedReasons are the values of the label "reason" of duehook_shed_total.
var shedReasons = [...]string{job.ShedPassing: "topic_full", job.ShedContent: "store_full"}

type metrics struct {
	topics        *metered.Topics
	latenessFirst prometheus.Observer
	latenessRetry prometheus.Observer
	duration      prometheus.Histogram
	inFlight      prometheus.Gauge
	workers       prometheus.Gauge
	reconnects    prometheus.Counter
	stale         prometheus.Counter
	dropped       prometheus.Counter
	shed          [len(shedReasons)]prometheus.Counter

	broughtForward prometheus.Counter
}

// newMetrics returns the metrics, registered with r unless that is nil.
func newMetrics(r prometheus.Registerer, circuits func() map[gobreaker.State]int) (*metrics, error) {
	topics, err := metered.NewTopics(r, outcomeNames[:])
	if err != nil {
		return nil, err
	}
	lateness := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "duehook_lateness_seconds", Buckets: latenessBuckets,
		Help: "Time from the due time of an attempt to its start, by the store's clock.",
	}, []string{"attempt"})
	m := &metrics{
		topics:        topics,
		latenessFirst: lateness.WithLabelValues("first"),
		latenessRetry: lateness.WithLabelValues("retry"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "duehook_attempt_seconds", Buckets: durationBuckets,
			Help: "Duration of delivery attempts, from dialling to the last byte read.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "duehook_in_flight", Help: "Deliveries in flight.",
		}),
		workers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "duehook_workers", Help: "Workers for deliveries.",
		}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_connect_retries_total",
			Help: "Repeated connections of attempts whose request had not been sent.",
		}),
		stale: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_settle_stale_total",
			Help: "Outcomes not stored because the job was leased again or had ended.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_settle_dropped_total",
			Help: "Outcomes that could not be stored; their jobs are delivered again.",
		}),
		broughtForward: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duehook_brought_forward_total",
			Help: "Retries brought forward after an outage of their endpoint.",
		}),
	}
	shed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "duehook_shed_total",
		Help: "Outcomes with callbacks, or parts of them, left out for want of room.",
	}, []string{"reason"})
	for level := job.ShedPassing; int(level) < len(shedReasons); level++ {
		m.shed[level] = shed.WithLabelValues(shedReasons[level])
	}
	return m, metered.Register(r, "the dispatcher",
		lateness, m.duration, m.inFlight, m.workers, m.reconnects, m.stale, m.dropped, shed, m.broughtForward, circuitStates(circuits))
}

// circuitStates counts circuits by state when metrics are read.
type circuitStates func() map[gobreaker.State]int

var circuitsDesc = prometheus.NewDesc("duehook_breakers",
	"Endpoints by the state of their circuit breaker.", []string{"state"}, nil)

func (circuitStates) Describe(ch chan<- *prometheus.Desc) { ch <- circuitsDesc }

func (count circuitStates) Collect(ch chan<- prometheus.Metric) {
	n := count()
	for _, state := range []gobreaker.State{gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen} {
		ch <- prometheus.MustNewConstMetric(circuitsDesc, prometheus.GaugeValue, float64(n[state]), state.String())
	}
}

// observeLateness is of an attempt that has ended.
func (m *metrics) observeLateness(j *job.Job, late time.Duration, traceID string) {
	if j.Attempts == 0 {
		observe(m.latenessFirst, late, traceID)
	} else {
		observe(m.latenessRetry, late, traceID)
	}
}

// observe adds the trace of an attempt, if it is recorded, as an exemplar.
func observe(in prometheus.Observer, d time.Duration, traceID string) {
	if with, ok := in.(prometheus.ExemplarObserver); ok && traceID != "" {
		with.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": traceID})
		return
	}
	in.Observe(d.Seconds())
}
