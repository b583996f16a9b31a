package store

import (
	"context"
	"errors"
)

// Errors of Update, for a job that has ended and is to be sent again.
var (
	// ErrTopicFull: its topic holds as many unfinished jobs as it may.
	ErrTopicFull = errors.New("the topic holds as many unfinished jobs as it may")
	// ErrTopicDraining: its topic takes no jobs in.
	ErrTopicDraining = errors.New("the topic takes no jobs in")
)

// Limits are what the jobs of one topic may do, whatever their endpoints. The
// zero value allows everything.
//
// They hold for the whole store. One with several shards gives each its part:
// of Capacity and Concurrency an equal whole number, at least one.
type Limits struct {
	// Paused: none is carried, and what was carried cannot be claimed. Who tries
	// gives it back to its bucket.
	Paused bool
	// Draining: none is taken in.
	Draining bool
	// Capacity is the most unfinished jobs; 0: any number.
	Capacity int
	// Rate is how many are carried in a second at most, evenly spread; 0: any
	// number.
	Rate float64
	// Concurrency is the most carried and claimed jobs; 0: any number.
	Concurrency int
	// Weight is how much is carried of each lane of the topic, compared with
	// others, while not all that is due can be; 0 counts as DefaultWeight.
	Weight int
}

// DefaultWeight is the weight of lanes whose topic has none.
const DefaultWeight = 10

// Limiting keeps the limits of topics. What registering, updating, carrying and
// claiming decide by them, they decide at one instant in each shard.
type Limiting interface {
	// SetLimits replaces the limits of a topic, whether it holds jobs or not.
	// Those with the zero value are forgotten.
	SetLimits(ctx context.Context, topic string, l Limits) error
	// Limits gives the limits of all topics that have some. One whose limits are
	// not the same in all shards, because SetLimits failed half-way, has zero ones.
	Limits(ctx context.Context) (map[string]Limits, error)
}
