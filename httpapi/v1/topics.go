package v1

import (
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/store"
)

// topicDraft is a topic's settings as the client wrote them.
type topicDraft struct {
	topics.Settings
	defaults job.Draft
}

var topicFields = decode.NewFieldSet(map[string]func(*topicDraft, decode.Field){
	"capacity":    func(d *topicDraft, f decode.Field) { setFigure(&d.Capacity, f, f.Integer()) },
	"rate":        func(d *topicDraft, f decode.Field) { setFigure(&d.Rate, f, f.Number()) },
	"concurrency": func(d *topicDraft, f decode.Field) { setFigure(&d.Concurrency, f, f.Integer()) },
	"weight":      func(d *topicDraft, f decode.Field) { setFigure(&d.Weight, f, f.Integer()) },
	"on_dead": func(d *topicDraft, f decode.Field) {
		switch s := f.Text(); {
		case s == nil:
		case *s == "": // means the default inside
			f.Fail(`must be "continue" or "stop"`)
		default:
			d.OnDead = topics.OnDead(*s)
		}
	},
	"url":       func(d *topicDraft, f decode.Field) { d.defaults.Destination = (*job.Destination)(f.Text()) },
	"retry":     func(d *topicDraft, f decode.Field) { d.defaults.Retry = retryFields.New(f) },
	"timeout":   func(d *topicDraft, f decode.Field) { d.defaults.Timeout = f.Duration() },
	"ttl":       func(d *topicDraft, f decode.Field) { d.defaults.TTL = f.Duration() },
	"headers":   func(d *topicDraft, f decode.Field) { d.defaults.Headers = f.Texts() },
	"spread":    func(d *topicDraft, f decode.Field) { d.defaults.Spread = f.Duration() },
	"callbacks": func(d *topicDraft, f decode.Field) { d.defaults.Callbacks = decodeCallbacks(f) },
	"priority":  func(d *topicDraft, f decode.Field) { d.defaults.Priority = f.Integer() },
})

// setFigure sets a figure for which zero means none. Given as zero, it is more
// likely a mistake.
func setFigure[T int | float64](into *T, f decode.Field, value *T) {
	switch {
	case value == nil:
	case *value == 0:
		f.Fail("must not be 0; leave it out for the default")
	default:
		*into = *value
	}
}

// listTopics answers GET /v1/topics: a page of topics with jobs or settings.
func (s *API) listTopics(r *request) (jsonout.View, error) {
	page, err := s.App.Topics(r.Context(), store.TopicQuery{
		Part: r.query.part, Only: r.Topics(), Busiest: r.query.busiest, Limit: r.query.Limit, Cursor: r.query.Cursor,
	})
	return pageOf(page.Topics, writeTopic, page.Next), err
}

// getTopic answers GET /v1/topics/{topic}.
func (s *API) getTopic(r *request) (jsonout.View, error) {
	t, err := s.App.Topic(r.Context(), r.Param("topic"))
	if err == nil && !t.Exists {
		return nil, &httpapi.Error{
			Code:   httpapi.CodeTopicNotFound,
			Detail: "The topic has no jobs and no settings. Its first job creates it. Names are case-sensitive.",
		}
	}
	return showTopic(r, &t, err)
}

// showTopic answers with a topic, or with the error.
func showTopic(r *request, t *app.Topic, err error) (jsonout.View, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(t.Version)
	return jsonout.Shown(writeTopic, t), nil
}

// putTopic answers PUT /v1/topics/{topic}.
func (s *API) putTopic(r *request) (jsonout.View, error) {
	draft, errs, err := read(r, maxSmall, topicFields)
	if err != nil {
		return nil, err
	}
	settings, err := s.App.TopicSettings(r.Param("topic"), draft.Settings, &draft.defaults)
	if err := errs.Merge(err); err != nil {
		return nil, err
	}
	t, created, err := s.App.PutTopic(r.Context(), r.Param("topic"), settings, r.allow()...)
	r.created(created)
	return showTopic(r, &t, err)
}

// deleteTopic answers DELETE /v1/topics/{topic}: of its settings.
func (s *API) deleteTopic(r *request) (jsonout.View, error) {
	return resultOf("deleted"), s.App.DeleteTopic(r.Context(), r.Param("topic"), r.allow()...)
}

// setState answers POST /v1/topics/{topic}/pause, /drain and /resume.
func setState(state topics.State, fields decode.FieldSet[job.Pause]) handler {
	return func(s *API, r *request) (jsonout.View, error) {
		pause, err := readAll(r, maxSmall, fields)
		if err != nil {
			return nil, err
		}
		pause.By = r.by()
		t, err := s.App.SetTopicState(r.Context(), r.Param("topic"), state, *pause, r.allow()...)
		return showTopic(r, &t, err)
	}
}

func writeTopic(w *jsonout.Writer, t *app.Topic) {
	w.Text("name", t.Stats.Topic)
	w.Text("state", string(t.State))
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
		w.Null("settings")
	} else {
		jsonout.Part(w, "settings", &t.Settings, writeSettings)
	}
	writeStates(w, "states", t.Stats.States)
	if t.DueIn != nil {
		w.In("due_in", func() {
			for i, r := range app.DueRanges {
				w.Number(r.Name, t.DueIn[i])
			}
		})
		w.Number("overdue", t.Overdue)
		w.Boolean("due_in_partial", t.DuePartial)
	}
}

// writeSettings writes what PUT takes.
func writeSettings(w *jsonout.Writer, s *topics.Settings) {
	d := &s.Defaults
	jsonout.Nullable(w, "capacity", orNull(&s.Capacity), w.Integer)
	jsonout.Nullable(w, "rate", orNull(&s.Rate), w.Float)
	jsonout.Nullable(w, "concurrency", orNull(&s.Concurrency), w.Integer)
	jsonout.Nullable(w, "weight", orNull(&s.Weight), w.Integer)
	w.TextOrNull("on_dead", string(s.OnDead))
	if d.Destination != "" {
		w.TextOrNull("url", string(d.Destination))
	}
	jsonout.Part(w, "retry", d.Retry, func(w *jsonout.Writer, r *job.Retry) {
		w.Member("steps", steps(r.Steps))
		jsonout.Nullable(w, "limit", r.Limit, w.Integer)
	})
	jsonout.Nullable(w, "timeout", orNull(&d.Timeout), w.Duration)
	jsonout.Nullable(w, "ttl", orNull(&d.TTL), w.Duration)
	w.Headers("headers", d.Headers)
	if d.Priority == 0 {
		w.Null("priority")
	} else {
		w.Integer("priority", d.Priority.Number())
	}
	jsonout.Nullable(w, "spread", orNull(&d.Spread), w.Duration)
	if c := d.Callbacks.Draft(); c != nil {
		jsonout.Part(w, "callbacks", c, writeCallbacks)
	}
}
