package store

import (
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
