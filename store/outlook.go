package store

import "github.com/duehook/duehook/internal/job"

// Outlook has the facts of a store about a job's next attempt, at one instant. In a store
// of several shards, all figures are of the job's own shard.
type Outlook struct {
	Now job.Instant
	Job job.Job
	// At is when the job next needs attention: Job.WakeAt while it waits, its visibility
	// deadline while it is ready, the end of its lease while it is running. At and the
	// following fields except Shard and Shards are zero if the job has ended.
	At job.Instant
	// Worker is ClaimOptions.By of a running job's claim.
	Worker string
	// Look is when carriers next visit the job's lane. It is in the past if they are
	// behind.
	Look job.Instant
	// Ahead is, if the job waits, the number of waiting jobs of its lane that go before
	// it: those due before, and those due at the same time with lower ids.
	Ahead int64
	// Head is the job that the job waits for because both have the same order key: the head
	// of the key, or the dead letter that stops it. Nil: the job has its turn.
	Head *job.Job
	// Before is, with a Head, the number of jobs of the order key that go before the job, the
	// head included. Stores may stop counting at a bound.
	Before int64
	// Ranked reports that jobs of the topic have different priorities.
	Ranked bool
	// Higher is, if the job waits, the number of due jobs of its topic with a higher
	// priority.
	Higher int64
	// Beside estimates, if the job is due and its topic has a rate, how many jobs of other
	// lanes take their turn before it: due jobs of its topic and priority for other
	// endpoints whose circuits are not open.
	Beside int64
	// EndpointInFlight and LaneInFlight are the jobs in flight of the job's endpoint, and of its
	// topic at that endpoint. FlightLimits limits them.
	EndpointInFlight, LaneInFlight int64
	// Limits are the limits of the job's topic. TopicInFlight is the number of its jobs in
	// flight. NextByRate is when its rate allows the next job; zero if that is now.
	Limits        Limits
	TopicInFlight int64
	NextByRate    job.Instant
	// ReadyList is the number of hints on the ready list. Ready are the ready jobs, without those
	// of pull queues, and TopicReady those of the topic. rules.MoreHints limits them.
	ReadyList         int64
	Ready, TopicReady int64
	Circuit           Circuit
	// Shard is the number of the job's shard, from 0, among the Shards of the store, at
	// least one. Package rules divides limits among them.
	Shard, Shards int
}

// Circuit is the circuit of an endpoint. Times that have passed are zero.
type Circuit struct {
	// OpenUntil is when the circuit half-opens.
	OpenUntil job.Instant
	// HalfOpenUntil is when the half-open circuit closes.
	HalfOpenUntil job.Instant
	// RampFrom is when the ramp began.
	RampFrom job.Instant
}
