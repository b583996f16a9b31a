package alerts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
)

const (
	// MaxTopics is how many topics may have thresholds.
	MaxTopics = 100
	// MaxTopicName is how long the name of a topic with thresholds may be: those of
	// its rules are names, too.
	MaxTopicName = job.MaxName - len(":"+FailureRate)
	// separator is between the topic and the metric in the name of a topic's rule.
	// Other rules have none in theirs, and metrics neither.
	separator = ":"
)

// Thresholds are a topic's own rules, one for each metric that has a threshold.
// They are kept with the topic's other settings; their JSON is what the store
// keeps. What is nil or empty is the default.
type Thresholds struct {
	Failures    *float64 `json:"failures,omitempty"`
	FailureRate *float64 `json:"failure_rate,omitempty"`
	DeadLetters *float64 `json:"dead_letters,omitempty"`
	Backlog     *float64 `json:"backlog,omitempty"`
	// OldestDue is the threshold of the metric of that name, which is in seconds.
	OldestDue *time.Duration `json:"oldest_due,omitempty"`
	// Of Terms, Window and MinAttempts are of Failures and FailureRate, and the
	// others of all.
	Terms
}

// above are the thresholds by metric.
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

// Check says what is wrong with them as those of a topic: nil or a
// *job.ValidationError.
func (t *Thresholds) Check(topic string) error {
	_, err := t.rules(topic)
	return err
}

// rules are the rules of a topic. The error is a *job.ValidationError.
func (t *Thresholds) rules(topic string) ([]Rule, error) {
	v := validation{}
	if len(topic) > MaxTopicName {
		v.refuse("topic", fmt.Sprintf("must have at most %d characters to have alerts", MaxTopicName))
	}
	var rules []Rule
	above := t.above()
	for _, metric := range Metrics {
		if above[metric] == nil {
			continue
		}
		r, err := t.draft(topic, metric, above[metric]).rule(topic + separator + string(metric))
		v.take(metric, err)
		rules = append(rules, r)
	}
	if len(rules) == 0 {
		v.refuse("", "must have a threshold: "+list(thresholdNames))
	}
	if t.Window != nil && t.Failures == nil && t.FailureRate == nil {
		v.refuse("window", "is of failures and failure_rate only")
	}
	if t.MinAttempts != nil && t.FailureRate == nil {
		v.refuse("min_attempts", "is of failure_rate only")
	}
	return rules, v.err()
}

// thresholdNames are the metrics that a topic may have thresholds for.
var thresholdNames = slices.DeleteFunc(slices.Clone(Metrics), func(m Metric) bool { return !kinds[m].topic })

// draft is the rule about one metric.
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

// take adds what is wrong with the rule about a metric, what is wrong with all
// of them once.
func (v *validation) take(metric Metric, err error) {
	var wrong *job.ValidationError
	if !errors.As(err, &wrong) {
		return
	}
	for _, f := range wrong.Fields {
		if f.Field == "above" {
			f.Field = job.Field(metric)
		}
		if !slices.Contains(v.fields, f) {
			v.fields = append(v.fields, f)
		}
	}
}

// TopicOf is the topic whose settings a rule follows from; empty: the rule was
// made by itself.
func TopicOf(rule string) string {
	return rule[:max(0, strings.LastIndex(rule, separator))]
}
