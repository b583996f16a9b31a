package v1

import (
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/scheduler/topics"
	"github.com/duehook/duehook/store"
)

// topicDraft is a topic's settings as the client wrote them.
type topicDraft struct {
	topics.Settings
	defaults job.Draft
}

var topicFields = newFieldSet(map[string]func(*topicDraft, field){
	"capacity":    func(d *topicDraft, f field) { setFigure(&d.Capacity, f, f.integer()) },
	"rate":        func(d *topicDraft, f field) { setFigure(&d.Rate, f, f.number()) },
	"concurrency": func(d *topicDraft, f field) { setFigure(&d.Concurrency, f, f.integer()) },
	"weight":      func(d *topicDraft, f field) { setFigure(&d.Weight, f, f.integer()) },
	"on_dead": func(d *topicDraft, f field) {
		switch s := f.text(); {
		case s == nil:
		case *s == "": // means the default inside
			f.fail(`must be "continue" or "stop"`)
		default:
			d.OnDead = topics.OnDead(*s)
		}
	},
	"retry":     func(d *topicDraft, f field) { d.defaults.Retry = decodeRetry(f) },
	"timeout":   func(d *topicDraft, f field) { d.defaults.Timeout = f.duration() },
	"ttl":       func(d *topicDraft, f field) { d.defaults.TTL = f.duration() },
	"headers":   func(d *topicDraft, f field) { d.defaults.Headers = f.texts() },
	"spread":    func(d *topicDraft, f field) { d.defaults.Spread = f.duration() },
	"callbacks": func(d *topicDraft, f field) { d.defaults.Callbacks = decodeCallbacks(f) },
	"priority":  func(d *topicDraft, f field) { d.defaults.Priority = f.integer() },
	"alerts": func(d *topicDraft, f field) {
		d.Alerts = &alerts.Thresholds{}
		thresholdFields.decode(f.raw, f.pointer(), d.Alerts, f.errs)
	},
})

var thresholdFields = newFieldSet(withTerms(map[string]func(*alerts.Thresholds, field){
	"failures":     func(t *alerts.Thresholds, f field) { t.Failures = f.number() },
	"failure_rate": func(t *alerts.Thresholds, f field) { t.FailureRate = f.number() },
	"dead_letters": func(t *alerts.Thresholds, f field) { t.DeadLetters = f.number() },
	"backlog":      func(t *alerts.Thresholds, f field) { t.Backlog = f.number() },
	"oldest_due":   func(t *alerts.Thresholds, f field) { t.OldestDue = f.duration() },
}, func(t *alerts.Thresholds) *alerts.Terms { return &t.Terms }))

// setFigure sets a figure for which zero means none. Given as zero, it is more
// likely a mistake.
func setFigure[T int | float64](into *T, f field, value *T) {
	switch {
	case value == nil:
	case *value == 0:
		f.fail("must not be 0; leave it out for the default")
	default:
		*into = *value
	}
}

// listTopics answers GET /v1/topics: a page of topics with jobs or settings.
func (s *API) listTopics(r *request) (view, error) {
	page, err := s.Scheduler.Topics(r.Context(), store.TopicQuery{Part: r.query.part, Only: r.Topics(), Limit: r.query.Limit, Cursor: r.query.Cursor})
	return pageOf(page.Topics, writeTopic, page.Next), err
}

// getTopic answers GET /v1/topics/{topic}.
func (s *API) getTopic(r *request) (view, error) {
	t, err := s.Scheduler.Topic(r.Context(), r.Param("topic"))
	if err == nil && !t.Exists {
		return nil, &httpapi.Error{
			Code:   httpapi.CodeTopicNotFound,
			Detail: "The topic has no jobs and no settings. Its first job creates it. Names are case-sensitive.",
		}
	}
	return showTopic(r, &t, err)
}

// showTopic answers with a topic, or with the error.
func showTopic(r *request, t *scheduler.Topic, err error) (view, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(t.Version)
	return shown(writeTopic, t), nil
}

// allowTopic is allowing for topics. One that only has jobs has the version 0.
func (r *request) allowTopic() []scheduler.AllowTopic {
	if r.conditions == (conditions{}) {
		return nil
	}
	return []scheduler.AllowTopic{func(t *topics.Topic, exists bool) error {
		if !exists {
			return r.check("")
		}
		return r.check(tagOf(t.Version))
	}}
}

