package v1

import (
	"context"

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
func (s *API) listAlerts(r *request) (view, error) {
	alerting, err := s.Alerts.Alerts(r.Context())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, alerting, orderOfAlert, writeAlert)
}

// listRules answers GET /v1/alerts/rules.
func (s *API) listRules(r *request) (view, error) {
	rules, err := s.Alerts.Rules(r.Context())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, rules, orderOfRule, writeRule)
}

// getRule answers GET /v1/alerts/rules/{rule}.
func (s *API) getRule(r *request) (view, error) {
	rule, err := s.Alerts.Rule(r.Context(), r.Param("rule"))
	if err != nil {
		return nil, err
	}
	r.setVersion(rule.Version)
	return shown(writeRule, &rule), nil
}

// putRule answers PUT /v1/alerts/rules/{rule}.
func (s *API) putRule(r *request) (view, error) {
	draft, errs, err := read(r, maxSmall, ruleFields)
	if err != nil {
		return nil, err
	}
	if err := errs.merge(draft.Check(r.Param("rule"))); err != nil {
		return nil, err
	}
	allow := allowing[alerts.Allow](r, ruleTag)
	rule, isNew, err := s.Alerts.Put(r.Context(), r.Param("rule"), *draft, allow...)
	if err != nil {
		return nil, err
	}
	r.setVersion(rule.Version)
	r.created(isNew)
	return shown(writeRule, &rule), nil
}

// deleteRule answers DELETE /v1/alerts/rules/{rule}.
func (s *API) deleteRule(r *request) (view, error) {
	allow := allowing[alerts.Allow](r, ruleTag)
	return resultOf("deleted"), s.Alerts.Delete(r.Context(), r.Param("rule"), allow...)
}

func ruleTag(rule *alerts.Rule) string {
	if rule == nil {
		return ""
	}
	return tagOf(rule.Version)
}

// topicPath is where the settings of a topic are.
func topicPath(topic string) string { return "/v1/topics/" + topic }

func writeRule(w *writer, r *alerts.Rule) {
	w.text("name", r.Name)
	w.text("metric", string(r.Metric))
	w.text("by", string(r.By))
	w.textOrNull("topic", r.Topic)
	w.textOrNull("endpoint", r.Endpoint)
	w.float("above", r.Above)
	writeTerms(w, termsOf(r))
	w.textOrNull("set_in", setIn(r.Name))
	writeStamp(w, &r.Stamp)
}

// termsOf are the terms of a rule, in the form in which they are set.
func termsOf(r *alerts.Rule) *alerts.Terms {
	return &alerts.Terms{
		Window: orNull(&r.Window), MinAttempts: orNull(&r.MinAttempts), For: &r.For, KeepFiring: &r.KeepFiring, Repeat: &r.Repeat, URL: r.URL,
	}
}

// writeTerms writes terms in the form in which they are set.
func writeTerms(w *writer, t *alerts.Terms) {
	nullable(w, "window", t.Window, w.duration)
	nullable(w, "min_attempts", t.MinAttempts, w.integer)
	nullable(w, "for", t.For, w.duration)
	nullable(w, "keep_firing_for", t.KeepFiring, w.duration)
	nullable(w, "repeat", t.Repeat, w.duration)
	w.revealing("url", t.URL)
}

// setIn is where a rule follows from, if it was not made by itself.
func setIn(rule string) string {
	topic := alerts.TopicOf(rule)
	if topic == "" {
		return ""
	}
	return topicPath(topic)
}

// writeAlert writes an alert. Until it fires, it has no id.
func writeAlert(w *writer, a *alerts.Alert) {
	state := "pending"
	if a.Firing() {
		state = string(alerts.Firing)
	}
	w.textOrNull("id", a.ID)
	w.text("rule", a.Rule)
	w.textOrNull("set_in", setIn(a.Rule))
	w.text("metric", string(a.Metric))
	w.in("subject", func() {
		w.textOrNull("topic", a.Topic)
		w.textOrNull("endpoint", a.Endpoint)
	})
	w.text("state", state)
	w.float("value", a.Value)
	w.float("threshold", a.Above)
	w.instant("since", a.Since)
	w.instant("fired_at", a.FiredAt)
	w.instant("told_at", a.ToldAt)
	w.integer("repeat", a.Repeats)
}
