package store

import "github.com/duehook/duehook/job"

// Backlog is the jobs of one topic that are due and wait: to be carried, for a
// place under a limit, or for the end of their endpoint's hold.
type Backlog struct {
	Topic string
	Jobs  int64
	// Oldest is when the first of them was due.
	Oldest job.Instant
}

// Backlogs is the backlog of every topic that has one, by name, at Now.
type Backlogs struct {
	Topics []Backlog
	Now    job.Instant
	// Partial is set when not all lanes were counted: there are at least so many.
	Partial bool
}

// EndpointCircuit is an endpoint that is held, probed or ramping up.
type EndpointCircuit struct {
	Endpoint string
	Circuit  Circuit
}
