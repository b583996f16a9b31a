package store

import "github.com/duehook/duehook/job"

// Outlook is what a store knows of when a job's next attempt will be, at one
// instant. In a store of several shards all figures are those of the job's own.
type Outlook struct {
	Now job.Instant
	Job job.Job
	// At is when the job next needs attention: at Job.WakeAt while it waits, at
	// its visibility deadline while it is ready, at the end of its lease while
	// it is running. Zero when it has ended, as is all that follows but Shards.
	At job.Instant
	// Worker is ClaimOptions.By of a running job's claim.
	Worker string
	// Look is when carriers next look at the job's lane; in the past when they
	// are behind.
	Look job.Instant
	// Ahead is how many jobs of its lane wait and go before it, if it waits
	// itself: those that are due before, and of one time those of lower ids.
	Ahead int64
	// Higher is how many jobs of its topic that have a higher priority are due now
	// and wait, if it waits itself.
	Higher int64
	// Beside estimates how many jobs of other lanes take their turn before it, if its topic
	// has a rate and it is due: jobs of its topic and priority, due now, for other endpoints
	// whose circuits are not open.
	Beside int64
	// EndpointOut and LaneOut are how many jobs of its endpoint, and of its topic
	// at that, are carried or claimed. CarryOptions limits them.
	EndpointOut, LaneOut int64
	// Limits are those of the job's topic, TopicOut how many of its jobs are
	// carried or claimed, and NextToken when its rate lets the next one go; zero
	// when it may go now, or there is none.
	Limits    Limits
	TopicOut  int64
	NextToken job.Instant
	// ReadyList is the number of hints on the ready list.
	ReadyList int64
	Circuit   Circuit
	// Shards is into how many equal parts, rounded up, CarryOptions is divided.
	Shards int
}

// Circuit is what Hold and CloseCircuit have made of an endpoint. Its times are zero
// when they have passed.
type Circuit struct {
	// OpenUntil is when its hold ends.
	OpenUntil job.Instant
	// HalfOpenUntil is how long few of its jobs are carried after that.
	HalfOpenUntil job.Instant
	// RampFrom is when more and more of them began to be carried.
	RampFrom job.Instant
}
