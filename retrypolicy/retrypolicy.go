// Package retrypolicy computes the delays between attempts. It is pure: the same
// counts and random numbers give the same delays.
package retrypolicy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Policy is a ladder of delays. Delays count from a failure to the next attempt.
type Policy struct {
	// Steps are the delays, the one after the first attempt first. When Limit is
	// larger than their number, the last repeats.
	Steps []time.Duration
	// Limit is the number of retries after the first attempt; zero means one attempt.
	Limit int
	// Jitter is the fraction of a delay, from 0 to 1, by which it varies at random,
	// so that jobs that failed together are not retried together. Zero keeps the
	// delays exact.
	Jitter float64
}

// DefaultJitter is the jitter of Default.
const DefaultJitter = 0.1

// Default is the policy of a server that sets none: nine retries in 25 hours.
func Default() Policy {
	return Policy{
		Steps: []time.Duration{
			15 * time.Second, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute, 30 * time.Minute,
			time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour,
		},
		Limit:  9,
		Jitter: DefaultJitter,
	}
}

// For is the policy of a job with its own retry settings r over the server's
// p. Steps without a limit are used once each; a limit without steps applies to
// the server's ladder. The jitter is always the server's.
func (p Policy) For(r *job.Retry) Policy {
	if r == nil {
		return p
	}
	if len(r.Steps) > 0 {
		p.Steps, p.Limit = r.Steps, len(r.Steps)
	}
	if r.Limit != nil {
		p.Limit = *r.Limit
	}
	return p
}

// Settle computes the settlement of the claimed job j with outcome o under the server's policy p.
func (p Policy) Settle(j *job.Job, o job.Outcome, rnd func() float64) job.Settlement {
	own := p.For(j.Spec.Retry)
	return job.Settle(j, o, func(n int) (time.Duration, bool) { return own.Next(n, rnd) })
}

// MaxAttempts is the total number of attempts of a job.
func (p Policy) MaxAttempts() int { return p.Limit + 1 }

// Next is the delay between the failure of the n-th counted attempt and the
// attempt after it, or false if n was the last. rnd returns numbers from 0 up
// to 1; it is not called without jitter. The delay is whole milliseconds, at
// least one unless the step is zero.
func (p Policy) Next(n int, rnd func() float64) (time.Duration, bool) {
	if n > p.Limit || len(p.Steps) == 0 {
		return 0, false
	}
	delay := p.step(n)
	if delay == 0 {
		return 0, true
	}
	if p.Jitter > 0 {
		delay += time.Duration(float64(delay) * p.Jitter * (2*rnd() - 1))
	}
	return max(delay.Truncate(time.Millisecond), time.Millisecond), true
}

// step is the delay after the n-th attempt without jitter.
func (p Policy) step(n int) time.Duration {
	return p.Steps[min(max(n, 1), len(p.Steps))-1]
}

// FirstStep is the delay after the first attempt. The ladder alone covers outages
// up to this length.
func (p Policy) FirstStep() time.Duration {
	if len(p.Steps) == 0 {
		return 0
	}
	return p.Steps[0]
}

// maxLeastWait bounds LeastWait.
const maxLeastWait = 10 * time.Minute

// LeastWait is the least time between the failure of the n-th attempt and the next
// one, also if the receiver has recovered: the wait before the n-th attempt, without
// jitter, at most 10 minutes. So an unstable receiver does not use up a job's
// attempts.
func (p Policy) LeastWait(n int) time.Duration {
	if n < 2 || len(p.Steps) == 0 {
		return 0
	}
	return min(p.step(n-1), maxLeastWait)
}

// Validate checks the policy as the API checks a job's own: 1 to
// job.MaxRetrySteps steps from 1 ms to job.MaxRetryStep, and a limit from 0 to
// job.MaxRetryLimit.
func (p Policy) Validate() error {
	switch {
	case len(p.Steps) < 1 || len(p.Steps) > job.MaxRetrySteps:
		return fmt.Errorf("a retry policy must have 1 to %d steps", job.MaxRetrySteps)
	case slices.ContainsFunc(p.Steps, func(d time.Duration) bool { return d < time.Millisecond || d > job.MaxRetryStep }):
		return fmt.Errorf("the steps of a retry policy must be from 1ms to %s", job.FormatDuration(job.MaxRetryStep))
	case p.Limit < 0 || p.Limit > job.MaxRetryLimit:
		return fmt.Errorf("the limit of a retry policy must be from 0 to %d", job.MaxRetryLimit)
	case math.IsNaN(p.Jitter) || p.Jitter < 0 || p.Jitter > 1:
		return errors.New("the jitter of a retry policy must be from 0 to 1")
	}
	return nil
}
