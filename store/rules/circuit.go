package rules

import (
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// RampTime is how long the ramp of a closed circuit lasts. Its limit doubles every
	// rampStep.
	RampTime = 10 * time.Second
	rampStep = time.Second
	// minHalfOpen is the least time for which a circuit stays half-open.
	minHalfOpen = time.Minute
)

// HalfOpenTime is how long a circuit that was open for d stays half-open.
func HalfOpenTime(d time.Duration) time.Duration { return max(d, minHalfOpen) }

// OpenedCircuit is, as seen at now, a circuit that is open and then half-open.
func OpenedCircuit(openUntil, halfOpenUntil, now job.Instant) store.Circuit {
	var c store.Circuit
	if openUntil > now {
		c.OpenUntil = openUntil
	}
	if halfOpenUntil > now {
		c.HalfOpenUntil = halfOpenUntil
	}
	return c
}

// RampingCircuit is, as seen at now, a circuit that was closed at from.
func RampingCircuit(from, now job.Instant) store.Circuit {
	if from == 0 || now >= from.Add(RampTime) {
		return store.Circuit{}
	}
	return store.Circuit{RampFrom: from}
}

// CircuitLimit is the most jobs in flight that a circuit allows its endpoint in one of a
// number of equal shards; 0 if it does not limit them.
func CircuitLimit(c store.Circuit, o *store.CarryOptions, shards int, now job.Instant) int {
	limit := equalShare(o.HalfOpenLimit, shards)
	switch {
	case c.HalfOpenUntil != 0:
		return limit
	case c.RampFrom != 0:
		steps := max(0, now.Sub(c.RampFrom)/rampStep) // the clock may have gone back
		return limit << min(steps, RampTime/rampStep)
	}
	return 0
}
