package store

import (
	"slices"

	"github.com/duehook/duehook/internal/job"
)

// CircuitState is the state of an endpoint's circuit.
type CircuitState uint8

// The states of a circuit.
const (
	CircuitClosed   CircuitState = iota // jobs are taken, perhaps up to the limit of a ramp
	CircuitOpen                         // no job is taken
	CircuitHalfOpen                     // a few jobs are taken
)

var circuitStates = [...]string{CircuitClosed: "closed", CircuitOpen: "open", CircuitHalfOpen: "half_open"}

func (s CircuitState) String() string { return circuitStates[s] }

// ParseCircuitState is the reverse of String. It returns false for an unknown name.
func ParseCircuitState(name string) (CircuitState, bool) {
	at := slices.Index(circuitStates[:], name)
	return CircuitState(max(at, 0)), at >= 0
}

// State is the state of the circuit.
func (g Circuit) State() CircuitState {
	switch {
	case g.OpenUntil != 0:
		return CircuitOpen
	case g.HalfOpenUntil != 0:
		return CircuitHalfOpen
	}
	return CircuitClosed
}

// EndpointStats counts the unfinished jobs of an endpoint.
type EndpointStats struct {
	Endpoint string
	Circuit  Circuit
	Waiting  int64 // due later, or due and not taken yet
	Ready    int64 // on the ready list
	Running  int64 // claimed
}

// EndpointQuery selects endpoints.
type EndpointQuery struct {
	Endpoint string         // empty: all
	States   []CircuitState // any of them; empty: all
	// Also are endpoints to list even if nothing of them is stored.
	Also   []string
	Limit  int    // 1..1000
	Cursor string // from the page before, or empty
}

// EndpointPage is a page of endpoints at Now. Next is empty on the last.
type EndpointPage struct {
	Now       job.Instant
	Endpoints []EndpointStats
	Next      string
}
