package v1

import (
	"context"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/kit/jsonio"
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

var ruleFields = decode.NewFieldSet(map[string]func(*alerts.Draft, decode.Field){
	"metric":   func(d *alerts.Draft, f decode.Field) { decode.SetText(&d.Metric, f) },
	"topic":    decode.OfText(func(d *alerts.Draft, e *decode.Errors, at, s string) { d.Topic = asName(e, at, s) }),
	"endpoint": decode.OfText(func(d *alerts.Draft, e *decode.Errors, at, s string) { d.Endpoint = asEndpoint(e, at, s) }),
	"above":    func(d *alerts.Draft, f decode.Field) { d.Above = f.Number() },
	"window":   func(d *alerts.Draft, f decode.Field) { d.Window = f.Duration() },
	"url":      func(d *alerts.Draft, f decode.Field) { decode.SetText(&d.URL, f) },
	"format":   func(d *alerts.Draft, f decode.Field) { decode.SetText(&d.Format, f) },
})

// listAlerts answers GET /v1/alerts.
func (s *API) listAlerts(r *request) (jsonio.View, error) {
	firing, err := s.Alerts.Alerts(r.Context())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, firing, orderOfAlert, writeAlert)
}

// listRules answers GET /v1/alerts/rules.
func (s *API) listRules(r *request) (jsonio.View, error) {
	rules, err := s.Alerts.Rules(r.Context())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, rules, orderOfRule, writeRule)
}

// getRule answers GET /v1/alerts/rules/{rule}.
func (s *API) getRule(r *request) (jsonio.View, error) {
	rule, err := s.Alerts.Rule(r.Context(), r.Param("rule"))
	if err != nil {
		return nil, err
	}
	r.setWhole(rule.Version)
	return jsonio.Shown(writeRule, &rule), nil
}

// putRule answers PUT /v1/alerts/rules/{rule}.
func (s *API) putRule(r *request) (jsonio.View, error) {
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
	return jsonio.Shown(writeRule, &rule), nil
}

// deleteRule answers DELETE /v1/alerts/rules/{rule}.
func (s *API) deleteRule(r *request) (jsonio.View, error) {
	return resultOf("deleted"), s.Alerts.Delete(r.Context(), r.Param("rule"), r.allow()...)
}

func writeRule(w *jsonio.Writer, r *alerts.Rule) {
	w.Text("name", r.Name)
	writeRuleDraft(w, r)
	writeStamp(w, &r.Stamp)
}

// writeRuleDraft writes what PUT takes.
func writeRuleDraft(w *jsonio.Writer, r *alerts.Rule) {
	w.Text("metric", r.Metric)
	w.TextOrNull("topic", r.Topic)
	w.TextOrNull("endpoint", r.Endpoint)
	jsonio.Nullable(w, "above", r.Threshold(), w.Float)
	jsonio.Nullable(w, "window", orNull(&r.Window), w.Duration)
	w.TextOrNull("url", r.URL)
	w.Text("format", r.Format)
}

func writeAlert(w *jsonio.Writer, a *alerts.Alert) {
	w.Text("id", a.ID)
	w.Text("rule", a.Rule)
	w.Text("metric", a.Metric)
	w.TextOrNull("topic", a.Topic)
	w.TextOrNull("endpoint", a.Endpoint)
	w.TextOrNull("node", a.Node)
	w.TextOrNull("trouble", a.Trouble)
	w.Float("value", a.Value)
	w.Float("threshold", a.Above)
	w.Instant("fired_at", a.FiredAt)
}
