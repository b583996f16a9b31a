package v1

import (
	"github.com/duehook/duehook/internal/services/herds"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// overview answers GET /v1/overview.
func (s *API) overview(r *request) (view, error) {
	o, err := s.Scheduler.Overview(r.Context())
	return shown(writeOverview, &o), err
}

// writeOverview writes everything at a glance.
func writeOverview(w *writer, o *scheduler.Overview) {
	states := o.Depth.States
	w.instant("as_of", o.Depth.Now)
	w.number("age_ms", o.Age.Milliseconds())
	writeStates(w, "states", states)
	w.number("due_now", o.DueNow)
	w.number("due_within_1h", o.DueWithinHour)
	w.number("in_flight", states[job.Running])
	w.number("dead", states[job.Dead])
	w.number("open_circuits", o.Depth.OpenCircuits)
	if rate, known := o.Activity.SuccessRate(); known {
		w.float("success_rate", rate)
	} else {
		w.null("success_rate")
	}
	if ms, known := o.Activity.LateBy(0.99); known {
		w.number("lateness_p99_ms", ms)
	} else {
		w.null("lateness_p99_ms")
	}
	w.in("due", func() {
		w.instant("from", o.DueFrom)
		w.number("step_ms", scheduler.DueStep.Milliseconds())
		w.member("counts", o.Due)
		w.number("later", o.DueLater)
		w.instant("partial_from", o.DuePartialFrom)
	})
	part(w, "recent", &o.Activity, writeActivity)
	list(w, "topics", o.Busiest, func(w *writer, t *store.TopicStats) {
		w.text("topic", t.Topic)
		w.number("unfinished", t.Unfinished())
	})
	list(w, "herds", o.Herds, writeHerd)
}

func writeActivity(w *writer, a *recent.Activity) {
	w.instant("from", a.From)
	w.number("step_ms", recent.Step.Milliseconds())
	w.member("delivered", a.Delivered)
	w.member("failed", a.Failed)
	w.in("lateness", func() {
		w.member("bounds_ms", recent.Bounds())
		w.member("counts", a.Late)
	})
}

// writeHerd writes a minute with many jobs.
func writeHerd(w *writer, h *herds.Herd) {
	w.instant("at", h.At)
	w.textOrNull("topic", h.Topic) // null: all topics
	w.number("jobs", h.Jobs)
	w.number("limit", h.Limit)
}
