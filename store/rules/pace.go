package rules

import (
	"math"
	"time"

	"github.com/duehook/duehook/internal/job"
)

const (
	// PaceSlack is how late a job may go by its topic's rate without delaying the next.
	PaceSlack = 80 * time.Millisecond
	// PaceGap is the least time between two looks for a rate. Faster rates carry
	// several jobs per look.
	PaceGap = 5 * time.Millisecond
)

// Pace spreads jobs evenly over time (GCRA).
type Pace struct {
	Interval float64 // milliseconds from one job to the next
	Next     float64 // when the next job may go, in milliseconds
}

// PaceOf is the pace of a rate per second in one of a number of equal shards. Next
// continues an earlier pace; zero begins a new one.
func PaceOf(rate float64, shards int, next float64) Pace {
	return Pace{Interval: 1000 * float64(shards) / rate, Next: next}
}

// Allowed is how many jobs may go at now. It first corrects Next. After a rest one job
// may go. A Next further ahead than the pace can put it means that the clock went back.
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

// NextAt is when the next job may go; zero if it may go now.
func (p Pace) NextAt(now job.Instant) job.Instant {
	if p.Allowed(now) > 0 {
		return 0
	}
	return job.Instant(math.Ceil(p.Next))
}

// After is the pace after n jobs went.
func (p Pace) After(n int) Pace {
	p.Next += float64(n) * p.Interval
	return p
}

// Look is when to look again at the n-th (from 0) lane that waits for the rate: one
// lane each time a job may go.
func (p Pace) Look(n int, now job.Instant) job.Instant {
	at := job.Instant(math.Ceil(p.Next + float64(n)*p.Interval))
	if p.Interval < float64(PaceGap.Milliseconds()) {
		return max(at, now.Add(PaceGap))
	}
	return max(at, now+1)
}
