package v1

import (
	"errors"
	"time"

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
	// Of its jobs, whose own field is taken by the topic's weight.
	"job_priority": func(d *topicDraft, f field) { d.defaults.Priority = f.integer() },
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
func (s *API) listTopics(r *request) (any, error) {
	page, err := s.Scheduler.Topics(r.Context(), store.TopicQuery{Part: r.query.part, Limit: r.query.Limit, Cursor: r.query.Cursor})
	return pageOf(page.Topics, viewTopic, page.Next), err
}

// getTopic answers GET /v1/topics/{topic}.
func (s *API) getTopic(r *request) (any, error) {
	t, err := s.Scheduler.Topic(r.Context(), r.topic)
	if err == nil && !t.Exists {
		return nil, &httpapi.Error{
			Code:   httpapi.CodeTopicNotFound,
			Detail: "The topic has no jobs and no settings. Its first job creates it. Names are case-sensitive.",
		}
	}
	return showTopic(r, &t, err)
}

// showTopic answers with a topic, or with the error.
func showTopic(r *request, t *scheduler.Topic, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	r.setETag(contentTag(t.Name, &t.Topic))
	return viewTopic(t), nil
}

// allowTopic allows a change of a topic that has the version asked for, if any is.
// Any version is that of a topic which could be looked up.
func (r *request) allowTopic() ([]scheduler.AllowTopic, error) {
	wanted, err := r.ifMatch()
	if err != nil || wanted == nil {
		return nil, err
	}
	return []scheduler.AllowTopic{func(t *topics.Topic, exists bool) error {
		if wanted.any && !exists {
			return wanted.check("")
		}
		return wanted.check(contentTag(t.Name, t))
	}}, nil
}

// putTopic answers PUT /v1/topics/{topic}.
func (s *API) putTopic(r *request) (any, error) {
	draft, errs, err := read(r, maxSmall, topicFields)
	if err != nil {
		return nil, err
	}
	draft.Defaults, err = s.Scheduler.TopicDefaults(&draft.defaults)
	for _, found := range []error{err, draft.Check(r.topic)} {
		if wrong, ok := errors.AsType[*job.ValidationError](found); ok {
			errs.addNew(httpapi.Pointers("", wrong.Fields))
		}
	}
	if err := errs.err(); err != nil {
		return nil, err
	}
	allow, err := r.allowTopic()
	if err != nil {
		return nil, err
	}
	t, err := s.Scheduler.PutTopic(r.Context(), r.topic, draft.Settings, allow...)
	return showTopic(r, &t, err)
}

// deleteTopic answers DELETE /v1/topics/{topic}: of its settings.
func (s *API) deleteTopic(r *request) (any, error) {
	allow, err := r.allowTopic()
	if err != nil {
		return nil, err
	}
	return resultOf("deleted"), s.Scheduler.DeleteTopic(r.Context(), r.topic, allow...)
}

// setStatus answers POST /v1/topics/{topic}/pause, /drain and /resume.
func setStatus(status topics.Status) handler {
	return func(s *API, r *request) (any, error) {
		allow, err := r.allowTopic()
		if err != nil {
			return nil, err
		}
		t, err := s.Scheduler.SetTopicStatus(r.Context(), r.topic, status, allow...)
		return showTopic(r, &t, err)
	}
}

// topicView is a topic as the API shows it.
type topicView struct {
	Topic    string           `json:"topic"`
	Status   topics.Status    `json:"status"`
	Since    instant          `json:"since"`
	Settings *settingsView    `json:"settings"`
	States   map[string]int64 `json:"states"`
	DueIn    map[string]int64 `json:"due_in,omitempty"`
	// DueInPartial is there with DueIn.
	DueInPartial *bool `json:"due_in_partial,omitempty"`
}

// settingsView is what PUT takes.
type settingsView struct {
	Capacity    *int              `json:"capacity"`
	Rate        *float64          `json:"rate"`
	Concurrency *int              `json:"concurrency"`
	Weight      *int              `json:"weight"`
	OnDead      *topics.OnDead    `json:"on_dead"`
	Retry       *retryView        `json:"retry"`
	Timeout     *string           `json:"timeout"`
	TTL         *string           `json:"ttl"`
	Headers     map[string]string `json:"headers"`
	JobPriority *int              `json:"job_priority"`
	Spread      *string           `json:"spread"`
	Callbacks   map[string]any    `json:"callbacks,omitempty"`
	Alerts      *thresholdsView   `json:"alerts"`
}

type thresholdsView struct {
	Failures    *float64 `json:"failures"`
	FailureRate *float64 `json:"failure_rate"`
	DeadLetters *float64 `json:"dead_letters"`
	Backlog     *float64 `json:"backlog"`
	OldestDue   *string  `json:"oldest_due"`
	termsView
}

type retryView struct {
	Steps []string `json:"steps"`
	Limit *int     `json:"limit"`
}

func viewTopic(t *scheduler.Topic) topicView {
	stats := t.Stats
	v := topicView{Topic: stats.Topic, States: viewStates(stats.States)}
	if t.DueIn != nil {
		v.DueIn = make(map[string]int64, len(t.DueIn))
		for i, r := range scheduler.DueRanges {
			v.DueIn[r.Name] = t.DueIn[i]
		}
		v.DueInPartial = &t.DuePartial
	}
	v.Status, v.Since = t.Status, instant(t.Since)
	if !t.Settings.Empty() {
		v.Settings = viewSettings(&t.Settings)
	}
	return v
}

func viewSettings(s *topics.Settings) *settingsView {
	d := &s.Defaults
	v := &settingsView{
		Capacity: orNull(&s.Capacity), Rate: orNull(&s.Rate), Concurrency: orNull(&s.Concurrency), Weight: orNull(&s.Weight),
		OnDead:  orNull(&s.OnDead),
		Headers: viewHeaders(d.Headers),
	}
	if d.Priority != 0 {
		number := d.Priority.Number()
		v.JobPriority = &number
	}
	v.Timeout, v.TTL, v.Spread = formatted(orNull(&d.Timeout)), formatted(orNull(&d.TTL)), formatted(orNull(&d.Spread))
	if d.Retry != nil {
		v.Retry = &retryView{Steps: viewSteps(d.Retry.Steps), Limit: d.Retry.Limit}
	}
	v.Callbacks = viewCallbacks(d.Callbacks.Draft())
	if a := s.Alerts; a != nil {
		v.Alerts = &thresholdsView{
			Failures: a.Failures, FailureRate: a.FailureRate, DeadLetters: a.DeadLetters, Backlog: a.Backlog,
			OldestDue: formatted(a.OldestDue), termsView: viewTerms(&a.Terms),
		}
	}
	return v
}

// formatted is a duration as the API shows it, or null.
func formatted(d *time.Duration) *string {
	if d == nil {
		return nil
	}
	text := job.FormatDuration(*d)
	return &text
}
