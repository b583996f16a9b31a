package job_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func TestSettle(t *testing.T) {
	log := &job.Attempt{Number: 3, StartedAt: now - 5, Duration: time.Second, Status: 200}
	failed := &job.Attempt{Number: 3, StartedAt: now - 5, Duration: time.Second, Status: 500}
	// The job has had 2 counted attempts, 1 snooze and 4 expired leases.
	tests := []struct {
		name string
		o    job.Outcome
		last bool // the next counted attempt is the last
		want job.Settlement
	}{
		{"delivered", job.Outcome{Kind: job.OutcomeDelivered, Attempt: log}, false, job.Settlement{
			To: job.Delivered, IfCancelled: job.Delivered, Reason: job.ReasonDelivered, Attempts: 3, Snoozes: 1, Attempt: log,
		}},
		{"failed: the ladder", job.Outcome{Kind: job.OutcomeFailed, Attempt: failed}, false, job.Settlement{
			To: job.Retrying, Reason: job.ReasonLadder, Delay: 15 * time.Second, Attempts: 3, Snoozes: 1, Attempt: failed,
		}},
		{"failed: Retry-After", job.Outcome{Kind: job.OutcomeFailed, After: time.Hour, Attempt: failed}, false, job.Settlement{
			To: job.Retrying, Reason: job.ReasonRetryAfter, Delay: time.Hour, Attempts: 3, Snoozes: 1, Attempt: failed,
		}},
		{"failed for the last time", job.Outcome{Kind: job.OutcomeFailed, Attempt: failed}, true, job.Settlement{
			To: job.Dead, Reason: job.ReasonRetryLimit, Attempts: 3, Snoozes: 1, Attempt: failed,
		}},
		{"Retry-After gives no further attempt", job.Outcome{Kind: job.OutcomeFailed, After: time.Hour, Attempt: failed}, true, job.Settlement{
			To: job.Dead, Reason: job.ReasonRetryLimit, Attempts: 3, Snoozes: 1, Attempt: failed,
		}},
		{"refused by the receiver", job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonGone, Attempt: failed}, false, job.Settlement{
			To: job.Dead, Reason: job.ReasonGone, Attempts: 3, Snoozes: 1, Attempt: failed,
		}},
		{"refused before any request", job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonBlocked}, false, job.Settlement{
			To: job.Dead, Reason: job.ReasonBlocked, Attempts: 2, Snoozes: 1,
		}},
		{"snoozed", job.Outcome{Kind: job.OutcomeSnoozed, After: time.Minute, Attempt: log}, false, job.Settlement{
			To: job.Retrying, Reason: job.ReasonSnoozed, Delay: time.Minute, Attempts: 2, Snoozes: 2, Attempt: log,
		}},
		{"rescheduled", job.Outcome{Kind: job.OutcomeRescheduled, At: now + 7, Attempt: log}, false, job.Settlement{
			To: job.Retrying, Reason: job.ReasonRescheduled, At: now + 7, Attempts: 3, Snoozes: 1, Attempt: log,
		}},
		{"rescheduled with the last attempt", job.Outcome{Kind: job.OutcomeRescheduled, At: now + 7, Attempt: log}, true, job.Settlement{
			To: job.Dead, Reason: job.ReasonRetryLimit, Attempts: 3, Snoozes: 1, Attempt: withError(log, job.ErrorRescheduleLimit),
		}},
		{"a snooze without a time is a failure", job.Outcome{Kind: job.OutcomeSnoozed, Attempt: log}, false, job.Settlement{
			To: job.Retrying, Reason: job.ReasonLadder, Delay: 15 * time.Second, Attempts: 3, Snoozes: 1, Attempt: log,
		}},
		{"released at shutdown", job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonShutdown}, false, job.Settlement{
			To: job.Retrying, Reason: job.ReasonShutdown, At: now - 1000, Attempts: 2, Snoozes: 1, ExpiredLeases: 4,
		}},
		{"released, endpoint held", job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonCircuitOpen, After: time.Minute}, false, job.Settlement{
			To: job.Retrying, Reason: job.ReasonCircuitOpen, Delay: time.Minute, Attempts: 2, Snoozes: 1, ExpiredLeases: 4,
		}},
		{"expired", job.Outcome{Kind: job.OutcomeExpired}, false, job.Settlement{
			To: job.Expired, Reason: job.ReasonTTL, Attempts: 2, Snoozes: 1,
		}},
		{"expired with a consumer's lease", job.Outcome{Kind: job.OutcomeExpired, Attempt: failed}, false, job.Settlement{
			To: job.Expired, Reason: job.ReasonTTL, Attempts: 3, Snoozes: 1, Attempt: failed,
		}},
		{"cancelled", job.Outcome{Kind: job.OutcomeCancelled}, false, job.Settlement{
			To: job.Cancelled, Reason: job.ReasonCancelled, Attempts: 2, Snoozes: 1,
		}},
		{"lease expired", job.Outcome{Kind: job.OutcomeLeaseExpired}, false, job.Settlement{
			To: job.Dead, Reason: job.ReasonLeaseExpired, Attempts: 2, Snoozes: 1, ExpiredLeases: 4,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := jobIn(job.Running, 2)
			j.Snoozes, j.ExpiredLeases = 1, 4
			before := j
			tt.want.Key, tt.want.Lane, tt.want.Token, tt.want.Indexes = j.Key, j.Lane(), j.Token, j.Indexes()
			tt.want.CreatedAt, tt.want.Due, tt.want.Claimed = j.CreatedAt, j.NextAt, &j
			if tt.o.Kind != job.OutcomeDelivered {
				tt.want.IfCancelled = job.Cancelled
			}
			if tt.want.Attempt != nil {
				logged := *tt.want.Attempt
				logged.Reason = tt.want.Reason
				tt.want.Attempt = &logged
			}
			must.Same(t, "settlement", job.Settle(&j, tt.o, fixedRetry(!tt.last)), tt.want)
			must.Same(t, "Settle changed the job", j, before)
			if log.Reason+failed.Reason != "" {
				t.Errorf("Settle changed the caller's attempt")
			}
		})
	}
}

