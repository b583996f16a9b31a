package store

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/duehook/duehook/job"
)

// GateState says how jobs of an endpoint are carried.
type GateState uint8

// The states of a gate.
const (
	GateClosed   GateState = iota // freely, or more and more of them
	GateOpen                      // not at all: it is held
	GateHalfOpen                  // a few at a time: it is probed
)

// gateStates names them as circuit breakers are spoken of.
var gateStates = [...]string{GateClosed: "closed", GateOpen: "open", GateHalfOpen: "half_open"}

func (s GateState) String() string { return gateStates[s] }

// ParseGateState is the reverse of String; false means that there is no such state.
func ParseGateState(name string) (GateState, bool) {
	at := slices.Index(gateStates[:], name)
	return GateState(max(at, 0)), at >= 0
}

// State is that of a gate as it was seen.
func (g Gate) State() GateState {
	switch {
	case g.HeldUntil != 0:
		return GateOpen
	case g.ProbedUntil != 0:
		return GateHalfOpen
	}
	return GateClosed
}

// EndpointStats are the unfinished jobs of one endpoint, and how they are carried.
type EndpointStats struct {
	Endpoint string
	Gate     Gate
	Waiting  int64 // due later, or due and not carried yet
	Ready    int64 // carried
	Running  int64 // claimed
}

// EndpointQuery selects endpoints.
type EndpointQuery struct {
	Endpoint string      // this one only
	States   []GateState // any of them; none: all
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

// Pick gives the endpoints of the page that q asks for, of all that a store
// knows by name and gate, and the cursor of the next one. It is for stores. names
// may be changed.
func (q *EndpointQuery) Pick(names []string, gate func(endpoint string) Gate) ([]EndpointStats, string, error) {
	after, err := q.after()
	if err != nil {
		return nil, "", err
	}
	names = append(names, q.Also...)
	slices.Sort(names)
	from, found := slices.BinarySearch(names, after)
	if found {
		from++
	}
	var page []EndpointStats
	for _, name := range slices.Compact(names[from:]) {
		g := gate(name)
		if name == after || q.Endpoint != "" && q.Endpoint != name || len(q.States) > 0 && !slices.Contains(q.States, g.State()) {
			continue
		}
		if len(page) == q.Limit {
			last := page[len(page)-1].Endpoint
			return page, base64.RawURLEncoding.EncodeToString([]byte(last)), nil
		}
		page = append(page, EndpointStats{Endpoint: name, Gate: g})
	}
	return page, "", nil
}

// after is the endpoint behind which the page begins.
func (q *EndpointQuery) after() (string, error) {
	name, err := base64.RawURLEncoding.Strict().DecodeString(q.Cursor)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadCursor, err)
	}
	if q.Cursor == "" {
		return "", nil
	}
	if endpoint, err := job.Endpoint(string(name)); err != nil || endpoint != string(name) {
		return "", fmt.Errorf("%w: it names no endpoint", ErrBadCursor)
	}
	return string(name), nil
}
