package alerts

import (
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

// Topic is the topic of the webhooks of alerts.
const Topic = "duehook-alerts"

// Metric is the figure of a rule.
type Metric string

// The metrics.
const (
	Failures     Metric = "failures"      // failed attempts within the window
	FailureRate  Metric = "failure_rate"  // their share of all attempts within the window, 0 to 1
	DeadLetters  Metric = "dead_letters"  // kept dead letters; with a window, new ones within it
	OldestDue    Metric = "oldest_due"    // seconds since the oldest waiting job has been due
	BacklogJobs  Metric = "backlog"       // due jobs that wait
	OpenCircuits Metric = "open_circuits" // endpoints whose circuit is open or half-open
)

// By is the grouping of a rule: one value for all its jobs, or one for each topic or
// endpoint.
type By string

// The groupings.
const (
	ByTotal    By = "total"
	ByTopic    By = "topic"
	ByEndpoint By = "endpoint"
)

// kinds are the properties of metrics.
var kinds = map[Metric]struct {
	by       []By // the first is the default
	endpoint bool // a rule may name an endpoint
	topic    bool // or a topic
	window   bool // it may have a window
	always   bool // and without one the default
	share    bool // the value is at most 1
}{
	Failures:     {by: []By{ByTotal, ByTopic, ByEndpoint}, endpoint: true, topic: true, window: true, always: true},
	FailureRate:  {by: []By{ByTotal, ByTopic, ByEndpoint}, endpoint: true, topic: true, window: true, always: true, share: true},
	DeadLetters:  {by: []By{ByTotal, ByTopic, ByEndpoint}, endpoint: true, topic: true, window: true},
	OldestDue:    {by: []By{ByTotal, ByTopic}, topic: true},
	BacklogJobs:  {by: []By{ByTotal, ByTopic}, topic: true},
	OpenCircuits: {by: []By{ByEndpoint, ByTotal}, endpoint: true},
}

// Metrics are all metrics, in the order of messages.
var Metrics = []Metric{Failures, FailureRate, DeadLetters, OldestDue, BacklogJobs, OpenCircuits}

// Limits and defaults of rules.
const (
	MaxRules           = 100
	MaxRuleName        = 64
	MinWindow          = slotLength
	MaxWindow          = time.Hour
	MaxFor             = 24 * time.Hour
	MinRepeat          = time.Minute
	MaxRepeat          = 7 * 24 * time.Hour
	DefaultWindow      = 5 * time.Minute
	DefaultFor         = time.Minute
	DefaultRepeat      = 4 * time.Hour
	DefaultMinAttempts = 10
	maxMinAttempts     = 1_000_000
	maxAbove           = 1e12
)

// Rule defines when there is an alert. Its JSON is a document.
type Rule struct {
	Name   string `json:"-"`
	Metric Metric `json:"metric"`
	By     By     `json:"by"`
	// Topic and Endpoint restrict the rule.
	Topic    string `json:"topic,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	// Above is the threshold.
	Above float64 `json:"above"`
	// Window is the window of Failures and FailureRate, and of DeadLetters unless zero.
	Window time.Duration `json:"window,omitempty"`
	// MinAttempts is the least number of attempts for a FailureRate; with fewer it is 0.
	MinAttempts int `json:"min_attempts,omitempty"`
	// For is how long the value must be above the threshold before the alert fires.
	// KeepFiring is how long it must not be before the alert is resolved.
	For        time.Duration `json:"for"`
	KeepFiring time.Duration `json:"keep_firing_for"`
	// Repeat is the interval of webhooks while the alert fires; 0: only one.
	Repeat time.Duration `json:"repeat"`
	// URL receives the webhooks; empty: there is only the metric.
	URL string `json:"url,omitempty"`

	documents.Stamp

	// Newer: the rule is unreadable. Only its name is known.
	Newer bool `json:"-"`
}

// Draft is a requested rule. Nil and empty fields have defaults.
type Draft struct {
	Metric, By, Topic, Endpoint string
	Above                       *float64
	Window                      *time.Duration
	MinAttempts                 *int
	For                         *time.Duration
	KeepFiring                  *time.Duration
	Repeat                      *time.Duration
	URL                         string
}

// Check returns nil or a *job.ValidationError.
func (d *Draft) Check(name string) error {
	_, err := d.rule(name)
	return err
}

func checkLength(name string) error {
	if len(name) > MaxRuleName {
		return job.Invalid("rule", fmt.Sprintf("must have at most %d characters", MaxRuleName))
	}
	return nil
}

// rule returns the requested rule. The error is a *job.ValidationError.
func (d *Draft) rule(name string) (Rule, error) {
	var f job.Findings
	r := Rule{
		Name: name, Metric: Metric(d.Metric), By: By(d.By), Topic: d.Topic, Endpoint: d.Endpoint, URL: d.URL,
		Window:     f.Duration("window", d.Window, 0, MinWindow, MaxWindow),
		For:        f.Duration("for", d.For, DefaultFor, 0, MaxFor),
		KeepFiring: f.Duration("keep_firing_for", d.KeepFiring, DefaultFor, 0, MaxFor),
		Repeat:     DefaultRepeat,
	}
	_ = f.Take("", checkLength(name))
	if d.Repeat != nil && *d.Repeat == 0 {
		r.Repeat = 0
	} else {
		r.Repeat = f.Duration("repeat", d.Repeat, DefaultRepeat, MinRepeat, MaxRepeat)
	}
	if d.URL != "" {
		f.Check("url", job.Destination(d.URL).Check())
	}
	if _, known := kinds[r.Metric]; known {
		d.ofMetric(&f, &r)
	} else {
		f.Add("metric", fmt.Sprintf("must be one of %s", list(Metrics)))
	}
	return r, f.Err()
}

// ofMetric checks and completes the fields that depend on the metric.
func (d *Draft) ofMetric(f *job.Findings, r *Rule) {
	kind := kinds[r.Metric]
	if r.By == "" {
		r.By = kind.by[0]
	} else if !slices.Contains(kind.by, r.By) {
		f.Add("by", fmt.Sprintf("must be one of %s with %s", list(kind.by), r.Metric))
	}
	for _, given := range []struct {
		field   job.Field
		is, may bool
	}{
		{"topic", r.Topic != "", kind.topic},
		{"endpoint", r.Endpoint != "", kind.endpoint},
		{"window", d.Window != nil, kind.window},
		{"min_attempts", d.MinAttempts != nil, kind.share},
	} {
		if given.is && !given.may {
			f.Add(given.field, fmt.Sprintf("is impossible with %s", r.Metric))
		}
	}
	if r.Topic == Topic {
		f.Add("topic", "must not be the topic of the alerts themselves")
	}
	if kind.always && d.Window == nil {
		r.Window = DefaultWindow
	}
	d.threshold(f, r, kind.share)
}

func (d *Draft) threshold(f *job.Findings, r *Rule, share bool) {
	most := maxAbove
	if share {
		most = 1
		r.MinAttempts = DefaultMinAttempts
		if d.MinAttempts != nil {
			r.MinAttempts = *d.MinAttempts
		}
		if r.MinAttempts < 1 || r.MinAttempts > maxMinAttempts {
			f.Add("min_attempts", fmt.Sprintf("must be from 1 to %d", maxMinAttempts))
		}
	}
	switch {
	case d.Above == nil && r.Metric == OpenCircuits: // any is one too many
	case d.Above == nil:
		f.Add("above", "is required")
	case *d.Above < 0 || *d.Above >= most:
		f.Add("above", fmt.Sprintf("must be at least 0 and below %.f", most))
	default:
		r.Above = *d.Above
	}
}

func list[T ~string](words []T) string {
	text := ""
	for i, w := range words {
		if i > 0 {
			text += ", "
		}
		text += string(w)
	}
	return text
}

// ruleKind is the kind of documents that are rules; their names are the rules'.
const ruleKind = "alert-rule"

// ruleDocuments returns the documents of rules.
func ruleDocuments(s store.Documents, clock job.Clock) *documents.Collection[Rule] {
	return documents.New(documents.Options[Rule]{
		Store: s, Kind: ruleKind, Max: MaxRules, Full: ErrTooMany, Missing: ErrNotFound,
		Clock: clock, Stamp: func(r *Rule) *documents.Stamp { return &r.Stamp },
		New: func(name string) Rule { return Rule{Name: name} },
		Check: func(r *Rule) error {
			if _, known := kinds[r.Metric]; !known {
				return fmt.Errorf("unknown metric %q", r.Metric)
			}
			return nil
		},
	})
}
