package scheduler

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler/explain"
)

// Explanation is why a job has not run yet, and what follows.
type Explanation struct {
	explain.Explanation
	Job job.Job
	Now job.Instant
}

// Explain explains a job. Errors are those of Get.
func (s *Scheduler) Explain(ctx context.Context, key job.Key) (Explanation, error) {
	o, err := s.o.Store.Outlook(ctx, key)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{explain.Job(&o, s.o.Policy, s.o.Carry), o.Job, o.Now}, nil
}

// Plan is what would follow from a registration.
type Plan struct {
	Now         job.Instant
	Due         job.Instant
	Expires     job.Instant // zero: never
	MaxAttempts int
	Forecast    retrypolicy.Forecast
}

// Plan says what would follow from registering a job now, without registering it.
func (s *Scheduler) Plan(ctx context.Context, p Prepared) (Plan, error) {
	now, err := s.now(ctx, p.reg.Key)
	if err != nil {
		return Plan{}, err
	}
	j := p.reg.Job(now)
	policy := s.o.Policy.For(j.Spec.Retry)
	return Plan{
		Now: now, Due: j.DueAt, Expires: j.ExpiresAt, MaxAttempts: policy.MaxAttempts(),
		Forecast: policy.Forecast(1, retrypolicy.At(j.DueAt), j.ExpiresAt),
	}, nil
}
