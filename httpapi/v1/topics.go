package v1

import (
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
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

var topicFields = decode.NewFieldSet(withDefaults(withLimits(map[string]func(*topicDraft, decode.Field){
	"on_dead": func(d *topicDraft, f decode.Field) {
		switch s := f.Text(); {
		case s == nil:
		case *s == "": // means the default inside
			f.Fail(`must be "continue" or "stop"`)
		default:
			d.OnDead = topics.OnDead(*s)
		}
	},
}, func(d *topicDraft) *topics.Limits { return &d.Limits })))

// withDefaults adds the fields of registrations for which topics have defaults.
func withDefaults(fields map[string]func(*topicDraft, decode.Field)) map[string]func(*topicDraft, decode.Field) {
	for _, one := range jobFields {
		if one.topic != nil {
			fields[one.name] = func(d *topicDraft, f decode.Field) { one.set(&d.defaults, f) }
		}
	}
	return fields
}

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
func (s *API) listTopics(r *request) (jsonio.View, error) {
	page, err := s.App.Topics(r.Context(), store.TopicQuery{
		Part: r.query.part, Only: r.Topics(), Busiest: r.query.busiest, Limit: r.query.Limit, Cursor: r.query.Cursor,
	})
	return pageOf(page.Topics, writeTopic, page.Next), err
}

// getTopic answers GET /v1/topics/{topic}.
func (s *API) getTopic(r *request) (jsonio.View, error) {
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
func showTopic(r *request, t *app.Topic, err error) (jsonio.View, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(t.Version)
	return jsonio.Shown(writeTopic, t), nil
}

// putTopic answers PUT /v1/topics/{topic}.
func (s *API) putTopic(r *request) (jsonio.View, error) {
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
func (s *API) deleteTopic(r *request) (jsonio.View, error) {
	return resultOf("deleted"), s.App.DeleteTopic(r.Context(), r.Param("topic"), r.allow()...)
}

// getLimits answers GET /v1/topics/{topic}/limits.
func (s *API) getLimits(r *request) (jsonio.View, error) {
	t, err := s.App.TopicLimits(r.Context(), r.Param("topic"))
	return showLimits(r, &t, err)
}

// putLimits answers PUT /v1/topics/{topic}/limits.
func (s *API) putLimits(r *request) (jsonio.View, error) {
	limits, err := readAll(r, maxSmall, limitFields)
	if err != nil {
		return nil, err
	}
	t, created, err := s.App.PutTopicLimits(r.Context(), r.Param("topic"), *limits, r.allow()...)
	r.created(created)
	return showLimits(r, &t, err)
}

func showLimits(r *request, t *topics.Topic, err error) (jsonio.View, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(t.Version)
	return func(w *jsonio.Writer) {
		writeLimits(w, &t.Limits)
		writeStamp(w, &t.Stamp)
	}, nil
}

// deleteLimits answers DELETE /v1/topics/{topic}/limits.
func (s *API) deleteLimits(r *request) (jsonio.View, error) {
	return resultOf("deleted"), s.App.DeleteTopicLimits(r.Context(), r.Param("topic"), r.allow()...)
}

// setState answers POST /v1/topics/{topic}/pause, /drain and /resume.
func setState(state topics.State, fields decode.FieldSet[job.Pause]) handler {
	return func(s *API, r *request) (jsonio.View, error) {
		pause, err := readAll(r, maxSmall, fields)
		if err != nil {
			return nil, err
		}
		pause.By = r.by()
		t, err := s.App.SetTopicState(r.Context(), r.Param("topic"), state, *pause, r.allow()...)
		return showTopic(r, &t, err)
	}
}

func writeTopic(w *jsonio.Writer, t *app.Topic) {
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
		jsonio.Part(w, "settings", &t.Settings, writeSettings)
	}
	if t.Limits == (topics.Limits{}) {
		w.Null("limits")
	} else {
		jsonio.Part(w, "limits", &t.Limits, writeLimits)
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

func writeLimits(w *jsonio.Writer, l *topics.Limits) {
	jsonio.Nullable(w, "capacity", orNull(&l.Capacity), w.Integer)
	jsonio.Nullable(w, "rate", orNull(&l.Rate), w.Float)
	jsonio.Nullable(w, "concurrency", orNull(&l.Concurrency), w.Integer)
	jsonio.Nullable(w, "weight", orNull(&l.Weight), w.Integer)
}

// writeSettings writes what PUT takes.
func writeSettings(w *jsonio.Writer, s *topics.Settings) {
	writeLimits(w, &s.Limits)
	w.TextOrNull("on_dead", string(s.OnDead))
	writeDefaults(w, &s.Defaults)
}
