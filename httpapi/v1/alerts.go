package v1

import (
	"context"
	"slices"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/internal/services/alerts"
)

// Alerts is what the API needs of the alerts. An *alerts.Manager is one.
type Alerts interface {
	Rules(ctx context.Context) ([]alerts.Rule, error)
	Rule(ctx context.Context, name string) (alerts.Rule, error)
	Put(ctx context.Context, name string, d alerts.Draft, allow ...documents.Allow) (rule alerts.Rule, created bool, err error)
	Delete(ctx context.Context, name string, allow ...documents.Allow) error
	Alerts(ctx context.Context) ([]alerts.Alert, error)
}

var ruleFields = decode.NewFieldSet(withTerms(map[string]func(*alerts.Draft, decode.Field){
	"metric":   func(d *alerts.Draft, f decode.Field) { decode.SetText(&d.Metric, f) },
	"by":       func(d *alerts.Draft, f decode.Field) { decode.SetText(&d.By, f) },
	"topic":    decode.OfText(func(d *alerts.Draft, e *decode.Errors, at, s string) { d.Topic = asName(e, at, s) }),
	"endpoint": decode.OfText(func(d *alerts.Draft, e *decode.Errors, at, s string) { d.Endpoint = asEndpoint(e, at, s) }),
	"above":    func(d *alerts.Draft, f decode.Field) { d.Above = f.Number() },
}, func(d *alerts.Draft) *alerts.Terms { return &d.Terms }))

var termFields = map[string]func(*alerts.Terms, decode.Field){
	"window":          func(t *alerts.Terms, f decode.Field) { t.Window = f.Duration() },
	"min_attempts":    func(t *alerts.Terms, f decode.Field) { t.MinAttempts = f.Integer() },
	"for":             func(t *alerts.Terms, f decode.Field) { t.For = f.Duration() },
	"keep_firing_for": func(t *alerts.Terms, f decode.Field) { t.KeepFiring = f.Duration() },
	"repeat":          func(t *alerts.Terms, f decode.Field) { t.Repeat = f.Duration() },
	"url":             func(t *alerts.Terms, f decode.Field) { decode.SetText(&t.URL, f) },
}

// withTerms adds the fields of the terms that are a part of T.
func withTerms[T any](fields map[string]func(*T, decode.Field), terms func(*T) *alerts.Terms) map[string]func(*T, decode.Field) {
	for name, set := range termFields {
		fields[name] = func(into *T, f decode.Field) { set(terms(into), f) }
	}
	return fields
}

// listAlerts answers GET /v1/alerts.
func (s *API) listAlerts(r *request) (jsonout.View, error) {
	alerting, err := s.Alerts.Alerts(r.Context())
	if err != nil {
		return nil, err
	}
	if len(r.query.alertStates) > 0 {
		alerting = slices.DeleteFunc(alerting, func(a alerts.Alert) bool { return !slices.Contains(r.query.alertStates, a.State()) })
	}
	return pageOfAll(r, alerting, orderOfAlert, writeAlert)
}

// listRules answers GET /v1/alerts/rules.
func (s *API) listRules(r *request) (jsonout.View, error) {
	rules, err := s.Alerts.Rules(r.Context())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, rules, orderOfRule, writeRule)
}

// getRule answers GET /v1/alerts/rules/{rule}.
func (s *API) getRule(r *request) (jsonout.View, error) {
	rule, err := s.Alerts.Rule(r.Context(), r.Param("rule"))
	if err != nil {
		return nil, err
	}
	r.setWhole(rule.Version)
	return jsonout.Shown(writeRule, &rule), nil
}

// putRule answers PUT /v1/alerts/rules/{rule}.
func (s *API) putRule(r *request) (jsonout.View, error) {
	draft, errs, err := read(r, maxSmall, ruleFields)
	if err != nil {
		return nil, err
	}
	if err := errs.Merge(draft.Check(r.Param("rule"))); err != nil {
		return nil, err
	}
	rule, isNew, err := s.Alerts.Put(r.Context(), r.Param("rule"), *draft, r.allow()...)
	if err != nil {
		return nil, err
	}
	r.setVersion(rule.Version)
	r.created(isNew)
	return jsonout.Shown(writeRule, &rule), nil
}

// deleteRule answers DELETE /v1/alerts/rules/{rule}.
func (s *API) deleteRule(r *request) (jsonout.View, error) {
	return resultOf("deleted"), s.Alerts.Delete(r.Context(), r.Param("rule"), r.allow()...)
}

// topicPath is where the settings of a topic are.
func topicPath(topic string) string { return "/v1/topics/" + topic }

func writeRule(w *jsonout.Writer, r *alerts.Rule) {
	w.Text("name", r.Name)
	w.Text("metric", string(r.Metric))
	w.Text("by", string(r.By))
	w.TextOrNull("topic", r.Topic)
	w.TextOrNull("endpoint", r.Endpoint)
	w.Float("above", r.Above)
	writeTerms(w, termsOf(r))
	w.TextOrNull("set_in", setIn(r.Name))
	writeStamp(w, &r.Stamp)
}

// termsOf are the terms of a rule, in the form in which they are set.
func termsOf(r *alerts.Rule) *alerts.Terms {
	return &alerts.Terms{
		Window: orNull(&r.Window), MinAttempts: orNull(&r.MinAttempts), For: &r.For, KeepFiring: &r.KeepFiring, Repeat: &r.Repeat, URL: r.URL,
	}
}

// writeTerms writes terms in the form in which they are set.
func writeTerms(w *jsonout.Writer, t *alerts.Terms) {
	jsonout.Nullable(w, "window", t.Window, w.Duration)
	jsonout.Nullable(w, "min_attempts", t.MinAttempts, w.Integer)
	jsonout.Nullable(w, "for", t.For, w.Duration)
	jsonout.Nullable(w, "keep_firing_for", t.KeepFiring, w.Duration)
	jsonout.Nullable(w, "repeat", t.Repeat, w.Duration)
	w.TextOrNull("url", t.URL)
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
func writeAlert(w *jsonout.Writer, a *alerts.Alert) {
	w.TextOrNull("id", a.ID)
	w.Text("rule", a.Rule)
	w.TextOrNull("set_in", setIn(a.Rule))
	w.Text("metric", string(a.Metric))
	w.In("subject", func() {
		w.TextOrNull("topic", a.Topic)
		w.TextOrNull("endpoint", a.Endpoint)
	})
	w.Text("state", string(a.State()))
	w.Float("value", a.Value)
	w.Float("threshold", a.Above)
	w.Instant("since", a.Since)
	w.Instant("fired_at", a.FiredAt)
	w.Instant("told_at", a.ToldAt)
	w.Integer("repeat", a.Repeats)
}
