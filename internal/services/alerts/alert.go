package alerts

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// MaxSubjects is the most alerts of one rule.
	MaxSubjects = 100
	// quietFor is how long a value must not be above the threshold before the alert is resolved.
	quietFor = time.Minute
)

// Subject is what an alert is about.
type Subject struct {
	Topic    string `json:"topic,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	Node     string `json:"node,omitempty"`
	Trouble  string `json:"trouble,omitempty"` // of the store's server or an inbox, and what causes it
}

func (s Subject) compare(t Subject) int {
	return cmp.Or(cmp.Compare(s.Topic, t.Topic), cmp.Compare(s.Endpoint, t.Endpoint), cmp.Compare(s.Node, t.Node), cmp.Compare(s.Trouble, t.Trouble))
}

// Alert is about one subject whose value is above the threshold, or was a moment ago. Its JSON is part of a
// document.
type Alert struct {
	Rule string `json:"-"`
	Subject
	ID string `json:"id"`
	// Metric, Above and Value are as of FiredAt.
	Metric  string      `json:"metric"`
	Above   float64     `json:"above"`
	Value   float64     `json:"value"`
	FiredAt job.Instant `json:"fired_at"`
	// ClearSince is when the value fell to the threshold or below; zero: it is above.
	ClearSince job.Instant `json:"clear_since,omitempty"`
	// Told: the webhook that it fires is registered.
	Told bool `json:"told,omitempty"`
	// ResolvedAt is zero while the alert fires. A resolved one waits for the registration of its webhook.
	ResolvedAt job.Instant `json:"resolved_at,omitempty"`
}

// step applies the values of the rule's subjects, and reports whether anything changed. Incomplete values resolve
// nothing.
func (r *Rule) step(v values, complete bool, now job.Instant) (changed bool) {
	for i := range r.Alerts {
		a := &r.Alerts[i]
		if a.ResolvedAt != 0 {
			continue
		}
		was := *a
		switch {
		case a.Metric == r.Metric && v[a.Subject] > r.Above:
			a.ClearSince = 0
		case !complete && a.Metric == r.Metric:
		case a.ClearSince == 0 || a.ClearSince > now: // the store's clock may have gone back
			a.ClearSince = now
		case now.Sub(a.ClearSince) >= quietFor:
			a.ResolvedAt = now
		}
		changed = changed || *a != was
		delete(v, a.Subject)
	}
	maps.DeleteFunc(v, func(_ Subject, value float64) bool { return value <= r.Above })
	highest := slices.SortedFunc(maps.Keys(v), func(s, t Subject) int { return cmp.Or(cmp.Compare(v[t], v[s]), s.compare(t)) })
	for _, s := range highest[:min(len(highest), max(MaxSubjects-len(r.Alerts), 0))] {
		id := identifier(now, r.Name, s.Topic, s.Endpoint, s.Node, s.Trouble)
		r.Alerts = append(r.Alerts, Alert{Subject: s, ID: id, Metric: r.Metric, Above: r.Above, Value: v[s], FiredAt: now})
		changed = true
	}
	return changed
}

// end resolves all alerts.
func (r *Rule) end(now job.Instant) {
	for i := range r.Alerts {
		a := &r.Alerts[i]
		a.ResolvedAt = cmp.Or(a.ResolvedAt, now)
	}
}

// webhooks returns the webhooks that are to be registered.
func (r *Rule) webhooks() (regs []store.Registration) {
	for i := range r.Alerts {
		a := &r.Alerts[i]
		if r.URL != "" && !a.Told {
			regs = append(regs, r.webhook(a, firing))
		}
		if r.URL != "" && a.ResolvedAt != 0 {
			regs = append(regs, r.webhook(a, resolved))
		}
	}
	return regs
}

// told notes that all webhooks are registered, and reports whether anything changed.
func (r *Rule) told() (changed bool) {
	before := len(r.Alerts)
	r.Alerts = slices.DeleteFunc(r.Alerts, func(a Alert) bool { return a.ResolvedAt != 0 })
	changed = len(r.Alerts) < before
	for i := range r.Alerts {
		a := &r.Alerts[i]
		changed = changed || !a.Told && r.URL != ""
		a.Told = a.Told || r.URL != ""
	}
	return changed
}
