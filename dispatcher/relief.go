package dispatcher

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// untakenTime is how long a job claimed ahead waits for a worker, at least, before the
// node releases it; at most twice as long.
const untakenTime = 50 * time.Millisecond

// reasonUntaken: workers were busy for longer than expected.
const reasonUntaken = "workers_busy"

// relieve releases jobs claimed ahead that no worker takes in time, until take ends: their
// leases run, and another node may have free workers.
func (p *pipeline) relieve(take context.Context) {
	for {
		select {
		case <-take.Done():
			return
		case <-p.ahead:
		}
		for p.shares.waiting() && job.Sleep(take, p.opts.Clock, untakenTime) == nil {
			p.giveBack(untakenTime, reasonUntaken)
		}
	}
}

// giveBack releases the jobs that have waited for a worker for a time.
func (p *pipeline) giveBack(waited time.Duration, reason string) {
	for _, c := range p.shares.untaken(p.opts.Clock.Now().Add(-waited)) {
		p.conclude(c, job.Outcome{Kind: job.OutcomeReleased, Reason: reason})
		p.slots.untaken()
	}
}
