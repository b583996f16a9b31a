package alerts

import (
	"context"
	"sync"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// maxOpen bounds the open circuits that are read.
const maxOpen = 1_000

// values are the values of a rule's subjects; missing ones are 0.
type values map[Subject]float64

// reading is the figures that rules need, each read once.
type reading struct {
	counts   *Counts
	backlogs func() (store.Backlogs, error)
	open     func() (store.EndpointPage, error)
	silent   func() ([]string, error)
	troubles map[string]Troubles
	// targets are the endpoints of webhooks. Rules ignore their circuits: an alert that cannot be
	// delivered would cause the next one.
	targets map[string]bool
}

func (m *Manager) reading(ctx context.Context, docs []stored) *reading {
	r := &reading{
		counts: m.o.Counts, targets: map[string]bool{},
		backlogs: sync.OnceValues(func() (store.Backlogs, error) { return listing.Backlogs(ctx, m.o.Store) }),
		open: sync.OnceValues(func() (store.EndpointPage, error) {
			return listing.Endpoints(ctx, m.o.Store, store.EndpointQuery{States: []store.CircuitState{store.CircuitOpen, store.CircuitHalfOpen}, Limit: maxOpen})
		}),
		silent:   sync.OnceValues(func() ([]string, error) { return m.o.Silent(ctx) }),
		troubles: m.o.Troubles,
	}
	for i := range docs {
		if endpoint, err := job.Destination(docs[i].Value.URL).Endpoint(); err == nil {
			r.targets[endpoint] = true
		}
	}
	return r
}

// of returns the values of a rule's subjects. If they are incomplete, the true values are at
// least as high.
func (r *reading) of(rule *Rule) (v values, complete bool, err error) {
	v, complete = values{}, true
	switch rule.Metric {
	case Failures, DeadLetters:
		var rows []count
		rows, complete = r.counts.within(rule.Window)
		for _, n := range rows {
			v.add(rule, Subject{Topic: n.Topic, Endpoint: n.Endpoint}, map[string]int64{Failures: n.Failed, DeadLetters: n.Dead}[rule.Metric])
		}
	case Backlog, OldestDue:
		var all store.Backlogs
		all, err = r.backlogs()
		complete = !all.Partial
		for _, b := range all.Topics {
			v.add(rule, Subject{Topic: b.Topic}, map[string]int64{Backlog: b.Jobs, OldestDue: int64(all.Now.Sub(b.Oldest).Seconds())}[rule.Metric])
		}
	case OpenCircuits:
		var page store.EndpointPage
		page, err = r.open()
		complete = page.Next == ""
		for i := range page.Endpoints {
			if name := page.Endpoints[i].Endpoint; !r.targets[name] {
				v.add(rule, Subject{Endpoint: name}, 1)
			}
		}
	case SilentNodes:
		var names []string
		names, err = r.silent()
		for _, name := range names {
			v.add(rule, Subject{Node: name}, 1)
		}
	case ServerTrouble, InboxTrouble:
		if troubles := r.troubles[rule.Metric]; troubles != nil {
			var all []string
			all, complete = troubles()
			for _, trouble := range all {
				v.add(rule, Subject{Trouble: trouble}, 1)
			}
		}
	}
	return v, complete, err
}

// add adds n to the subject of figures about of, if these are subject to the rule.
func (v values) add(r *Rule, of Subject, n int64) {
	if of.Topic == Topic || r.Topic != "" && r.Topic != of.Topic || r.Endpoint != "" && r.Endpoint != of.Endpoint {
		return
	}
	s := of
	if of.Topic != "" && r.Endpoint == "" {
		s.Endpoint = "" // of the topic
	} else if of.Topic != "" {
		s.Topic = r.Topic // of the endpoint
	}
	v[s] += float64(n)
}
