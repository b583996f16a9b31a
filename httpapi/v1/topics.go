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

var limitFields = decode.NewFieldSet(withLimits(map[string]func(*topics.Limits, decode.Field){}, func(l *topics.Limits) *topics.Limits { return l }))

// withLimits adds the fields of the limits that are a part of T.
func withLimits[T any](fields map[string]func(*T, decode.Field), limits func(*T) *topics.Limits) map[string]func(*T, decode.Field) {
	fields["capacity"] = func(into *T, f decode.Field) { setFigure(&limits(into).Capacity, f, f.Integer()) }
	fields["rate"] = func(into *T, f decode.Field) { setFigure(&limits(into).Rate, f, f.Number()) }
	fields["concurrency"] = func(into *T, f decode.Field) { setFigure(&limits(into).Concurrency, f, f.Integer()) }
	fields["weight"] = func(into *T, f decode.Field) { setFigure(&limits(into).Weight, f, f.Integer()) }
	return fields
}

var topicFields = decode.NewFieldSet(withLimits(map[string]func(*topicDraft, decode.Field){
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
}, func(d *topicDraft) *topics.Limits { return &d.Limits }))

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
	settings, err := s.App.TopicSettings(draft.Settings, &draft.defaults)
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

// getLimits answers GET /v1/topics/{topic}/limits.
func (s *API) getLimits(r *request) (jsonout.View, error) {
	t, err := s.App.TopicLimits(r.Context(), r.Param("topic"))
	return showLimits(r, &t, err)
}

// putLimits answers PUT /v1/topics/{topic}/limits.
func (s *API) putLimits(r *request) (jsonout.View, error) {
	limits, err := readAll(r, maxSmall, limitFields)
	if err != nil {
		return nil, err
	}
	t, created, err := s.App.PutTopicLimits(r.Context(), r.Param("topic"), *limits, r.allow()...)
	r.created(created)
	return showLimits(r, &t, err)
}

func showLimits(r *request, t *topics.Topic, err error) (jsonout.View, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(t.Version)
	return func(w *jsonout.Writer) {
		writeLimits(w, &t.Limits)
		writeStamp(w, &t.Stamp)
	}, nil
}

// deleteLimits answers DELETE /v1/topics/{topic}/limits.
func (s *API) deleteLimits(r *request) (jsonout.View, error) {
	return resultOf("deleted"), s.App.DeleteTopicLimits(r.Context(), r.Param("topic"), r.allow()...)
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
	if t.Limits == (topics.Limits{}) {
		w.Null("limits")
	} else {
		jsonout.Part(w, "limits", &t.Limits, writeLimits)
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

func writeLimits(w *jsonout.Writer, l *topics.Limits) {
	jsonout.Nullable(w, "capacity", orNull(&l.Capacity), w.Integer)
	jsonout.Nullable(w, "rate", orNull(&l.Rate), w.Float)
	jsonout.Nullable(w, "concurrency", orNull(&l.Concurrency), w.Integer)
	jsonout.Nullable(w, "weight", orNull(&l.Weight), w.Integer)
}

// writeSettings writes what PUT takes.
func writeSettings(w *jsonout.Writer, s *topics.Settings) {
	d := &s.Defaults
	writeLimits(w, &s.Limits)
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