func withError(a *job.Attempt, class string) *job.Attempt {
	failed := *a
	failed.Error = class
	return &failed
}

// What a settlement stores: a cancel request wins over all but a delivery.
func TestChangeOfASettlement(t *testing.T) {
	const now = job.Instant(1_800_000_000_000)
	retry := job.Settlement{To: job.Retrying, Reason: job.ReasonLadder, Delay: time.Minute, IfCancelled: job.Cancelled}
	at := job.Settlement{To: job.Retrying, Reason: job.ReasonRescheduled, At: now + 7, IfCancelled: job.Cancelled}
	past := job.Settlement{To: job.Retrying, Reason: job.ReasonRescheduled, At: now - 7, IfCancelled: job.Cancelled}
	delivery := job.Settlement{To: job.Delivered, Reason: job.ReasonDelivered, IfCancelled: job.Delivered}
	dead := job.Settlement{To: job.Dead, Reason: job.ReasonGone, IfCancelled: job.Cancelled}
	noted := job.Settlement{To: job.Cancelled, Reason: job.ReasonCancelled, IfCancelled: job.Cancelled}
	for _, tt := range []struct {
		name        string
		s           job.Settlement
		cancel      bool
		created     job.Instant
		want        job.Change
		next, ended job.Instant
	}{
		{"a retry", retry, false, now - 5, job.Change{To: job.Retrying, Reason: job.ReasonLadder, Delay: time.Minute}, now.Add(time.Minute), 0},
		{"a retry of a cancelled job", retry, true, now - 5, job.Change{To: job.Cancelled, Reason: job.ReasonCancelled}, 0, now},
		{"a time", at, false, now - 5, job.Change{To: job.Retrying, Reason: job.ReasonRescheduled, At: now + 7}, now + 7, 0},
		{"a time of a cancelled job", at, true, now - 5, job.Change{To: job.Cancelled, Reason: job.ReasonCancelled}, 0, now},
		{"a time that has passed", past, false, now - 5, job.Change{To: job.Retrying, Reason: job.ReasonRescheduled, At: now - 7}, now - 7, 0},
		{"a delivery", delivery, false, now - 5, job.Change{To: job.Delivered, Reason: job.ReasonDelivered}, 0, now},
		{"a delivery of a cancelled job", delivery, true, now - 5, job.Change{To: job.Delivered, Reason: job.ReasonDelivered}, 0, now},
		{"a refusal", dead, false, now - 5, job.Change{To: job.Dead, Reason: job.ReasonGone}, 0, now},
		{"a refusal of a cancelled job", dead, true, now - 5, job.Change{To: job.Cancelled, Reason: job.ReasonCancelled}, 0, now},
		{"a cancel request before the attempt", noted, true, now - 5, job.Change{To: job.Cancelled, Reason: job.ReasonCancelled}, 0, now},
		{"a job registered later than now", delivery, false, now + 1, job.Change{To: job.Delivered, Reason: job.ReasonDelivered}, 0, now + 1},
		{"its retry", retry, false, now + 1, job.Change{To: job.Retrying, Reason: job.ReasonLadder, Delay: time.Minute}, now.Add(time.Minute), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.s.Change(tt.cancel)
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if next, ended := got.Times(now, tt.created); next != tt.next || ended != tt.ended {
				t.Errorf("next %d and ended %d, want %d and %d", next, ended, tt.next, tt.ended)
			}
		})
	}
}

