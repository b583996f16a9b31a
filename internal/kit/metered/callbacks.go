package metered

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/store"
)

// Callbacks counts the callbacks that a store registers with outcomes:
// duehook_callbacks_total, by event, and those that were replaced. It is registered with r unless that is nil.
func Callbacks(r prometheus.Registerer) (feed.Subscriber, error) {
	made := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "duehook_callbacks_total",
		Help: "Callbacks registered with the outcomes of their jobs, by event.",
	}, []string{"event"})
	for _, e := range job.CallbackEvents {
		made.WithLabelValues(string(e)) // so that every event is shown from the start
	}
	superseded := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "duehook_callbacks_superseded_total",
		Help: "Callbacks of failed attempts that a newer one replaced before they were delivered.",
	})
	return feed.Subscriber{
		Updated: func(j *job.Job, before job.State, _ job.Instant) {
			if j.Reason == job.ReasonSuperseded {
				superseded.Inc()
			}
			for _, next := range j.Ended(before, job.ShedNothing) {
				made.WithLabelValues(string(next.Spec.Reports)).Inc()
			}
		},
		Settled: func(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
			for s, r := range outcomes {
				for _, e := range s.Reported(r.Change(s), r.Shed) {
					made.WithLabelValues(string(e)).Inc()
				}
			}
		},
	}, Register(r, "callbacks", made, superseded)
}
