package dispatcher

import (
	"sync"
	"time"

	"github.com/duehook/duehook/job"
)

// turnTime is how long after one another suspects come back that found another one
// being sent.
const turnTime = time.Second

// suspects has a node send one suspect at a time.
type suspects struct {
	clock job.Clock

	mu   sync.Mutex
	busy bool
	last time.Time // the latest turn that was given
}

// enter takes the place of the one that is sent. While it is taken it reports false,
// and how long to wait for a turn.
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
	s.last = s.last.Add(turnTime)
	return false, s.last.Sub(now)
}

func (s *suspects) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

// sendAlone makes the attempt of a suspect if no other one is being sent. Its lapse is
// written down first: a worker that it brings down cannot do so any more.
func (p *pipeline) sendAlone(ph phases, c *claim) job.Outcome {
	alone, wait := p.d.suspects.enter()
	if !alone {
		return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonQuarantined, After: wait}
	}
	defer p.d.suspects.leave()
	p.opts.Logger.Warn("a job is sent alone: its lease has expired several times in a row without an outcome",
		"topic", c.Job.Topic, "id", c.Job.ID, "lapses", c.Job.Lapses)
	_, err := p.opts.Store.Update(ph.work, c.Job.Key, func(j *job.Job, _ job.Instant) error {
		return j.ChargeLapse(c.Job.Token)
	})
	if err != nil {
		p.opts.Logger.Warn("a job that goes alone was not sent", "topic", c.Job.Topic, "id", c.Job.ID, "error", err)
		return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonQuarantined, After: turnTime}
	}
	return p.send(ph, c)
}