func TestSnoozesAreCounted(t *testing.T) {
	answered := job.Attempt{Number: 1, Status: 202}
	logged := func(reason, class string) *job.Attempt {
		a := answered
		a.Reason, a.Error = reason, class
		return &a
	}
	type row struct {
		snoozes int
		more    bool
		want    job.Settlement
	}
	for _, tt := range []row{
		{job.MaxSnoozes - 1, true, job.Settlement{
			To: job.Waiting, Reason: job.ReasonSnoozed, Snoozes: job.MaxSnoozes, Delay: time.Minute, Attempt: logged(job.ReasonSnoozed, ""),
		}},
		// From here on by the ladder, and not when the receiver says.
		{job.MaxSnoozes, true, job.Settlement{
			To: job.Retrying, Reason: job.ReasonLadder, Snoozes: job.MaxSnoozes, Delay: 15 * time.Second, Attempts: 1,
			Attempt: logged(job.ReasonLadder, job.ErrorSnoozeLimit),
		}},
		{job.MaxSnoozes, false, job.Settlement{
			To: job.Dead, Reason: job.ReasonRetryLimit, Snoozes: job.MaxSnoozes, Attempts: 1,
			Attempt: logged(job.ReasonRetryLimit, job.ErrorSnoozeLimit),
		}},
	} {
		j := jobIn(job.Running, 0)
		j.Snoozes = tt.snoozes
		attempt := answered
		o := job.Outcome{Kind: job.OutcomeSnoozed, After: time.Minute, Attempt: &attempt}
		got := job.Settle(&j, o, fixedRetry(tt.more))
		must.Same(t, "charged twice", job.Settle(&j, o.Charged(&j), fixedRetry(tt.more)), got)
		got = job.Settlement{
			To: got.To, Reason: got.Reason, Snoozes: got.Snoozes, Delay: got.Delay, Attempts: got.Attempts, Attempt: got.Attempt,
		}
		must.Same(t, fmt.Sprintf("after %d snoozes", tt.snoozes), got, tt.want)
		must.Same(t, "Settle changed the caller's attempt", attempt, answered)
	}
}

// life plays a job through random events, applying settlements as stores do.
type life struct {
	j       job.Job
	now     job.Instant
	limit   int       // retries
	counted int       // attempts that must count
	from    job.State // of the last claim
}

func (l *life) move(t *rapid.T, on job.Event, change func() error) error {
	from := l.j.State
	err := change()
	switch {
	case err == nil && !allowed(from, on, l.j.State):
		t.Fatalf("%v --%v--> %v is not in the lifecycle", from, on, l.j.State)
	case err != nil && l.j.State != from:
		t.Fatalf("%v was refused but %v became %v", on, from, l.j.State)
	}
	return err
}

