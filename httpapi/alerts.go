package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/job"
)

// Alerts is what the API needs of the alerts. An *alerts.Manager is one.
type Alerts interface {
	Rules(ctx context.Context) ([]alerts.Rule, error)
	Rule(ctx context.Context, name string) (alerts.Rule, error)
	Put(ctx context.Context, name string, d alerts.Draft, allow ...alerts.Allow) (rule alerts.Rule, created bool, err error)
	Delete(ctx context.Context, name string, allow ...alerts.Allow) error
	Alerts(ctx context.Context) ([]alerts.Alert, error)
}

// maxRuleRequest bounds, in bytes, the request for a rule.
const maxRuleRequest = 16 << 10

var ruleFields = newFieldSet(withTerms(map[string]func(*alerts.Draft, field){
	"metric":   func(d *alerts.Draft, f field) { setText(&d.Metric, f) },
	"by":       func(d *alerts.Draft, f field) { setText(&d.By, f) },
	"topic":    setRuleTopic,
	"endpoint": setRuleEndpoint,
	"above":    func(d *alerts.Draft, f field) { d.Above = f.number() },
}, func(d *alerts.Draft) *alerts.Terms { return &d.Terms }))

var termFields = map[string]func(*alerts.Terms, field){
	"window":          func(t *alerts.Terms, f field) { t.Window = f.duration() },
	"min_attempts":    func(t *alerts.Terms, f field) { t.MinAttempts = f.integer() },
	"for":             func(t *alerts.Terms, f field) { t.For = f.duration() },
	"keep_firing_for": func(t *alerts.Terms, f field) { t.KeepFiring = f.duration() },
	"repeat":          func(t *alerts.Terms, f field) { t.Repeat = f.duration() },
	"url":             func(t *alerts.Terms, f field) { setText(&t.URL, f) },
}

// withTerms adds the fields of the terms that are a part of T.
func withTerms[T any](fields map[string]func(*T, field), terms func(*T) *alerts.Terms) map[string]func(*T, field) {
	for name, set := range termFields {
		fields[name] = func(into *T, f field) { set(terms(into), f) }
	}
	return fields
}

func setRuleTopic(d *alerts.Draft, f field) {
	if s := f.text(); s != nil {
		d.Topic = f.errs.name(f.pointer(), *s)
	}
}

func setRuleEndpoint(d *alerts.Draft, f field) {
	if s := f.text(); s != nil {
		d.Endpoint = f.errs.endpoint(f.pointer(), *s)
	}
}

// listAlerts answers GET /v1/alerts.
func (s *Server) listAlerts(c echo.Context) error {
	all, err := s.alerts()
	if err != nil {
		return err
	}
	alerting, err := all.Alerts(c.Request().Context())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, alertsView{each(alerting, viewAlert)})
}

// listRules answers GET /v1/alerts/rules.
func (s *Server) listRules(c echo.Context) error {
	all, err := s.alerts()
	if err != nil {
		return err
	}
	rules, err := all.Rules(c.Request().Context())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, rulesView{each(rules, viewRule)})
}

// getRule answers GET /v1/alerts/rules/{rule}.
func (s *Server) getRule(c echo.Context) error {
	name, err := ruleName(c)
	if err != nil {
		return err
	}
	all, err := s.alerts()
	if err != nil {
		return err
	}
	r, err := all.Rule(c.Request().Context(), name)
	if err != nil {
		return err
	}
	setETag(c, contentTag(r.Name, &r))
	return writeJSON(c, http.StatusOK, viewRule(&r))
}

// putRule answers PUT /v1/alerts/rules/{rule}.
func (s *Server) putRule(c echo.Context) error {
	body, err := readJSON(c, maxRuleRequest)
	if err != nil {
		return err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), ruleFields)
	name, all, err := s.pathRule(c)
	if err != nil {
		return err
	}
	if err := errs.merge(draft.Check()); err != nil {
		return err
	}
	allow, err := allowRule(c)
	if err != nil {
		return err
	}
	r, created, err := all.Put(c.Request().Context(), name, *draft, allow...)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	setETag(c, contentTag(r.Name, &r))
	return writeJSON(c, status, viewRule(&r))
}

// allowRule allows a change of a rule that has the version asked for, if any is.
func allowRule(c echo.Context) ([]alerts.Allow, error) {
	wanted, err := ifMatch(c.Request())
	if err != nil || wanted == nil {
		return nil, err
	}
	return []alerts.Allow{func(r *alerts.Rule) error {
		if r == nil {
			return wanted.check("")
		}
		return wanted.check(contentTag(r.Name, r))
	}}, nil
}

// deleteRule answers DELETE /v1/alerts/rules/{rule}.
func (s *Server) deleteRule(c echo.Context) error {
	name, all, err := s.pathRule(c)
	if err != nil {
		return err
	}
	allow, err := allowRule(c)
	if err != nil {
		return err
	}
	if err := all.Delete(c.Request().Context(), name, allow...); err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, deletedView{Result: "deleted"})
}

// ruleName is the name of the rule that the path names.
func ruleName(c echo.Context) (string, error) {
	name, err := pathParam(c, "rule")
	if err != nil {
		return "", err
	}
	if alerts.TopicOf(name) == "" && len(name) > alerts.MaxRuleName {
		return "", invalid("/rule", fmt.Sprintf("must have at most %d characters", alerts.MaxRuleName))
	}
	return name, nil
}

