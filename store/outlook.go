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
	// Beside is Turns with the jobs of its topic for other endpoints that are due
	// now, of its priority and not held, if the topic has a rate and it is due itself.
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

// Turns is how many jobs of other lanes go before one that has ahead jobs of its
// own lane before it, as lanes take turns: due is how many each of the others
// has. Half of those that have more are taken to have had a turn more.
func Turns(ahead int64, due []int64) int64 {
	var before, longer int64
	for _, n := range due {
		before += min(n, ahead)
		if n > ahead {
			longer++
		}
	}
	return before + longer/2
}

// HeldCircuit is the circuit of an endpoint that is held and then probed, as seen at now.
func HeldCircuit(openUntil, halfOpenUntil, now job.Instant) Circuit {
	var g Circuit
	if openUntil > now {
		g.OpenUntil = openUntil
	}
	if halfOpenUntil > now {
		g.HalfOpenUntil = halfOpenUntil
	}
	return g
}

// RampCircuit is the circuit of an endpoint that ramps up, as seen at now.
func RampCircuit(from, now job.Instant) Circuit {
	if from == 0 || now >= from.Add(RampTime) {
		return Circuit{}
	}
	return Circuit{RampFrom: from}
}
