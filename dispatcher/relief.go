package dispatcher

import (
	"context"
	"time"

	"github.com/duehook/duehook/job"
)

// untakenTime is how long a job that was claimed ahead waits for a worker, and up to
// as long again, before it is given back.
const untakenTime = 50 * time.Millisecond

// reasonUntaken: workers were busy for longer than was foreseen.
const reasonUntaken = "workers_busy"

// callRelief has jobs watched that wait for a worker, if there are any.
func (p *pipeline) callRelief() {
	if !p.slots.waiting() {
		return
	}
	select {
	case p.ahead <- struct{}{}:
	default:
	}
}

// relieve gives back jobs that were claimed ahead and that no worker takes in time,
// until take ends: their leases run, and another node may have workers for them.
func (p *pipeline) relieve(take context.Context) {
	for {
		select {
		case <-take.Done():
			return
		case <-p.ahead:
		}
		for p.slots.waiting() && job.Sleep(take, p.opts.Clock, untakenTime) == nil {
			p.giveBack(untakenTime, reasonUntaken)
		}
	}
}

// giveBack gives back the jobs that have waited for a worker for so long.
func (p *pipeline) giveBack(waited time.Duration, reason string) {
	now := p.opts.Clock.Now()
	for range len(p.jobs) {
		select {
		case c := <-p.jobs:
			if now.Sub(c.got) < waited {
				p.jobs <- c // there is room: its slot is its place
				continue
			}
			p.conclude(c, job.Outcome{Kind: job.OutcomeReleased, Reason: reason})
			p.slots.untaken()
		default:
			return
		}
	}
}
