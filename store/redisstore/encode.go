package redisstore

import (
	"encoding/json"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/rules"
)

// encodedPlan is a rules.Plan for lua/carry.lua, with the facts that it was made from. Zero
// values are left out: scripts read them as nil.
type encodedPlan struct {
	Limits     map[string]string `json:"limits,omitempty"` // of topics that have some, as stored
	Tokens     map[string]string `json:"tokens,omitempty"`
	Circuits   map[string]string `json:"circuits,omitempty"`
	Closed     []string          `json:"closed,omitempty"` // endpoints whose stored circuit has closed by now
	WithRivals bool              `json:"with_rivals,omitempty"`

	Topics  []encodedTopic  `json:"topics"`
	Groups  []encodedGroup  `json:"groups"`
	Terms   []*encodedTerms `json:"terms"`
	Visited int             `json:"visited"`
	Visits  []int           `json:"visits,omitempty"` // the number of each visit's terms, from 1; nil: all have the first
}

type encodedTopic struct {
	Name  string      `json:"name"`
	Limit int         `json:"limit,omitempty"`
	Look  job.Instant `json:"look,omitempty"`
	// Allowed is nil without a rate.
	Allowed  *int          `json:"allowed,omitempty"`
	Next     float64       `json:"next,omitempty"`
	Interval float64       `json:"interval,omitempty"`
	Slots    []job.Instant `json:"slots,omitempty"`
}

type encodedGroup struct {
	Endpoints int   `json:"endpoints"`
	Ranks     []int `json:"ranks"`
}

type encodedTerms struct {
	PutOff        job.Instant `json:"put_off,omitempty"`
	Incomplete    job.Instant `json:"incomplete,omitempty"`
	Part          float64     `json:"part,omitempty"`
	Group         int         `json:"group,omitempty"`
	Rank          int         `json:"rank,omitempty"`
	EndpointLimit int         `json:"endpoint_limit,omitempty"`
	EndpointLook  job.Instant `json:"endpoint_look,omitempty"`
	OwnLimit      int         `json:"own_limit,omitempty"`
	OwnLook       job.Instant `json:"own_look,omitempty"`
	OwnCalled     bool        `json:"own_called,omitempty"`
	Topic         int         `json:"topic,omitempty"`
	Rival         bool        `json:"rival,omitempty"`
	Late          bool        `json:"late,omitempty"`
}

// encode encodes a plan, with the facts that it was made from.
func (p *planning) encode(plan *rules.Plan, topics map[string]topicFacts, circuits map[string]string) ([]byte, error) {
	e := encodedPlan{
		Limits: map[string]string{}, Tokens: map[string]string{}, Circuits: circuits, Closed: p.closed, WithRivals: p.rivals,
		Topics: make([]encodedTopic, len(plan.Topics)), Groups: make([]encodedGroup, len(plan.Groups)), Visited: len(plan.Visits),
	}
	for name, t := range topics {
		e.Limits[name] = t.limits
		if t.token != "" {
			e.Tokens[name] = t.token
		}
	}
	for i := range plan.Topics {
		t := &plan.Topics[i]
		e.Topics[i] = encodedTopic{Name: t.Name, Limit: t.Limit, Look: t.Look, Next: t.Pace.Next, Interval: t.Pace.Interval, Slots: t.Slots}
		if t.Paced {
			e.Topics[i].Allowed = &t.Allowed
		}
	}
	for i, g := range plan.Groups {
		e.Groups[i] = encodedGroup{g.Endpoints, g.Ranks[1:]}
	}
	e.setTerms(plan)
	b, err := json.Marshal(&e)
	if err != nil {
		return nil, fmt.Errorf("redisstore: encode a plan: %w", err)
	}
	return b, nil
}

// setTerms sets the terms of all visits. Equal ones stand once.
func (e *encodedPlan) setTerms(plan *rules.Plan) {
	known := map[rules.Terms]int{}
	e.Terms, e.Visits = []*encodedTerms{}, make([]int, len(plan.Visits))
	for i := range plan.Visits {
		t := &plan.Visits[i].Terms
		n, ok := known[*t]
		if !ok {
			e.Terms = append(e.Terms, &encodedTerms{
				t.PutOff, t.Incomplete, t.Part, t.Group, t.Rank, t.Endpoint.Limit, t.Endpoint.Look, t.Own.Limit, t.Own.Look, t.Own.Called,
				t.Topic, t.Rival, t.Late,
			})
			n = len(e.Terms)
			known[*t] = n
		}
		e.Visits[i] = n
	}
	if len(e.Terms) == 1 {
		e.Visits = nil
	}
}