// putTopic answers PUT /v1/topics/{topic}.
func (s *API) putTopic(r *request) (view, error) {
	draft, errs, err := read(r, maxSmall, topicFields)
	if err != nil {
		return nil, err
	}
	settings, err := s.Scheduler.TopicSettings(r.Param("topic"), draft.Settings, &draft.defaults)
	if err := errs.merge(err); err != nil {
		return nil, err
	}
	allow := r.allowTopic()
	had := false
	allow = append(allow, func(t *topics.Topic, _ bool) error {
		had = !t.Settings.Empty()
		return nil
	})
	t, err := s.Scheduler.PutTopic(r.Context(), r.Param("topic"), settings, allow...)
	r.created(!had && !settings.Empty())
	return showTopic(r, &t, err)
}

// deleteTopic answers DELETE /v1/topics/{topic}: of its settings.
func (s *API) deleteTopic(r *request) (view, error) {
	allow := r.allowTopic()
	return resultOf("deleted"), s.Scheduler.DeleteTopic(r.Context(), r.Param("topic"), allow...)
}

// setState answers POST /v1/topics/{topic}/pause, /drain and /resume.
func setState(state topics.State, fields fieldSet[job.Pause]) handler {
	return func(s *API, r *request) (view, error) {
		pause, err := readAll(r, maxSmall, fields)
		if err != nil {
			return nil, err
		}
		pause.By = r.by()
		allow := r.allowTopic()
		t, err := s.Scheduler.SetTopicState(r.Context(), r.Param("topic"), state, *pause, allow...)
		return showTopic(r, &t, err)
	}
}

func writeTopic(w *writer, t *scheduler.Topic) {
	w.text("name", t.Stats.Topic)
	w.text("state", string(t.State))
	var paused, draining *job.Pause
	switch t.State {
	case topics.Paused:
		paused = t.Pause
	case topics.Draining:
		draining = t.Pause
	}
	writePause(w, "paused", paused)
	writePause(w, "draining", draining)
	writeStamp(w, &t.Stamp)
	if t.Settings.Empty() {
		w.null("settings")
	} else {
		part(w, "settings", &t.Settings, writeSettings)
	}
	writeStates(w, "states", t.Stats.States)
	if t.DueIn != nil {
		w.in("due_in", func() {
			for i, r := range scheduler.DueRanges {
				w.number(r.Name, t.DueIn[i])
			}
		})
		w.boolean("due_in_partial", t.DuePartial)
	}
}

// writeSettings writes what PUT takes.
func writeSettings(w *writer, s *topics.Settings) {
	d := &s.Defaults
	nullable(w, "capacity", orNull(&s.Capacity), w.integer)
	nullable(w, "rate", orNull(&s.Rate), w.float)
	nullable(w, "concurrency", orNull(&s.Concurrency), w.integer)
	nullable(w, "weight", orNull(&s.Weight), w.integer)
	w.textOrNull("on_dead", string(s.OnDead))
	part(w, "retry", d.Retry, func(w *writer, r *job.Retry) {
		w.member("steps", steps(r.Steps))
		nullable(w, "limit", r.Limit, w.integer)
	})
	nullable(w, "timeout", orNull(&d.Timeout), w.duration)
	nullable(w, "ttl", orNull(&d.TTL), w.duration)
	w.secretHeaders("headers", d.Headers)
	if d.Priority == 0 {
		w.null("priority")
	} else {
		w.integer("priority", d.Priority.Number())
	}
	nullable(w, "spread", orNull(&d.Spread), w.duration)
	if c := d.Callbacks.Draft(); c != nil {
		part(w, "callbacks", c, writeCallbacks)
	}
	part(w, "alerts", s.Alerts, writeThresholds)
}

func writeThresholds(w *writer, t *alerts.Thresholds) {
	nullable(w, "failures", t.Failures, w.float)
	nullable(w, "failure_rate", t.FailureRate, w.float)
	nullable(w, "dead_letters", t.DeadLetters, w.float)
	nullable(w, "backlog", t.Backlog, w.float)
	nullable(w, "oldest_due", t.OldestDue, w.duration)
	writeTerms(w, &t.Terms)
}
