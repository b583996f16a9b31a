package rules

import (
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// RampTime is how long the ramp of a closed circuit lasts. Its limit doubles every
	// rampStep.
	RampTime = 10 * time.Second
	rampStep = time.Second
	// minHalfOpen is the shortest time that a circuit stays half-open.
	minHalfOpen = time.Minute
)

// halfOpenTime is how long a circuit that was open for d stays half-open.
func halfOpenTime(d time.Duration) time.Duration { return max(d, minHalfOpen) }

// CircuitAt is a circuit at now: times that have passed are zero.
func CircuitAt(c store.Circuit, now job.Instant) store.Circuit {
	if c.RampFrom != 0 && now >= c.RampFrom.Add(RampTime) {
		c.RampFrom = 0
	}
	if c.OpenUntil <= now {
		c.OpenUntil = 0
	}
	if c.HalfOpenUntil <= now {
		c.HalfOpenUntil = 0
	}
	return c
}

// ChangedCircuit is a circuit after store.Dispatching.SetCircuit.
func ChangedCircuit(c store.Circuit, to store.CircuitState, d time.Duration, now job.Instant) store.Circuit {
	switch to {
	case store.CircuitOpen:
		return OpenedCircuit(c, d, now)
	case store.CircuitHalfOpen:
		return OpenedCircuit(c, 0, now)
	default:
		return ClosedCircuit(c, now)
	}
}

// OpenedCircuit is a circuit that is opened for d. With no duration, an open circuit becomes
// half-open, and others stay as they are.
func OpenedCircuit(c store.Circuit, d time.Duration, now job.Instant) store.Circuit {
	switch {
	case d > 0:
		until := now.Add(d)
		return store.Circuit{OpenUntil: until, HalfOpenUntil: until.Add(halfOpenTime(d))}
	case c.OpenUntil > now:
		return store.Circuit{HalfOpenUntil: now.Add(halfOpenTime(0))}
	}
	return c
}

// ClosedCircuit is a circuit that is closed: the ramp of an open or half-open one begins.
func ClosedCircuit(c store.Circuit, now job.Instant) store.Circuit {
	if c.HalfOpenUntil <= now {
		return c
	}
	return store.Circuit{RampFrom: now}
}

// CorrectedCircuit is a circuit after the clock went back to now: a circuit opened by a
// clock ahead is half-open, and its ramps begin now.
func CorrectedCircuit(c store.Circuit, now job.Instant) store.Circuit {
	if c.OpenUntil > now {
		return OpenedCircuit(c, 0, now)
	}
	c.RampFrom = min(c.RampFrom, now)
	return c
}

// CircuitLimit is the most jobs in flight that a circuit allows its endpoint in one of a
// number of equal shards; 0 if it does not limit them.
func CircuitLimit(c store.Circuit, o *store.FlightLimits, shards int, now job.Instant) int {
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
