package v1

import (
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/store"
)

// overview answers GET /v1/overview.
func (s *API) overview(r *request) (jsonio.View, error) {
	o, err := s.App.Overview(r.Context())
	return jsonio.Shown(writeOverview, &o), err
}

// writeOverview writes everything at a glance.
func writeOverview(w *jsonio.Writer, o *app.Overview) {
	states := o.Depth.States
	w.Instant("as_of", o.Depth.Now)
	w.Number("age_ms", o.Age.Milliseconds())
	writeStates(w, "states", states)
	w.Number("due_now", o.DueNow)
	w.Number("due_within_1h", o.DueWithinHour)
	w.Number("in_flight", states[job.Running])
	w.Number("dead", states[job.Dead])
	w.Number("open_circuits", o.Depth.OpenCircuits)
	if rate, known := o.Activity.SuccessRate(); known {
		w.Float("success_rate", rate)
	} else {
		w.Null("success_rate")
	}
	if ms, known := o.Activity.LateBy(0.99); known {
		w.Number("lateness_p99_ms", ms)
	} else {
		w.Null("lateness_p99_ms")
	}
	w.In("due", func() {
		w.Instant("from", o.DueFrom)
		w.Number("step_ms", app.DueStep.Milliseconds())
		w.Member("counts", o.Due)
		w.Number("later", o.DueLater)
		w.Instant("partial_from", o.DuePartialFrom)
	})
	jsonio.Part(w, "recent", &o.Activity, writeActivity)
	jsonio.List(w, "topics", o.Busiest, func(w *jsonio.Writer, t *store.TopicStats) {
		w.Text("topic", t.Topic)
		w.Number("unfinished", t.Unfinished())
	})
}

func writeActivity(w *jsonio.Writer, a *recent.Activity) {
	w.Instant("from", a.From)
	w.Number("step_ms", recent.Step.Milliseconds())
	w.Member("delivered", a.Delivered)
	w.Member("failed", a.Failed)
	w.In("lateness", func() {
		w.Member("bounds_ms", recent.Bounds())
		w.Member("counts", a.Late)
	})
}
