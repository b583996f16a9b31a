package redisstore

import (
	"sync"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// facts are the limits, tokens and circuits of a shard as scripts last reported them.
// Plans are made from them. lua/carry.lua compares them with what is stored and reports
// differences, so they may be old or absent, and a plan costs no call of its own.
type facts struct {
	mu       sync.Mutex
	topics   map[string]topicFacts
	circuits map[string]string // by endpoint
}

// topicFacts is what is stored of a topic's limits, and of its rate if it has one.
type topicFacts struct {
	limits, token string
	parsed        store.Limits
}

// mostFacts bounds how many topics and endpoints are remembered.
const mostFacts = 10_000

// of returns the facts about the topics and endpoints of lanes.
func (f *facts) of(lanes []job.Lane) (topics map[string]topicFacts, circuits map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.topics)+len(f.circuits) == 0 {
		return nil, nil
	}
	topics, circuits = map[string]topicFacts{}, map[string]string{}
	for _, l := range lanes {
		if t, ok := f.topics[l.Topic]; ok {
			topics[l.Topic] = t
		}
		if c, ok := f.circuits[l.Endpoint]; ok {
			circuits[l.Endpoint] = c
		}
	}
	return topics, circuits
}

// replace replaces the facts about the topics and endpoints of lanes.
func (f *facts) replace(lanes []job.Lane, limits, tokens, circuits map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.topics)+len(f.circuits) > mostFacts || f.topics == nil {
		f.topics, f.circuits = map[string]topicFacts{}, map[string]string{}
	}
	for _, l := range lanes {
		delete(f.topics, l.Topic)
		delete(f.circuits, l.Endpoint)
	}
	for topic, text := range limits {
		parsed, _ := parseLimits(text) // unreadable: none, as in Limits
		f.topics[topic] = topicFacts{limits: text, token: tokens[topic], parsed: parsed}
	}
	for endpoint, text := range circuits {
		f.circuits[endpoint] = text
	}
}

// follow notes what a script changed: the tokens of topics, and circuits that are gone.
func (f *facts) follow(tokens []string, closed []string) {
	if len(tokens)+len(closed) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for ; len(tokens) >= 2; tokens = tokens[2:] {
		if t, ok := f.topics[tokens[0]]; ok {
			t.token = tokens[1]
			f.topics[tokens[0]] = t
		}
	}
	for _, endpoint := range closed {
		delete(f.circuits, endpoint)
	}
}
