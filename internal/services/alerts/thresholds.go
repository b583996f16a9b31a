package alerts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
)

const (
	// MaxTopics is the most topics with thresholds.
	MaxTopics = 100
	// MaxTopicName is the longest name of a topic with thresholds: the names of its rules
	// contain it.
	MaxTopicName = job.MaxName - len(":"+FailureRate)
	// separator separates the topic and the metric in the name of a topic's rule. Names
	// of other rules, and of metrics, do not contain it.
	separator = ":"
)

// Thresholds are the rules of a topic, one for each metric with a threshold. They are part
// of the topic's settings. Nil and empty fields have defaults.
type Thresholds struct {
	Failures    *float64       `json:"failures,omitempty"`
	FailureRate *float64       `json:"failure_rate,omitempty"`
	DeadLetters *float64       `json:"dead_letters,omitempty"`
	Backlog     *float64       `json:"backlog,omitempty"`
	OldestDue   *time.Duration `json:"oldest_due,omitempty"`
	// Window and MinAttempts of Terms only apply to Failures and FailureRate.
	Terms
	// Stamp is that of the topic.
	Stamp documents.Stamp `json:"-"`
}

// above returns the thresholds by metric.
func (t *Thresholds) above() map[Metric]*float64 {
	all := map[Metric]*float64{
		Failures: t.Failures, FailureRate: t.FailureRate, DeadLetters: t.DeadLetters, BacklogJobs: t.Backlog,
	}
	if t.OldestDue != nil {
		seconds := t.OldestDue.Seconds()
		all[OldestDue] = &seconds
	}
	return all
}

// Check returns nil or a *job.ValidationError.
func (t *Thresholds) Check(topic string) error {
	_, err := t.rules(topic)
	return err
}

// rules returns the rules of a topic. The error is a *job.ValidationError.
func (t *Thresholds) rules(topic string) ([]Rule, error) {
	var f job.Findings
	if len(topic) > MaxTopicName {
		f.Add("topic", fmt.Sprintf("must have at most %d characters to have alerts", MaxTopicName))
	}
	var rules []Rule
	above := t.above()
	for _, metric := range Metrics {
		if above[metric] == nil {
			continue
		}
		r, err := t.draft(topic, metric, above[metric]).rule(topic + separator + string(metric))
		takeThreshold(&f, metric, err)
		r.Stamp = t.Stamp
		rules = append(rules, r)
	}
	if len(rules) == 0 {
		f.Add("", "must have a threshold: "+list(thresholdNames))
	}
	if t.Window != nil && t.Failures == nil && t.FailureRate == nil {
		f.Add("window", "is for failures and failure_rate only")
	}
	if t.MinAttempts != nil && t.FailureRate == nil {
		f.Add("min_attempts", "is for failure_rate only")
	}
	return rules, f.Err()
}

// thresholdNames are the metrics that a topic can have thresholds for.
var thresholdNames = slices.DeleteFunc(slices.Clone(Metrics), func(m Metric) bool { return !kinds[m].topic })

// draft returns the rule on one metric.
func (t *Thresholds) draft(topic string, metric Metric, above *float64) *Draft {
	d := &Draft{Metric: string(metric), Topic: topic, Above: above, Terms: t.Terms}
	if !kinds[metric].always {
		d.Window = nil
	}
	if !kinds[metric].share {
		d.MinAttempts = nil
	}
	return d
}

// takeThreshold adds the problems of the rule on a metric.
func takeThreshold(f *job.Findings, metric Metric, err error) {
	wrong, ok := errors.AsType[*job.ValidationError](err)
	if !ok {
		return
	}
	for _, e := range wrong.Fields {
		if e.Field == "above" {
			e.Field = job.Field(metric)
		}
		f.Add(e.Field, e.Message)
	}
}

// TopicOf returns the topic whose settings a rule derives from; empty: none.
func TopicOf(rule string) string {
	return rule[:max(0, strings.LastIndex(rule, separator))]
}
