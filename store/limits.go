package store

import (
	"context"
	"errors"

	"github.com/duehook/duehook/internal/job"
)

// Errors of Update for an ended job that is to be sent again.
var (
	// ErrTopicFull: the topic has reached its capacity.
	ErrTopicFull = errors.New("the topic has reached its capacity")
	// ErrTopicDraining: the topic is draining.
	ErrTopicDraining = errors.New("the topic is draining")
)

// Limits are the limits of one topic, across its endpoints. The zero value allows
// everything.
//
// They hold for the whole store. A store of several shards divides them: of Capacity and
// Concurrency, each shard gets an equal whole number, at least one.
type Limits struct {
	// Paused: no job is taken or carried. Carried jobs cannot be claimed; a failed claim returns
	// the job to its bucket.
	Paused bool
	// PausedUntil ends the pause by itself; 0: nothing does.
	PausedUntil job.Instant `json:",omitempty"`
	// Draining: no job is registered.
	Draining bool
	// Capacity is the most unfinished jobs; 0: no limit.
	Capacity int
	// Rate is the most jobs taken in a second, evenly spread; 0: no limit.
	Rate float64
	// Concurrency is the most jobs in flight; 0: no limit.
	Concurrency int
	// Weight is the share of the topic's lanes while more is due than can be taken; 0
	// counts as DefaultWeight.
	Weight int
	// StopOnDead: a dead letter stops its order key until it is replayed or discarded. It
	// concerns jobs that end while it is set.
	StopOnDead bool `json:",omitempty"`
}

// PausedAt reports whether the topic is paused at a time.
func (l *Limits) PausedAt(now job.Instant) bool {
	return l.Paused && (l.PausedUntil == 0 || now < l.PausedUntil)
}

// DefaultWeight is the weight of a topic without one.
const DefaultWeight = 10

// Limiting keeps the limits of topics. Each shard applies a change to registering,
// updating, carrying and taking at one instant.
type Limiting interface {
	// SetLimits replaces the limits of a topic, which need not hold jobs. It deletes them
	// if l is the zero value.
	SetLimits(ctx context.Context, topic string, l Limits) error
}
