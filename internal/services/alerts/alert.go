package alerts

import (
	"cmp"
	"sort"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

const (
	// MaxSubjects is the most alerts of one rule.
	MaxSubjects = 100
	// refreshEvery is the least time between writes of a value that changes.
	refreshEvery = 30 * time.Second
)

// Alert is about one subject whose value is above the threshold, or was a moment ago. It has
// everything that webhooks report, so that it can be resolved after its rule is deleted. Its
// JSON is part of a document.
type Alert struct {
	Rule string `json:"-"`
	Subject
	Metric Metric  `json:"metric"`
	Above  float64 `json:"above"`
	URL    string  `json:"url,omitempty"`
	Value  float64 `json:"value"`
	// ValueAt is the time of the last write of the value.
	ValueAt job.Instant `json:"value_at"`
	// Since is when the value rose above the threshold.
	Since job.Instant `json:"since"`
	// ID and FiredAt are empty and zero while the alert is pending.
	ID      string      `json:"id,omitempty"`
	FiredAt job.Instant `json:"fired_at,omitempty"`
	// ClearSince is when the value fell to the threshold or below; zero: it is above.
	ClearSince job.Instant `json:"clear_since,omitempty"`
	ToldAt     job.Instant `json:"told_at,omitempty"` // time of the last webhook; zero: there was none
	Repeats    int         `json:"repeats,omitempty"`
}

// State is the state of an alert that is in force.
type State string

// States are the states of alerts.
var States = []State{"firing", "pending"}

// Firing reports whether the alert has fired. Otherwise it is pending.
func (s *Alert) Firing() bool { return s.FiredAt != 0 }

// State is the state of the alert.
func (s *Alert) State() State {
	if s.Firing() {
		return "firing"
	}
	return "pending"
}

// book is the state of a rule: one document.
type book struct {
	Rule   string  `json:"-"`
	Alerts []Alert `json:"alerts"`
	// Notices are webhooks that are not registered yet.
	Notices []Notice `json:"notices"`
}

// storedBook is a book with its version.
type storedBook = documents.Document[book]

// bookKind is the kind of documents that are books; their names are the rules'.
const bookKind = "alert-state"

// bookDocuments returns the documents of books.
func bookDocuments(s store.Documents) *documents.Collection[book] {
	return documents.New(documents.Options[book]{
		Store: s, Kind: bookKind,
		New: func(rule string) book { return book{Rule: rule} },
		Check: func(b *book) error {
			for i := range b.Alerts {
				b.Alerts[i].Rule = b.Rule
			}
			return nil
		},
	})
}

// step applies the values of a rule, and reports whether anything changed. Incomplete
// values resolve nothing.
func (b *book) step(rule *Rule, v values, complete bool, now job.Instant) bool {
	changed := false
	kept := b.Alerts[:0]
	for _, s := range b.Alerts {
		value := v[s.Subject]
		delete(v, s.Subject)
		if s.Metric != rule.Metric { // of another rule of this name
			value = 0
		}
		changed = s.notAfter(now) || changed
		changed = s.describe(rule) || changed
		stays, moved := b.move(&s, rule, value, complete, now)
		changed = changed || moved
		if stays {
			kept = append(kept, s)
		}
	}
	b.Alerts = kept
	for _, subject := range highest(v, rule.Above, MaxSubjects-len(kept)) {
		s := Alert{
			Rule: rule.Name, Subject: subject, Metric: rule.Metric, Value: v[subject], ValueAt: now, Since: now,
		}
		s.describe(rule)
		b.move(&s, rule, s.Value, complete, now)
		b.Alerts = append(b.Alerts, s)
		changed = true
	}
	return changed
}

// notAfter moves times that are later than now to now: the store's clock went back, and what is counted from
// them would wait for that long.
func (s *Alert) notAfter(now job.Instant) (changed bool) {
	for _, at := range []*job.Instant{&s.ValueAt, &s.Since, &s.FiredAt, &s.ClearSince, &s.ToldAt} {
		if *at > now {
			*at, changed = now, true
		}
	}
	return changed
}

// describe copies the fields of the rule that webhooks report.
func (s *Alert) describe(rule *Rule) (changed bool) {
	if s.Metric != rule.Metric || s.Above == rule.Above && s.URL == rule.URL {
		return false
	}
	s.Above, s.URL = rule.Above, rule.URL
	return true
}

// move applies a value to one alert.
func (b *book) move(s *Alert, rule *Rule, value float64, complete bool, now job.Instant) (stays, changed bool) {
	above := value > rule.Above
	switch {
	case above && s.ClearSince != 0:
		s.ClearSince, changed = 0, true
	case !above && !s.Firing():
		return false, true
	case !above && complete && s.ClearSince == 0:
		s.ClearSince, changed = now, true
	}
	if !above && complete && s.ClearSince != 0 && now.Sub(s.ClearSince) >= rule.KeepFiring {
		s.Value = value
		b.tell(s, Resolved, now)
		return false, true
	}
	if value != s.Value && (complete || above) && now.Sub(s.ValueAt) >= refreshEvery {
		s.Value, s.ValueAt, changed = value, now, true
	}
	switch {
	case !above:
	case !s.Firing() && now.Sub(s.Since) >= rule.For:
		s.fire(value, now)
		b.tell(s, Firing, now)
		return true, true
	case s.Firing() && s.repeats(rule, now):
		s.Repeats++
		s.Value, s.ValueAt = value, now
		b.tell(s, Firing, now)
		return true, true
	}
	return true, changed
}

// repeats reports whether another webhook is due. The first one of a rule that got its URL
// after the alert fired is due a period after the alert fired.
func (s *Alert) repeats(rule *Rule, now job.Instant) bool {
	return rule.Repeat > 0 && s.URL != "" && now.Sub(max(s.ToldAt, s.FiredAt)) >= rule.Repeat
}

// fire turns a pending alert into a firing one.
func (s *Alert) fire(value float64, now job.Instant) {
	s.FiredAt, s.Value, s.ValueAt = now, value, now
	s.ID = identifier(now, s.Rule, s.Topic, s.Endpoint)
}

// end resolves all alerts of a deleted rule.
func (b *book) end(now job.Instant) {
	for i := range b.Alerts {
		if s := &b.Alerts[i]; s.Firing() {
			b.tell(s, Resolved, now)
		}
	}
	b.Alerts = nil
}

// highest returns up to n subjects with values above the threshold, highest first.
func highest(v values, above float64, n int) []Subject {
	var all []Subject
	for s, value := range v {
		if value > above {
			all = append(all, s)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return cmp.Or(cmp.Compare(v[b], v[a]), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Endpoint, b.Endpoint)) < 0
	})
	return all[:min(len(all), max(n, 0))]
}