func (l *life) client(t *rapid.T) {
	when := job.When{Delay: time.Duration(rapid.IntRange(0, 5000).Draw(t, "delay")) * time.Millisecond}
	switch rapid.SampledFrom([]string{"cancel", "reschedule", "respecify", "replay", "discard", "finish"}).Draw(t, "command") {
	case "cancel":
		_ = l.move(t, job.Cancel, func() error { _, err := l.j.Cancel(l.now); return err })
	case "reschedule":
		_ = l.move(t, job.Reschedule, func() error { return l.j.Reschedule(when, l.now) })
	case "respecify":
		s := l.j.Spec
		s.TTL = time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ttl")) * time.Millisecond
		_ = l.move(t, job.Reschedule, func() error { return l.j.Respecify(s) })
	case "discard":
		_ = l.move(t, job.Discard, func() error { return l.j.Discard(l.now) })
	case "finish":
		_ = l.move(t, job.Finish, func() error { return l.j.Finish(l.now) })
	case "replay":
		if l.move(t, job.Replay, func() error { return l.j.Replay(l.now) }) == nil {
			l.counted = 0
		}
	}
}

// carry and claim are what stores do of their own.
func (l *life) carry(t *rapid.T) {
	if l.j.State.Final() {
		t.Skip("ended")
	}
	_ = l.move(t, job.Carry, func() error { l.j.State = job.Ready; return nil })
}

func (l *life) claim(t *rapid.T) {
	if l.j.State.Final() {
		t.Skip("ended")
	}
	l.from = l.j.State
	_ = l.move(t, job.Claim, func() error {
		if l.j.State == job.Running {
			l.j.ExpiredLeases = job.ExpiredLeasesAfter(l.j.ExpiredLeases)
		}
		l.j.State = job.Running
		l.j.Token++
		return nil
	})
}

func (l *life) settle(t *rapid.T) {
	if l.j.State != job.Running {
		t.Skip("not running")
	}
	o := rapid.SampledFrom(outcomes).Draw(t, "outcome")
	if decided := l.j.Before(l.from, 0, l.now); decided != nil {
		o = *decided
	}
	s := job.Settle(&l.j, o, func(n int) (time.Duration, bool) { return time.Second, n <= l.limit })
	to, on := s.To, eventOf(o.Kind, s)
	if l.j.CancelRequested {
		to, on = s.IfCancelled, cancelledEvent(o.Kind, s.IfCancelled)
	}
	_ = l.move(t, on, func() error {
		l.j.State, l.j.Reason = to, s.Reason
		l.j.Attempts, l.j.Snoozes, l.j.ExpiredLeases = s.Attempts, s.Snoozes, s.ExpiredLeases
		l.j.NextAt, l.j.EndedAt = l.now.Add(s.Delay), 0
		if to.Final() {
			l.j.NextAt, l.j.EndedAt = 0, l.now
		}
		return nil
	})
	if o.Kind == job.OutcomeDelivered || s.Reason == job.ReasonLadder || s.Reason == job.ReasonRetryAfter ||
		s.Reason == job.ReasonRetryLimit || o.Kind == job.OutcomeRefused && o.Attempt != nil {
		l.counted++
	}
}

func (l *life) check(t *rapid.T) {
	j := &l.j
	switch {
	case j.State.Final() != (j.EndedAt != 0), j.State.Final() != (j.NextAt == 0):
		t.Fatalf("%v, ended at %d, next at %d", j.State, j.EndedAt, j.NextAt)
	case j.State == job.Waiting && j.Attempts > 0, j.State == job.Retrying && j.Attempts == 0:
		t.Fatalf("%v with %d attempts", j.State, j.Attempts)
	case j.Attempts != l.counted, j.Attempts > l.limit+1:
		t.Fatalf("%d attempts, %d counted, limit %d", j.Attempts, l.counted, l.limit)
	case j.Snoozes > job.MaxSnoozes:
		t.Fatalf("%d snoozes", j.Snoozes)
	case j.ExpiresAt != 0 && j.WakeAt() > j.ExpiresAt:
		t.Fatalf("wakes at %d, after its TTL ends at %d", j.WakeAt(), j.ExpiresAt)
	}
}

func TestLivesKeepToTheLifecycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := life{j: jobIn(job.Waiting, 0), now: now, limit: rapid.IntRange(0, 3).Draw(t, "limit")}
		t.Repeat(map[string]func(*rapid.T){
			"client": l.client,
			"carry":  l.carry,
			"claim":  l.claim,
			"settle": l.settle,
			"wait": func(t *rapid.T) {
				l.now = l.now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "wait")) * time.Millisecond)
			},
			"": l.check,
		})
	})
}
