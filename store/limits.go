package store

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/duehook/duehook/job"
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

// What stores agree on about limits.
const (
	// UncalledLook is after how long a lane is looked at that is left alone until
	// somebody calls it: its topic is paused, or has no place for more.
	UncalledLook = 5 * time.Minute
	// LaneLook is the same of a lane with as many jobs out as CarryOptions.TopicLimits
	// allow: not all carriers need be told the same.
	LaneLook = 100 * time.Millisecond
	// PaceSlack is how late a job may be carried for its topic's rate and still
	// not delay the one after it.
	PaceSlack = 80 * time.Millisecond
	// PaceGap is the least time between two looks for a rate: faster ones are
	// carried by several jobs at a time.
	PaceGap = 5 * time.Millisecond
)

// Pace spreads jobs evenly over time. It is what a rate is kept by (GCRA).
type Pace struct {
	Interval float64 // milliseconds from one job to the next
	// Next is when the next job may go, in milliseconds: as exact as a float is.
	Next float64
}

// PaceOf is the pace of a rate per second, next going on from what it was.
func PaceOf(rate, next float64) Pace { return Pace{Interval: 1000 / rate, Next: next} }

// Allowed is how many jobs may go at now. After a rest that is one, as it is when
// the next turn is further ahead than a pace gives: a clock has gone back since.
func (p *Pace) Allowed(now job.Instant) int {
	t, slack := float64(now), float64(PaceSlack.Milliseconds())
	if p.Next < t-slack || p.Next > t+p.Interval+slack {
		p.Next = t
	}
	if p.Next > t {
		return 0
	}
	return int((t-p.Next)/p.Interval) + 1
}

// Turn is when the next job may go; zero when it may at now.
func (p Pace) Turn(now job.Instant) job.Instant {
	if p.Allowed(now) > 0 {
		return 0
	}
	return job.Instant(math.Ceil(p.Next))
}

// Take lets n jobs go.
func (p *Pace) Take(n int) { p.Next += float64(n) * p.Interval }

// Look is when to look again at the n-th (from 0) lane that waits at now for its
// turn: one lane each time that a job may go.
func (p *Pace) Look(n int, now job.Instant) job.Instant {
	at := job.Instant(p.Next + float64(n)*p.Interval)
	if float64(at) < p.Next+float64(n)*p.Interval {
		at++
	}
	if gap := float64(PaceGap.Milliseconds()); p.Interval < gap {
		return max(at, now.Add(PaceGap))
	}
	return max(at, now+1)
}
