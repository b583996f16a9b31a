package alerts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Topic is the topic of the webhooks of alerts.
const Topic = "duehook-alerts"

// Errors on which callers decide.
var (
	// ErrNotFound: no rule has this name.
	ErrNotFound = errors.New("alert rule not found")
	// ErrTooMany: there are MaxRules rules.
	ErrTooMany = errors.New("too many alert rules")
)

// Metrics are what rules watch, and Formats are those of webhooks; the first is the default.
var (
	Metrics = []string{Failures, DeadLetters, Backlog, OldestDue, OpenCircuits, SilentNodes, ServerTrouble, InboxTrouble}
	Formats = []string{JSON, Slack, Teams}
)

// The metrics and formats.
const (
	Failures     = "failures"      // failed attempts within the window
	DeadLetters  = "dead_letters"  // new dead letters within the window
	Backlog      = "backlog"       // due jobs that wait
	OldestDue    = "oldest_due"    // seconds since the oldest of them has been due
	OpenCircuits = "open_circuits" // 1 for each endpoint whose circuit is open or half-open
	SilentNodes  = "silent_nodes"  // 1 for each node without heartbeats

	ServerTrouble = "server_trouble" // 1 for each trouble of the store's server
	InboxTrouble  = "inbox_trouble"  // 1 for each trouble of an inbox

	JSON  = "json"
	Slack = "slack"
	Teams = "teams"
)

// kind is the properties of a metric: the fields that its rules have, and its words in webhooks.
type kind struct {
	topic, endpoint, window, above bool
	words                          string
}

var kinds = map[string]kind{
	Failures:     {topic: true, endpoint: true, window: true, above: true, words: "failed attempts"},
	DeadLetters:  {topic: true, endpoint: true, window: true, above: true, words: "new dead letters"},
	Backlog:      {topic: true, above: true, words: "due jobs"},
	OldestDue:    {topic: true, above: true, words: "seconds of delay"},
	OpenCircuits: {endpoint: true, words: "open circuit"},
	SilentNodes:  {words: "no heartbeat"},

	ServerTrouble: {words: "trouble of the server"},
	InboxTrouble:  {words: "trouble of an inbox"},
}

// Limits and defaults of rules.
const (
	MaxRules      = 100
	MaxRuleName   = 64
	MinWindow     = time.Minute
	MaxWindow     = time.Hour
	DefaultWindow = 5 * time.Minute
	maxAbove      = 1e12
)

// Rule defines when there is an alert. It has one for each topic, or for the one endpoint that it names; on circuits,
// for each endpoint; on nodes, for each of them. Its JSON is a document.
type Rule struct {
	Name   string `json:"-"`
	Metric string `json:"metric"`
	// Topic and Endpoint restrict the rule.
	Topic    string        `json:"topic,omitempty"`
	Endpoint string        `json:"endpoint,omitempty"`
	Above    float64       `json:"above,omitempty"`
	Window   time.Duration `json:"window,omitempty"`
	// URL receives the webhooks; empty: there is only the metric.
	URL    string `json:"url,omitempty"`
	Format string `json:"format"`
	documents.Stamp
	// Alerts are what fires, and what is still to be told.
	Alerts []Alert `json:"alerts,omitempty"`
	// Deleted: the rule stays until it is told that its alerts are resolved.
	Deleted bool `json:"deleted,omitempty"`
}

// Threshold is Above, if the metric has a threshold; nil: any value above 0 is an alert.
func (r *Rule) Threshold() *float64 {
	if kinds[r.Metric].above {
		return &r.Above
	}
	return nil
}

// Draft is a requested rule. Nil and empty fields have defaults.
type Draft struct {
	Metric, Topic, Endpoint, URL, Format string
	Above                                *float64
	Window                               *time.Duration
}

// Check returns nil or a *job.ValidationError.
func (d *Draft) Check(name string) error {
	_, err := d.rule(name)
	return err
}

func checkName(name string) error {
	if len(name) > MaxRuleName {
		return job.Invalid("rule", fmt.Sprintf("must have at most %d characters", MaxRuleName))
	}
	return nil
}

// rule returns the requested rule. The error is a *job.ValidationError.
func (d *Draft) rule(name string) (Rule, error) {
	var f job.Findings
	r := Rule{Name: name, Metric: d.Metric, Topic: d.Topic, Endpoint: d.Endpoint, URL: d.URL, Format: cmp.Or(d.Format, Formats[0])}
	_ = f.Take("", checkName(name))
	if d.URL != "" {
		f.Check("url", job.Destination(d.URL).Check())
	}
	if !slices.Contains(Formats, r.Format) {
		f.Add("format", "must be one of "+strings.Join(Formats, ", "))
	}
	k, known := kinds[d.Metric]
	if !known {
		f.Add("metric", "must be one of "+strings.Join(Metrics, ", "))
		return r, f.Err()
	}
	for _, given := range []struct {
		field   job.Field
		is, may bool
	}{
		{"topic", d.Topic != "", k.topic}, {"endpoint", d.Endpoint != "", k.endpoint}, {"window", d.Window != nil, k.window}, {"above", d.Above != nil, k.above},
	} {
		if given.is && !given.may {
			f.Add(given.field, "is impossible with "+d.Metric)
		}
	}
	if d.Topic == Topic {
		f.Add("topic", "must not be the topic of the alerts themselves")
	}
	if k.window {
		r.Window = f.Duration("window", d.Window, DefaultWindow, MinWindow, MaxWindow)
	}
	switch {
	case !k.above:
	case d.Above == nil:
		f.Add("above", "is required")
	case *d.Above < 0 || *d.Above >= maxAbove:
		f.Add("above", fmt.Sprintf("must be at least 0 and below %.f", maxAbove))
	default:
		r.Above = *d.Above
	}
	return r, f.Err()
}

// ruleDocuments returns the documents of rules; their names are the rules'.
func ruleDocuments(s store.Documents, clock job.Clock) *documents.Collection[Rule] {
	return documents.New(documents.Options[Rule]{
		Store: s, Kind: "alert-rule", Max: MaxRules, Full: ErrTooMany, Missing: ErrNotFound,
		Clock: clock, Stamp: func(r *Rule) *documents.Stamp { return &r.Stamp },
		New:    func(name string) Rule { return Rule{Name: name} },
		Exists: func(r *Rule) bool { return !r.Deleted },
		Blank:  func(r *Rule) bool { return r.Deleted && len(r.Alerts) == 0 },
		Check: func(r *Rule) error {
			if _, known := kinds[r.Metric]; !known {
				return fmt.Errorf("unknown metric %q", r.Metric)
			}
			return nil
		},
	})
}
