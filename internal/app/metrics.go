package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/store"
)

// OutcomeNames names the outcomes of registrations in the store.
var OutcomeNames = map[store.RegisterOutcome]string{
	store.Created:       "created",
	store.Same:          "same",
	store.Kept:          "kept",
	store.Moved:         "moved",
	store.Exists:        "exists",
	store.InFlight:      "in_flight",
	store.DeadLetter:    "dead",
	store.Busy:          "busy",
	store.KeyReused:     "key_reused",
	store.OtherOrderKey: "other_order_key",
	store.TopicFull:     "topic_full",
	store.TopicDraining: "topic_draining",
	store.StoreFull:     outcomeUnavailable,
}

// The outcomes of registrations that the store did not decide.
const (
	outcomeInvalid     = "invalid"
	outcomeUnavailable = "unavailable"
)

type metrics struct {
	registrations, counts *prometheus.CounterVec
	fanOuts               prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{registrations: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "duehook_registrations_total",
		Help: "Registrations of clients, by outcome.",
	}, []string{"outcome"}), counts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "duehook_counts_total",
		Help: "Calls of clients that count towards the target of a job, by outcome.",
	}, []string{"outcome"}), fanOuts: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "duehook_fan_out_jobs",
		Help:    "Jobs of registrations for groups, with those that a repetition found registered.",
		Buckets: []float64{0, 1, 10, 100, MaxJobs},
	})}
	for _, outcome := range []string{"counted", "repeated", "late", "refused", outcomeUnavailable} {
		m.counts.WithLabelValues(outcome)
	}
	m.count(outcomeInvalid, 0) // so that every outcome is shown from the start
	m.count(outcomeUnavailable, 0)
	for _, outcome := range OutcomeNames {
		m.count(outcome, 0)
	}
	return m, metered.Register(r, "the calls of clients", m.registrations, m.counts, m.fanOuts)
}

func (m *metrics) counted(a job.Added, err error) {
	m.counts.WithLabelValues(outcomeOfAdd(a, err)).Inc()
}

func (m *metrics) count(outcome string, n int) {
	m.registrations.WithLabelValues(outcome).Add(float64(n))
}
