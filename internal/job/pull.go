package job

import (
	"cmp"
	"time"
)

// PullQueue is the destination of a job that consumers fetch. The pull queue of a topic is its
// lanes with this endpoint.
const PullQueue Destination = "pull:"

// Bounds of what consumers ask for.
const (
	MinPullLease = time.Second
	MaxPullLease = 12 * time.Hour
	MaxPull      = 100         // jobs of one call
	MaxPullWait  = time.Minute // for the first of them
)

// ErrorNacked is the class of an attempt that a consumer gave up.
const ErrorNacked = "nacked"

// Pulled reports whether consumers fetch the job.
func (d Destination) Pulled() bool { return d == PullQueue }

// Pulled reports whether the lane is a part of a pull queue.
func (l Lane) Pulled() bool { return Destination(l.Endpoint).Pulled() }

// PullLanes are all lanes that the pull queue of a topic may have.
func PullLanes(topic string) []Lane {
	all := make([]Lane, len(letters))
	for i := range letters {
		all[i], _ = laneOfLetter(letters[i : i+1])
		all[i].Topic, all[i].Endpoint = topic, string(PullQueue)
	}
	return all
}

// pushFields refuses fields of a job that consumers fetch.
func (f *Findings) pushFields(d *Draft) {
	for _, name := range d.given(func(one *field) bool { return one.push }) {
		f.Add(name, "is not possible with pull: consumers fetch the job")
	}
}

// Extend is the settlement that gives the claim of a job a new end: d from now, by the store's
// clock. The attempt goes on.
func (j *Job) Extend(d time.Duration) Settlement {
	return Settlement{
		Key: j.Key, Lane: j.Lane(), Token: j.Token, CreatedAt: j.CreatedAt, To: Running, IfCancelled: Running, Delay: d,
		Attempts: j.Attempts, Snoozes: j.Snoozes, ExpiredLeases: j.ExpiredLeases, OrderKey: j.Spec.OrderKey,
	}
}

// Extends reports whether the settlement extends a lease instead of ending it.
func (s *Settlement) Extends() bool { return s.To == Running }

// leaseEnded is the outcome of a fetched job whose consumer did not answer in time. Its attempt
// began when the job was leased.
func (j *Job) leaseEnded(leased, now Instant) *Outcome {
	leased = min(cmp.Or(leased, now), now)
	return &Outcome{Kind: OutcomeFailed, Attempt: &Attempt{
		Number: j.Attempts + 1, StartedAt: leased, Duration: now.Sub(leased), Error: ReasonLeaseExpired, Version: j.Version,
	}}
}
