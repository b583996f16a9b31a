package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/scheduler/topics"
	"github.com/duehook/duehook/store"
)

// maxTopicRequest bounds, in bytes, the request for a topic's settings.
const maxTopicRequest = 64 << 10

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
	"retry":       func(d *topicDraft, f field) { draftFields["retry"].set(&d.defaults, f) },
	"timeout":     func(d *topicDraft, f field) { d.defaults.Timeout = f.raw },
	"ttl":         func(d *topicDraft, f field) { d.defaults.TTL = f.raw },
	"headers":     func(d *topicDraft, f field) { d.defaults.Headers = f.texts() },
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
		f.fail("must not be 0; leave it out for none")
	default:
		*into = *value
	}
}

var topicQuery = []string{"q", "limit", "cursor"}

// listTopics answers GET /v1/topics: a page of those that hold jobs, and of those
// that have settings.
func (s *Server) listTopics(c echo.Context) error {
	q, err := readTopicQuery(c)
	if err != nil {
		return err
	}
	page, err := s.opts.Scheduler.Topics(c.Request().Context(), q)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, topicsView{each(page.Topics, viewTopic), orNull(&page.Next)})
}

func readTopicQuery(c echo.Context) (store.TopicQuery, error) {
	q := store.TopicQuery{Limit: defaultPage}
	var errs fieldErrors
	for pointer, values := range parameters(c, topicQuery) {
		switch pointer {
		case "?q":
			q.Part = errs.name(pointer, values[0])
		case "?limit":
			q.Limit = errs.limit(pointer, values[0])
		case "?cursor":
			q.Cursor = errs.cursor(pointer, values[0])
		}
	}
	return q, errs.err()
}

// getTopic answers GET /v1/topics/{topic}.
func (s *Server) getTopic(c echo.Context) error {
	topic, err := pathParam(c, "topic")
	if err != nil {
		return err
	}
	t, err := s.opts.Scheduler.Topic(c.Request().Context(), topic)
	switch {
	case err != nil:
		return err
	case !t.Exists:
		return &apiError{
			code:   codeTopicNotFound,
			detail: "No job that is kept now has this topic, and it has no settings. A topic is made by the first job that names it. Names are case-sensitive.",
		}
	}
	return answerTopic(c, &t)
}

func answerTopic(c echo.Context, t *scheduler.Topic) error {
	setETag(c, contentTag(t.Name, &t.Topic))
	return writeJSON(c, http.StatusOK, viewTopic(t))
}

// allowTopic allows a change of a topic that has the version asked for, if any is.
// Any version is that of a topic which could be looked up.
func allowTopic(c echo.Context) ([]scheduler.AllowTopic, error) {
	wanted, err := ifMatch(c.Request())
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
func (s *Server) putTopic(c echo.Context) error {
	topic, err := pathParam(c, "topic")
	if err != nil {
		return err
	}
	body, err := readJSON(c, maxTopicRequest)
	if err != nil {
		return err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), topicFields)
	draft.Defaults, err = s.opts.Scheduler.TopicDefaults(&draft.defaults)
	for _, found := range []error{err, draft.Check(topic)} {
		var wrong *job.ValidationError
		if errors.As(found, &wrong) {
			errs.addNew(pointers("", wrong.Fields))
		}
	}
	if err := errs.err(); err != nil {
		return err
	}
	allow, err := allowTopic(c)
	if err != nil {
		return err
	}
	t, err := s.opts.Scheduler.PutTopic(c.Request().Context(), topic, draft.Settings, allow...)
	if err != nil {
		return err
	}
	return answerTopic(c, &t)
}

// deleteTopic answers DELETE /v1/topics/{topic}: of its settings.
func (s *Server) deleteTopic(c echo.Context) error {
	topic, err := pathParam(c, "topic")
	if err != nil {
		return err
	}
	allow, err := allowTopic(c)
	if err != nil {
		return err
	}
	if err := s.opts.Scheduler.DeleteTopic(c.Request().Context(), topic, allow...); err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, revokedView{Result: "deleted"})
}

func (s *Server) pauseTopic(c echo.Context) error  { return s.setTopicStatus(c, topics.Paused) }
func (s *Server) drainTopic(c echo.Context) error  { return s.setTopicStatus(c, topics.Draining) }
func (s *Server) resumeTopic(c echo.Context) error { return s.setTopicStatus(c, topics.Active) }

// setTopicStatus answers POST /v1/topics/{topic}/pause, /drain and /resume.
func (s *Server) setTopicStatus(c echo.Context, status topics.Status) error {
	topic, err := pathParam(c, "topic")
	if err != nil {
		return err
	}
	allow, err := allowTopic(c)
	if err != nil {
		return err
	}
	t, err := s.opts.Scheduler.SetTopicStatus(c.Request().Context(), topic, status, allow...)
	if err != nil {
		return err
	}
	return answerTopic(c, &t)
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

type topicsView struct {
	Data       []topicView `json:"data"`
	NextCursor *string     `json:"next_cursor"`
}

// settingsView is what PUT takes.
type settingsView struct {
	Capacity    *int              `json:"capacity"`
	Rate        *float64          `json:"rate"`
	Concurrency *int              `json:"concurrency"`
	Weight      *int              `json:"weight"`
	Retry       *retryView        `json:"retry"`
	Timeout     *string           `json:"timeout"`
	TTL         *string           `json:"ttl"`
	Headers     map[string]string `json:"headers"`
	JobPriority *int              `json:"job_priority"`
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
	if stats.DueIn != nil {
		v.DueIn = make(map[string]int64, len(store.DueRanges))
		for i, r := range store.DueRanges {
			v.DueIn[r.Name] = stats.DueIn[i]
		}
		v.DueInPartial = &stats.DuePartial
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
		Headers: viewHeaders(d.Headers),
	}
	if d.Priority != 0 {
		number := d.Priority.Number()
		v.JobPriority = &number
	}
	v.Timeout, v.TTL = formatted(orNull(&d.Timeout)), formatted(orNull(&d.TTL))
	if d.Retry != nil {
		v.Retry = &retryView{Steps: viewSteps(d.Retry.Steps), Limit: d.Retry.Limit}
	}
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
