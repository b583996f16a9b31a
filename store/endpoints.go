package store

import (
	"context"
	"maps"
	"slices"

	"github.com/duehook/duehook/job"
)

// CircuitState says how jobs of an endpoint are carried.
type CircuitState uint8

// The states of a circuit.
const (
	CircuitClosed   CircuitState = iota // freely, or more and more of them
	CircuitOpen                         // not at all: it is held
	CircuitHalfOpen                     // a few at a time: it is probed
)

// circuitStates names them as circuit breakers are spoken of.
var circuitStates = [...]string{CircuitClosed: "closed", CircuitOpen: "open", CircuitHalfOpen: "half_open"}

func (s CircuitState) String() string { return circuitStates[s] }

// ParseCircuitState is the reverse of String; false means that there is no such state.
func ParseCircuitState(name string) (CircuitState, bool) {
	at := slices.Index(circuitStates[:], name)
	return CircuitState(max(at, 0)), at >= 0
}

// State is that of a circuit as it was seen.
func (g Circuit) State() CircuitState {
	switch {
	case g.OpenUntil != 0:
		return CircuitOpen
	case g.HalfOpenUntil != 0:
		return CircuitHalfOpen
	}
	return CircuitClosed
}

// EndpointStats are the unfinished jobs of one endpoint, and how they are carried.
type EndpointStats struct {
	Endpoint string
	Circuit  Circuit
	Waiting  int64 // due later, or due and not carried yet
	Ready    int64 // carried
	Running  int64 // claimed
}

// EndpointQuery selects endpoints.
type EndpointQuery struct {
	Endpoint string         // this one only
	States   []CircuitState // any of them; none: all
	// Also are endpoints that are listed although nothing of them is stored.
	Also   []string
	Limit  int    // 1..1000
	Cursor string // from the page before, or empty
}

// EndpointPage is one page of endpoints; Next is empty on the last.
type EndpointPage struct {
	Now       job.Instant
	Endpoints []EndpointStats
	Next      string
}

// Pick gives the endpoints of the page that q asks for, and the cursor of the next
// one. circuits are those that are not simply open; next gives a store's
// endpoints with unfinished jobs. It is for stores.
func (q *EndpointQuery) Pick(ctx context.Context, circuits map[string]Circuit, next NextNames) ([]EndpointStats, string, error) {
	from, err := decodeName(endpointCursor, q.Cursor)
	if err != nil {
		return nil, "", err
	}
	walk := nameWalk{
		next: next, also: slices.AppendSeq(slices.Clone(q.Also), maps.Keys(circuits)), from: from, limit: q.Limit, chunk: q.Limit + 1,
		matches: func(name string) bool {
			g := circuits[name]
			return len(q.States) == 0 || slices.Contains(q.States, g.State())
		},
	}
	if !q.wantsClosed() {
		walk.next = func(context.Context, string, int) ([]string, error) { return nil, nil }
	}
	if q.Endpoint != "" {
		if walk, err = q.only(ctx, walk); err != nil {
			return nil, "", err
		}
	}
	names, last, err := walk.page(ctx)
	page := make([]EndpointStats, len(names))
	for i, name := range names {
		page[i] = EndpointStats{Endpoint: name, Circuit: circuits[name]}
	}
	return page, encodeName(endpointCursor, last), err
}

// wantsClosed: endpoints without a circuit may be among those selected.
func (q *EndpointQuery) wantsClosed() bool {
	return len(q.States) == 0 || slices.Contains(q.States, CircuitClosed)
}

// only narrows a walk down to one endpoint.
func (q *EndpointQuery) only(ctx context.Context, walk nameWalk) (nameWalk, error) {
	name := q.Endpoint
	others := func(other string) bool { return other != name }
	if !slices.Contains(walk.also, name) {
		found, err := walk.next(ctx, name, 1)
		if err != nil {
			return walk, err
		}
		walk.also = append(walk.also, found...)
	}
	walk.also = slices.DeleteFunc(walk.also, others)
	walk.next = func(context.Context, string, int) ([]string, error) { return nil, nil }
	return walk, nil
}
