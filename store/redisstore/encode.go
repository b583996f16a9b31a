package redisstore

import (
	"encoding/json"
	"fmt"

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

	Topics  []rules.TopicTerms `json:"topics"`
	Groups  []rules.Group      `json:"groups"`
	Terms   []*rules.Terms     `json:"terms"`
	Visited int                `json:"visited"`
	Visits  []int              `json:"visits,omitempty"` // the number of each visit's terms, from 1; nil: all have the first
}

// encode encodes a plan, with the facts that it was made from.
func (p *planning) encode(plan *rules.Plan, topics map[string]topicFacts, circuits map[string]string) ([]byte, error) {
	e := encodedPlan{
		Limits: map[string]string{}, Tokens: map[string]string{}, Circuits: circuits, Closed: p.closed, WithRivals: p.rivals,
		Topics: append([]rules.TopicTerms{}, plan.Topics...), Groups: append([]rules.Group{}, plan.Groups...), Visited: len(plan.Visits),
	}
	for name, t := range topics {
		e.Limits[name] = t.limits
		if t.token != "" {
			e.Tokens[name] = t.token
		}
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
	e.Terms, e.Visits = []*rules.Terms{}, make([]int, len(plan.Visits))
	for i := range plan.Visits {
		t := &plan.Visits[i].Terms
		n, ok := known[*t]
		if !ok {
			e.Terms = append(e.Terms, t)
			n = len(e.Terms)
			known[*t] = n
		}
		e.Visits[i] = n
	}
	if len(e.Terms) == 1 {
		e.Visits = nil
	}
}
