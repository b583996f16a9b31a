package ledger

import (
	"testing"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// A claim that only ends a lease is not released while the ledger lacks the end of the job before:
// the lease would not count as an attempt.
func TestClaimsThatSendNothingWaitForNothing(t *testing.T) {
	const url job.Destination = "http://a.example/"
	for name, tt := range map[string]struct {
		claimed store.Claimed
		want    int
	}{
		"a pulled job":                        {store.Claimed{From: job.Waiting, Job: job.Job{Spec: job.Spec{Destination: job.PullQueue}}}, 1},
		"a pulled job whose lease expired":    {store.Claimed{From: job.Running, Job: job.Job{Spec: job.Spec{Destination: job.PullQueue}}}, 0},
		"a job whose lease expired":           {store.Claimed{From: job.Running, Job: job.Job{Spec: job.Spec{Destination: url}}}, 1},
		"a job that was cancelled in between": {store.Claimed{From: job.Running, Job: job.Job{CancelRequested: true, Spec: job.Spec{Destination: url}}}, 0},
	} {
		tt.claimed.AfterUID = "the uid of the job before"
		if got := len(firstFollowing([]store.Claimed{tt.claimed})); got != tt.want {
			t.Errorf("%s waits for %d outcomes, want %d", name, got, tt.want)
		}
	}
}
