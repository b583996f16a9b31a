package dispatcher

import (
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// suspectPause is the time between suspects that wait for another one.
const suspectPause = time.Second

// suspects allows one suspect at a time on a node.
type suspects struct {
	clock job.Clock

	mu   sync.Mutex
	busy bool
	last time.Time // the latest retry time given to a suspect
}

// enter admits a suspect. While another one is in flight it returns false, and how long to
// wait.
func (s *suspects) enter() (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy {
		s.busy = true
		return true, 0
	}
	now := s.clock.Now()
	if s.last.Before(now) {
		s.last = now
	}
	s.last = s.last.Add(suspectPause)
	return false, s.last.Sub(now)
}

func (s *suspects) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

// sendAlone makes the attempt of a suspect if no other one is in flight. It stores the
// expired lease first: if the job crashes this process, nobody could do so later.
func (p *pipeline) sendAlone(ph phases, c *claim) job.Outcome {
	alone, wait := p.d.suspects.enter()
	if !alone {
		return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonQuarantined, After: wait}
	}
	defer p.d.suspects.leave()
	p.opts.Logger.Warn("a job is sent alone: its lease has expired several times in a row without an outcome",
		"topic", c.Job.Topic, "id", c.Job.ID, "expired_leases", c.Job.ExpiredLeases)
	_, err := p.opts.Store.Update(ph.work, c.Job.Key, func(j *job.Job, _ job.Instant) error {
		return j.ChargeExpiredLease(c.Job.Token)
	})
	if err != nil {
		p.opts.Logger.Warn("the expired lease of a job cannot be stored; the job is sent later", "topic", c.Job.Topic, "id", c.Job.ID, "error", err)
		return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonQuarantined, After: suspectPause}
	}
	return p.send(ph, c)
}
