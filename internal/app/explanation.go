package app

import (
	"context"
	"errors"

	"github.com/duehook/duehook/internal/app/explain"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/hold"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Explanation gives the reasons why a job has not run yet, and its next attempts.
type Explanation struct {
	explain.Explanation
	Job job.Job
	Now job.Instant
}

// Explain explains a job. Errors are those of Get.
func (s *App) Explain(ctx context.Context, key job.Key) (Explanation, error) {
	o, err := listing.Outlook(ctx, s.o.Store, key)
	if err != nil {
		return Explanation{}, err
	}
	held, err := hold.Read(ctx, s.o.Store)
	if err != nil {
		return Explanation{}, err
	}
	access.SightOf(ctx).Job(&o.Job)
	return Explanation{explain.Job(&o, held, s.o.Policy, s.o.Carry), o.Job, o.Now}, nil
}

// Plan is what would follow from a registration.
type Plan struct {
	Now         job.Instant
	Due         job.Instant
	Expires     job.Instant // zero: never
	MaxAttempts int
	Forecast    retrypolicy.Forecast
	// SameSecond and SameMinute count the jobs that wait for the same endpoint and are due
	// in the second and the minute of Due.
	SameSecond, SameMinute int64
}

// Plan says what would follow from registering a job now, without registering it.
func (s *App) Plan(ctx context.Context, p Prepared) (Plan, error) {
	now, err := store.Now(ctx, s.o.Store)
	if err != nil {
		return Plan{}, err
	}
	j := p.reg.Job(now)
	policy := s.o.Policy.For(j.Spec.Retry)
	sameSecond, sameMinute, err := s.othersDue(ctx, &j)
	if err != nil {
		return Plan{}, err
	}
	return Plan{
		SameSecond: sameSecond, SameMinute: sameMinute,
		Now: now, Due: j.DueAt, Expires: j.ExpiresAt, MaxAttempts: policy.MaxAttempts(),
		Forecast: policy.Forecast(1, retrypolicy.At(j.DueAt), j.ExpiresAt),
	}, nil
}

// othersDue counts the jobs that wait for the endpoint of j and are due in the same second and
// minute, without the job that has the key of j.
func (s *App) othersDue(ctx context.Context, j *job.Job) (sameSecond, sameMinute int64, err error) {
	const second, minute = 1_000, 60_000
	from, at := j.DueAt-j.DueAt%minute, j.DueAt-j.DueAt%second
	others, err := listing.DueCounts(ctx, s.o.Store, store.DueOf{Endpoint: j.Lane().Endpoint, Within: true}, []job.Instant{from, at, at + second, from + minute})
	if err != nil {
		return 0, 0, err
	}
	n := others.Counts
	sameSecond, sameMinute = n[1], n[0]+n[1]+n[2]
	same, err := s.o.Store.Get(ctx, j.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return sameSecond, sameMinute, nil
	case err != nil:
		return 0, 0, err
	case same.State != same.Pending() || same.Lane().Endpoint != j.Lane().Endpoint:
		return sameSecond, sameMinute, nil
	}
	if wake := same.WakeAt(); wake >= from && wake < from+minute {
		sameMinute = max(0, sameMinute-1)
		if wake >= at && wake < at+second {
			sameSecond = max(0, sameSecond-1)
		}
	}
	return sameSecond, sameMinute, nil
}