// pathRule is the name of the rule that the path names, and that can be changed
// there. Those of topics, which have a colon, cannot.
func (s *Server) pathRule(c echo.Context) (string, Alerts, error) {
	name, err := ruleName(c)
	if err != nil {
		return "", nil, err
	}
	if strings.Contains(name, ":") {
		message := "must not hold a colon"
		if topic := alerts.TopicOf(name); topic != "" {
			message += fmt.Sprintf(": such rules are those of a topic, and follow from alerts of PUT %s", topicPath(topic))
		}
		return "", nil, invalid("/rule", message)
	}
	all, err := s.alerts()
	return name, all, err
}

// topicPath is where the settings of a topic are.
func topicPath(topic string) string { return "/v1/topics/" + topic }

// alerts are those of the server, if it has any.
func (s *Server) alerts() (Alerts, error) {
	if s.opts.Alerts == nil {
		return nil, &apiError{code: codeNotFound, detail: "This server has no alerts."}
	}
	return s.opts.Alerts, nil
}

// asAlertError is the part of asAPIError for alerts. What it does not know is
// nil.
func asAlertError(err error) *apiError {
	switch {
	case errors.Is(err, alerts.ErrNotFound):
		return &apiError{
			code: codeAlertRuleNotFound, cause: err,
			detail: "No alert rule has this name. PUT makes one. Names are case-sensitive.",
		}
	case errors.Is(err, alerts.ErrTooMany):
		return &apiError{
			code: codeTooManyAlertRules, cause: err,
			detail: fmt.Sprintf("There are %d alert rules already. Delete one first, or let one look at more topics or endpoints.", alerts.MaxRules),
		}
	case errors.Is(err, alerts.ErrTooManyTopics):
		return &apiError{
			code: codeTooManyAlertRules, cause: err,
			detail: fmt.Sprintf("There are %d topics with alerts already. A rule of its own can look at all topics, with by: topic.", alerts.MaxTopics),
		}
	}
	return nil
}

// ruleView is a rule as the API shows it.
type ruleView struct {
	Name     string  `json:"name"`
	Metric   string  `json:"metric"`
	By       string  `json:"by"`
	Topic    *string `json:"topic"`
	Endpoint *string `json:"endpoint"`
	Above    float64 `json:"above"`
	termsView
	SetIn     *string `json:"set_in"`
	CreatedAt instant `json:"created_at"`
	UpdatedAt instant `json:"updated_at"`
}

// termsView are terms as the API shows them, and takes them.
type termsView struct {
	Window        *string `json:"window"`
	MinAttempts   *int    `json:"min_attempts"`
	For           *string `json:"for"`
	KeepFiringFor *string `json:"keep_firing_for"`
	Repeat        *string `json:"repeat"`
	URL           *string `json:"url"`
}

func viewTerms(t *alerts.Terms) termsView {
	return termsView{
		Window: formatted(t.Window), MinAttempts: t.MinAttempts, For: formatted(t.For),
		KeepFiringFor: formatted(t.KeepFiring), Repeat: formatted(t.Repeat), URL: orNull(&t.URL),
	}
}

type rulesView struct {
	Data []ruleView `json:"data"`
}

func viewRule(r *alerts.Rule) ruleView {
	return ruleView{
		Name: r.Name, Metric: string(r.Metric), By: string(r.By), Topic: orNull(&r.Topic), Endpoint: orNull(&r.Endpoint), Above: r.Above,
		termsView: viewTerms(&alerts.Terms{
			Window: orNull(&r.Window), MinAttempts: orNull(&r.MinAttempts), For: &r.For, KeepFiring: &r.KeepFiring, Repeat: &r.Repeat, URL: r.URL,
		}),
		SetIn: setIn(r.Name), CreatedAt: instant(r.CreatedAt), UpdatedAt: instant(r.UpdatedAt),
	}
}

// setIn is where a rule follows from, if it was not made by itself.
func setIn(rule string) *string {
	topic := alerts.TopicOf(rule)
	if topic == "" {
		return nil
	}
	path := topicPath(topic)
	return &path
}

// alertView is an alert as the API shows it. Until it fires, it has no id.
type alertView struct {
	ID        *string     `json:"id"`
	Rule      string      `json:"rule"`
	SetIn     *string     `json:"set_in"`
	Metric    string      `json:"metric"`
	Subject   subjectView `json:"subject"`
	Status    string      `json:"status"`
	Value     float64     `json:"value"`
	Threshold float64     `json:"threshold"`
	Since     instant     `json:"since"`
	FiredAt   instant     `json:"fired_at"`
	ToldAt    instant     `json:"told_at"`
	Repeat    int         `json:"repeat"`
}

type subjectView struct {
	Topic    *string `json:"topic"`
	Endpoint *string `json:"endpoint"`
}

type alertsView struct {
	Data []alertView `json:"data"`
}

func viewAlert(s *alerts.Alert) alertView {
	v := alertView{
		ID: orNull(&s.ID), Rule: s.Rule, SetIn: setIn(s.Rule), Metric: string(s.Metric),
		Subject: subjectView{orNull(&s.Topic), orNull(&s.Endpoint)}, Status: "pending",
		Value: s.Value, Threshold: s.Above, Since: instant(s.Since), FiredAt: instant(s.FiredAt),
		ToldAt: instant(s.ToldAt), Repeat: s.Repeats,
	}
	if s.Firing() {
		v.Status = string(alerts.Firing)
	}
	return v
}

// duration is the value of a duration, or nil after noting an error.
func (f field) duration() *time.Duration {
	d, err := job.ParseDelay(f.raw)
	if err != nil {
		f.fail(err.Error())
		return nil
	}
	return &d
}
