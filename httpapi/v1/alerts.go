package v1

import (
	"context"
	"fmt"
	"strings"

	"github.com/duehook/duehook/internal/services/alerts"
)

// Alerts is what the API needs of the alerts. An *alerts.Manager is one.
type Alerts interface {
	Rules(ctx context.Context) ([]alerts.Rule, error)
	Rule(ctx context.Context, name string) (alerts.Rule, error)
	Put(ctx context.Context, name string, d alerts.Draft, allow ...alerts.Allow) (rule alerts.Rule, created bool, err error)
	Delete(ctx context.Context, name string, allow ...alerts.Allow) error
	Alerts(ctx context.Context) ([]alerts.Alert, error)
}

var ruleFields = newFieldSet(withTerms(map[string]func(*alerts.Draft, field){
	"metric":   func(d *alerts.Draft, f field) { setText(&d.Metric, f) },
	"by":       func(d *alerts.Draft, f field) { setText(&d.By, f) },
	"topic":    ofText(func(d *alerts.Draft, e *fieldErrors, at, s string) { d.Topic = e.name(at, s) }),
	"endpoint": ofText(func(d *alerts.Draft, e *fieldErrors, at, s string) { d.Endpoint = e.endpoint(at, s) }),
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

// listAlerts answers GET /v1/alerts.
func (s *API) listAlerts(r *request) (any, error) {
	alerting, err := s.Alerts.Alerts(r.Context())
	return listOf(alerting, viewAlert), err
}

// listRules answers GET /v1/alerts/rules.
func (s *API) listRules(r *request) (any, error) {
	rules, err := s.Alerts.Rules(r.Context())
	return listOf(rules, viewRule), err
}

// getRule answers GET /v1/alerts/rules/{rule}.
func (s *API) getRule(r *request) (any, error) {
	if err := checkRuleName(r.rule); err != nil {
		return nil, err
	}
	rule, err := s.Alerts.Rule(r.Context(), r.rule)
	if err != nil {
		return nil, err
	}
	r.setETag(contentTag(rule.Name, &rule))
	return viewRule(&rule), nil
}

// putRule answers PUT /v1/alerts/rules/{rule}.
func (s *API) putRule(r *request) (any, error) {
	draft, errs, err := read(r, maxSmall, ruleFields)
	if err != nil {
		return nil, err
	}
	if err := checkOwnRule(r.rule); err != nil {
		return nil, err
	}
	if err := errs.merge(draft.Check()); err != nil {
		return nil, err
	}
	allow, err := allowing[alerts.Allow](r, ruleTag)
	if err != nil {
		return nil, err
	}
	rule, isNew, err := s.Alerts.Put(r.Context(), r.rule, *draft, allow...)
	if err != nil {
		return nil, err
	}
	r.setETag(contentTag(rule.Name, &rule))
	return created(viewRule(&rule), isNew), nil
}

// deleteRule answers DELETE /v1/alerts/rules/{rule}.
func (s *API) deleteRule(r *request) (any, error) {
	if err := checkOwnRule(r.rule); err != nil {
		return nil, err
	}
	allow, err := allowing[alerts.Allow](r, ruleTag)
	if err != nil {
		return nil, err
	}
	return resultOf("deleted"), s.Alerts.Delete(r.Context(), r.rule, allow...)
}

func ruleTag(rule *alerts.Rule) string {
	if rule == nil {
		return ""
	}
	return contentTag(rule.Name, rule)
}

func checkRuleName(name string) error {
	if alerts.TopicOf(name) == "" && len(name) > alerts.MaxRuleName {
		return invalid("/rule", fmt.Sprintf("must have at most %d characters", alerts.MaxRuleName))
	}
	return nil
}

// checkOwnRule refuses the names of rules that cannot be changed by themselves: those
// of topics, which have a colon.
func checkOwnRule(name string) error {
	if !strings.Contains(name, ":") {
		return checkRuleName(name)
	}
	message := "must not contain a colon"
	if topic := alerts.TopicOf(name); topic != "" {
		message += fmt.Sprintf(": such rules belong to a topic, which sets them in alerts of PUT %s", topicPath(topic))
	}
	return invalid("/rule", message)
}

// topicPath is where the settings of a topic are.
func topicPath(topic string) string { return "/v1/topics/" + topic }

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
