package store

import (
	"context"
	"time"
)

// Taking is the part of a store that hands out due jobs.
type Taking interface {
	// Shards returns the number of independent parts. Jobs are taken from each on its own.
	Shards() int
	// Take claims due jobs of a shard, up to o.Max and about BatchBytes. Topics and endpoints take
	// turns. Of a topic's due jobs, those with a higher priority go first, then those that were due first. Within an
	// endpoint this always holds; across endpoints, as far as the call examines them together.
	//
	// Take waits up to o.Wait for the first job, and returns none after that; sooner while o.Workers
	// keeps back due jobs, so that the caller asks again with what it has then. When ctx ends, Take stops
	// waiting and begins no claim. It completes a claim that has begun, or finds out what became of it, within a
	// bounded time, and returns the jobs. A caller that stops makes a last call whose ctx has ended: the
	// store hands what it keeps for later calls to other nodes. After an error, jobs that the call has
	// claimed are claimed by a later call, or due again when their leases end. Any number of callers is
	// safe. The store may keep the claims, so the caller does not change them.
	//
	// A claim from Running means that the lease expired. It adds one to ExpiredLeases unless the
	// job is a suspect.
	Take(ctx context.Context, shard int, o TakeOptions) (Taken, error)
}

// TakeOptions are the terms of a call of Take. Max, Lease and Limits.HalfOpenLimit are required.
type TakeOptions struct {
	Max  int           // most jobs
	Wait time.Duration // for the first job
	// Lease is the lease of a job without a timeout of its own. The lease of another job
	// is its timeout plus LeaseMargin.
	Lease       time.Duration
	LeaseMargin time.Duration
	// By names the worker in Outlook.
	By     string
	Limits FlightLimits
	// Workers, unless nil, divides the caller's workers among topics, by rules.More and the
	// topics' weights.
	Workers *Workers
	// Pull, unless nil, takes jobs that wait in the pull queues of these topics, instead of others.
	// Without Pull, of a pull queue only jobs whose lease has expired are taken.
	Pull []string
}

// LeaseOf is the lease of a job with a timeout. Zero: it has none of its own.
func (o *TakeOptions) LeaseOf(timeout time.Duration) time.Duration {
	if timeout > 0 {
		return timeout + o.LeaseMargin
	}
	return o.Lease
}

// FlightLimits limit jobs in flight. HalfOpenLimit is required. The limits hold for the whole
// store. A store of several shards divides them equally, at least one for each shard.
type FlightLimits struct {
	// Longest is the duration of the longest lease or visibility deadline. If the store's
	// clock went back, a deadline further ahead is cut to it. Zero: no limit.
	Longest time.Duration
	// EndpointLimit is the most jobs in flight of an endpoint; 0: no limit.
	EndpointLimit int
	// TopicLimits are the most jobs in flight of a topic at one endpoint, for topics with
	// a limit of their own. A limit above EndpointLimit replaces it for the topic's jobs.
	TopicLimits map[string]int
	// HalfOpenLimit is the EndpointLimit of an endpoint whose circuit is half-open.
	HalfOpenLimit int
}

// Workers are the workers of a caller in one shard.
type Workers struct {
	Free int            // workers without a job
	Has  map[string]int // by topic, jobs that workers have or that wait for one
	// Weight returns the weight of a topic, for a store that reads no limits when it hands out jobs. Nil:
	// all have the same.
	Weight func(topic string) int
}

// Taken is the result of a call of Take.
type Taken struct {
	Claims []Claimed
	// Wait is the time until more may be taken, by the store's clock: zero if more may be due
	// now, negative if no job waits or a carrier moves those that do. A lane at a limit is due when a place may be free, a lane of
	// a topic with a rate at its next turn.
	Wait time.Duration
	// Age is how long before the return, at most, the leases of the claims began.
	Age time.Duration
}
