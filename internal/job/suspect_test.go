package job_test

import (
	"errors"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// claimed is a job as a store gives it to a worker, from a state.
func claimed(j *job.Job, from job.State) {
	if from == job.Running {
		j.ExpiredLeases = job.ExpiredLeasesAfter(j.ExpiredLeases)
	}
	j.State, j.Token = job.Running, j.Token+1
}

func release(j *job.Job, o job.Outcome) {
	s := job.Settle(j, o, nil)
	j.State, j.ExpiredLeases = s.To, s.ExpiredLeases
}

func TestAJobThatBringsItsWorkersDownIsGivenUpAloneAndLate(t *testing.T) {
	j := jobIn(job.Ready, 0)
	from, took, alone := job.Ready, time.Duration(0), 0
	for sent := 0; ; {
		claimed(&j, from)
		o := j.Before(from, 0, now)
		switch {
		case o == nil: // it is sent, and the worker dies
			sent++
			from = job.Running
			if j.Suspect() {
				alone++
				if err := j.ChargeExpiredLease(j.Token); err != nil {
					t.Fatal(err)
				}
			}
			continue
		case o.Kind == job.OutcomeReleased:
			took += o.After
			release(&j, *o)
			from = job.Ready
			continue
		}
		if o.Kind != job.OutcomeLeaseExpired || sent != job.MaxExpiredLeases || alone != job.MaxExpiredLeases-job.SuspectAfter || took < 6*time.Hour {
			t.Errorf("%+v after it was sent %d times, %d of them alone, and %v of quarantine", *o, sent, alone, took)
		}
		if s := job.Settle(&j, *o, nil); s.To != job.Dead || s.Reason != job.ReasonLeaseExpired || s.Attempts != 0 {
			t.Errorf("%+v", s)
		}
		return
	}
}

func TestAJobThatIsOnlyClaimedIsNeverGivenUp(t *testing.T) {
	j := jobIn(job.Ready, 0)
	for n := range 1000 {
		claimed(&j, job.Running) // and the worker dies before it sends it
		if o := j.Before(job.Running, 0, now); o != nil && o.Kind != job.OutcomeReleased {
			t.Fatalf("claim %d: %+v", n, o)
		}
	}
	if j.ExpiredLeases != job.SuspectAfter {
		t.Errorf("%d expired leases", j.ExpiredLeases)
	}
}

func TestAnAttemptClearsASuspect(t *testing.T) {
	j := jobIn(job.Running, 0)
	j.ExpiredLeases = job.MaxExpiredLeases - 1
	for _, kind := range []job.OutcomeKind{job.OutcomeDelivered, job.OutcomeFailed} {
		s := job.Settle(&j, job.Outcome{Kind: kind, Attempt: &job.Attempt{}}, func(int) (time.Duration, bool) { return time.Minute, true })
		if s.ExpiredLeases != 0 {
			t.Errorf("outcome %d leaves %d expired leases", kind, s.ExpiredLeases)
		}
	}
}

func TestChargeExpiredLeaseIsForTheHolderOfTheClaim(t *testing.T) {
	for name, change := range map[string]func(*job.Job){
		"claimed again":   func(j *job.Job) { j.Token++ },
		"not running":     func(j *job.Job) { j.State = job.Ready },
		"to be cancelled": func(j *job.Job) { j.CancelRequested = true },
	} {
		j := jobIn(job.Running, 0)
		token := j.Token
		j.ExpiredLeases = job.SuspectAfter
		change(&j)
		if err := j.ChargeExpiredLease(token); !errors.Is(err, job.ErrTaken) || j.ExpiredLeases != job.SuspectAfter {
			t.Errorf("%s: %v, %d expired leases", name, err, j.ExpiredLeases)
		}
	}
}
