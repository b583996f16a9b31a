package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// deadPages bounds how many pages of groups of dead letters are read.
const deadPages = 20

// Subject is what a value is of; empty parts mean all.
type Subject struct {
	Topic    string `json:"topic,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
}

// values are the values of a rule's subjects; of those that are missing it is 0.
type values map[Subject]float64

// reading is what rules are judged by, as far as there are rules about it.
type reading struct {
	now      job.Instant // by the store's clock
	lost     bool        // the store lacks jobs that are being put back
	counts   func(window time.Duration) (rows []count, complete bool)
	dead     []store.DeadGroup
	backlogs store.Backlogs
	circuits []store.EndpointCircuit
	// targets are the endpoints that alerts go to. They are not looked at
	// themselves: an alert that cannot be delivered would bring about the next.
	targets map[string]bool
}

// read asks the store what the rules need.
func (m *Manager) read(ctx context.Context, rules []Rule) (*reading, error) {
	depth, err := m.store.Depth(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the store's time: %w", err)
	}
	r := &reading{now: depth.Now, counts: remembered(m.counts.within), targets: map[string]bool{}}
	needs := map[Metric]bool{}
	for i := range rules {
		rule := &rules[i]
		if !rule.counts() {
			needs[rule.Metric] = true
		}
		if rule.URL != "" {
			if endpoint, err := job.Destination(rule.URL).Endpoint(); err == nil {
				r.targets[endpoint] = true
			}
		}
	}
	if m.journal != nil && len(needs) > 0 {
		status, err := m.journal.RestoreStatus(ctx) // first: what is read next may come back meanwhile
		if err != nil {
			return nil, fmt.Errorf("ask whether jobs are lost: %w", err)
		}
		r.lost = status.Lost
	}
	if needs[DeadLetters] {
		if r.dead, _, err = store.ReadDeadGroups(ctx, m.store, "", deadPages); err != nil {
			return nil, err
		}
	}
	if needs[OldestDue] || needs[BacklogJobs] {
		if r.backlogs, err = m.store.Backlogs(ctx); err != nil {
			return nil, fmt.Errorf("read backlogs: %w", err)
		}
	}
	if needs[OpenCircuits] {
		if r.circuits, err = m.store.Circuits(ctx); err != nil {
			return nil, fmt.Errorf("read circuits: %w", err)
		}
	}
	return r, nil
}

// remembered adds the counts of a window up once, however many rules ask.
func remembered(within func(time.Duration) ([]count, bool)) func(time.Duration) ([]count, bool) {
	type sum struct {
		rows     []count
		complete bool
	}
	sums := map[time.Duration]sum{}
	return func(window time.Duration) ([]count, bool) {
		s, known := sums[window]
		if !known {
			s.rows, s.complete = within(window)
			sums[window] = s
		}
		return s.rows, s.complete
	}
}

// counts reports whether the rule looks at what is counted, not at the store.
func (r *Rule) counts() bool { return r.Window > 0 }

// of gives the values of a rule's subjects. When they are not complete, those
// that are there are at least as high.
func (r *reading) of(rule *Rule) (v values, complete bool) {
	v, complete = values{}, !r.lost
	if rule.counts() {
		return v, r.counted(rule, v)
	}
	switch rule.Metric {
	case OldestDue:
		complete = complete && !r.backlogs.Partial
		r.oldest(rule, v)
	case BacklogJobs:
		complete = complete && !r.backlogs.Partial
		for _, b := range r.backlogs.Topics {
			v.add(rule, Subject{Topic: b.Topic}, float64(b.Jobs))
		}
	case OpenCircuits:
		r.held(rule, v)
	case DeadLetters:
		for _, g := range r.dead {
			v.add(rule, Subject{g.Lane.Topic, g.Lane.Endpoint}, float64(g.Count))
		}
	}
	return v, complete
}

// add adds what belongs to a lane, or to a part of one, to its subject.
func (v values) add(rule *Rule, of Subject, n float64) {
	if s, ok := rule.subject(of); ok {
		v[s] += n
	}
}

// subject is the subject that something belongs to, if the rule looks at it.
func (r *Rule) subject(of Subject) (Subject, bool) {
	if of.Topic == Topic || r.Topic != "" && r.Topic != of.Topic || r.Endpoint != "" && r.Endpoint != of.Endpoint {
		return Subject{}, false
	}
	s := Subject{Topic: r.Topic, Endpoint: r.Endpoint}
	switch r.By {
	case ByTopic:
		s.Topic = of.Topic
	case ByEndpoint:
		s.Endpoint = of.Endpoint
	}
	// What was counted without a name belongs to totals only.
	return s, r.By == ByTotal || s != (Subject{})
}

func (r *reading) oldest(rule *Rule, v values) {
	for _, b := range r.backlogs.Topics {
		if s, ok := rule.subject(Subject{Topic: b.Topic}); ok {
			v[s] = max(v[s], r.backlogs.Now.Sub(b.Oldest).Seconds())
		}
	}
}

func (r *reading) held(rule *Rule, v values) {
	for _, g := range r.circuits {
		// Between two holds it is probed, and still not well.
		if down := g.Circuit.OpenUntil != 0 || g.Circuit.HalfOpenUntil != 0; down && !r.targets[g.Endpoint] {
			v.add(rule, Subject{Endpoint: g.Endpoint}, 1)
		}
	}
}

// counted gives the values of rules that look at what was counted.
func (r *reading) counted(rule *Rule, v values) (complete bool) {
	rows, complete := r.counts(rule.Window)
	attempts := values{}
	for _, n := range rows {
		of := Subject{n.Topic, n.Endpoint}
		attempts.add(rule, of, float64(n.Attempts))
		if rule.Metric == DeadLetters {
			v.add(rule, of, float64(n.Dead))
		} else {
			v.add(rule, of, float64(n.Failed))
		}
	}
	if rule.Metric == FailureRate {
		for s, n := range attempts {
			if n < float64(rule.MinAttempts) {
				delete(v, s)
				continue
			}
			v[s] /= n
		}
	}
	return complete
}
