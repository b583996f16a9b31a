package job_test

import (
	"errors"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

func TestBringForward(t *testing.T) {
	const now, since = job.Instant(10_000_000), job.Instant(9_000_000) // an outage of 1,000 s
	retrying := func(change func(j *job.Job)) *job.Job {
		j := &job.Job{
			State: job.Retrying, Attempts: 3, NextAt: now + 60_000,
			LastAttempt: &job.Attempt{
				StartedAt: since + 1000, Duration: time.Second, Reason: job.ReasonLadder, NextAt: now + 60_000,
			},
		}
		if change != nil {
			change(j)
		}
		return j
	}
	const step, wait = 15 * time.Second, 10 * time.Second
	for _, tc := range []struct {
		name   string
		change func(j *job.Job)
		step   time.Duration
		wait   time.Duration
		want   job.Instant // zero: it keeps its schedule
	}{
		{"now", nil, step, wait, now},
		{"not before its least wait", nil, step, 1000 * time.Second, since + 2000 + 1_000_000},
		{"the least wait ends after the ladder's", nil, step, 2000 * time.Second, 0},
		{"the outage is as long as a step", nil, 1000 * time.Second, wait, 0},
		{"the outage is longer than a step", nil, 999 * time.Second, wait, now},
		{"it failed at the beginning of the outage", func(j *job.Job) { j.LastAttempt.StartedAt = since - 1000 }, step, wait, now},
		{"it failed before the outage", func(j *job.Job) { j.LastAttempt.StartedAt = since - 1001 }, step, wait, 0},
		{"it is due already", func(j *job.Job) { j.NextAt, j.LastAttempt.NextAt = now, now }, step, wait, 0},
		{"the receiver named the time", func(j *job.Job) { j.LastAttempt.Reason = job.ReasonRetryAfter }, step, wait, 0},
		{"the receiver snoozed", func(j *job.Job) { j.LastAttempt.Reason = job.ReasonSnoozed }, step, wait, 0},
		{"a client moved it", func(j *job.Job) { j.NextAt++ }, step, wait, 0},
		{"it has no attempt", func(j *job.Job) { j.LastAttempt = nil }, step, wait, 0},
		{"it waits for its first attempt", func(j *job.Job) { j.State = job.Waiting }, step, wait, 0},
		{"it is carried", func(j *job.Job) { j.State = job.Ready }, step, wait, 0},
		{"it is in flight", func(j *job.Job) { j.State = job.Running }, step, wait, 0},
		{"it is dead", func(j *job.Job) { j.State = job.Dead }, step, wait, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := retrying(tc.change)
			before := *j
			err := j.BringForward(since, now, tc.step, tc.wait)
			if tc.want == 0 {
				if !errors.Is(err, job.ErrKeepsSchedule) || j.NextAt != before.NextAt {
					t.Errorf("next at %d, error %v; want it unchanged", j.NextAt, err)
				}
				return
			}
			before.NextAt = tc.want
			if diff := gocmp.Diff(before, *j); err != nil || diff != "" {
				t.Errorf("error %v\n%s", err, diff)
			}
		})
	}
}
