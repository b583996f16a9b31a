package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Bounds on reading the store: pages of one kind, and rows of a page.
const (
	maxPages  = 20
	pageLimit = 1_000
)

// Subject is the topic or endpoint of a value; empty fields mean all.
type Subject struct {
	Topic    string `json:"topic,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
}

// values are the values of a rule's subjects; missing ones are 0.
type values map[Subject]float64

// reading is the figures that the rules need.
type reading struct {
	now      job.Instant // by the store's clock
	counts   func(window time.Duration) (rows []count, complete bool)
	dead     []store.DeadGroup
	backlogs store.Backlogs
	// endpoints have open or half-open circuits; there are more unless allEndpoints.
	endpoints    []store.EndpointStats
	allEndpoints bool
	// targets are the endpoints of webhooks. Rules ignore them: an alert that cannot be
	// delivered would cause the next one.
	targets map[string]bool
}

// read reads the figures that the rules need.
func (m *Manager) read(ctx context.Context, rules []Rule) (*reading, error) {
	now, err := store.Now(ctx, m.o.Store)
	if err != nil {
		return nil, fmt.Errorf("ask for the store's time: %w", err)
	}
	r := &reading{now: now, counts: remembered(m.o.Counts.within), targets: map[string]bool{}}
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
	if needs[DeadLetters] {
		r.dead, _, err = store.ReadPages(maxPages, func(cursor string) ([]store.DeadGroup, string, error) {
			page, err := listing.DeadGroups(ctx, m.o.Store, "", pageLimit, cursor)
			return page.Groups, page.Next, err
		})
		if err != nil {
			return nil, fmt.Errorf("count dead letters: %w", err)
		}
	}
	if needs[OldestDue] || needs[BacklogJobs] {
		if r.backlogs, err = listing.Backlogs(ctx, m.o.Store); err != nil {
			return nil, fmt.Errorf("read backlogs: %w", err)
		}
	}
	if needs[OpenCircuits] {
		q := store.EndpointQuery{States: []store.CircuitState{store.CircuitOpen, store.CircuitHalfOpen}, Limit: pageLimit}
		r.endpoints, r.allEndpoints, err = store.ReadPages(maxPages, func(cursor string) ([]store.EndpointStats, string, error) {
			q.Cursor = cursor
			page, err := listing.Endpoints(ctx, m.o.Store, q)
			return page.Endpoints, page.Next, err
		})
		if err != nil {
			return nil, fmt.Errorf("read open circuits: %w", err)
		}
	}
	return r, nil
}

// remembered caches the sums of each window.
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

// counts reports whether the rule needs counts, not the store.
func (r *Rule) counts() bool { return r.Window > 0 }

// of returns the values of a rule's subjects. If they are incomplete, the true values are at
// least as high.
func (r *reading) of(rule *Rule) (v values, complete bool) {
	v, complete = values{}, true
	if rule.counts() {
		return v, r.counted(rule, v)
	}
	switch rule.Metric {
	case OldestDue:
		complete = !r.backlogs.Partial
		r.oldest(rule, v)
	case BacklogJobs:
		complete = !r.backlogs.Partial
		for _, b := range r.backlogs.Topics {
			v.add(rule, Subject{Topic: b.Topic}, float64(b.Jobs))
		}
	case OpenCircuits:
		complete = r.allEndpoints
		r.open(rule, v)
	case DeadLetters:
		for _, g := range r.dead {
			v.add(rule, Subject{g.Lane.Topic, g.Lane.Endpoint}, float64(g.Count))
		}
	}
	return v, complete
}

// add adds n to the subject of a lane, or of a part of one.
func (v values) add(rule *Rule, of Subject, n float64) {
	if s, ok := rule.subject(of); ok {
		v[s] += n
	}
}

// subject returns the subject of a lane, if it is subject to the rule.
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
	// Counts without a name only belong to totals.
	return s, r.By == ByTotal || s != (Subject{})
}

func (r *reading) oldest(rule *Rule, v values) {
	for _, b := range r.backlogs.Topics {
		if s, ok := rule.subject(Subject{Topic: b.Topic}); ok {
			v[s] = max(v[s], r.backlogs.Now.Sub(b.Oldest).Seconds())
		}
	}
}

func (r *reading) open(rule *Rule, v values) {
	for i := range r.endpoints {
		if name := r.endpoints[i].Endpoint; !r.targets[name] {
			v.add(rule, Subject{Endpoint: name}, 1)
		}
	}
}

// counted computes the values of rules on counts.
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
