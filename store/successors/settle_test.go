package successors_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// failing is a store that fails in a call, and notes which calls were made.
type failing struct {
	update, settle error
	calls          []string
}

func (s *failing) Update(_ context.Context, key job.Key, _ func(*job.Job, job.Instant) error) (job.Job, error) {
	s.calls = append(s.calls, "update "+key.String())
	return job.Job{}, s.update
}

func (s *failing) Settle(_ context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	s.calls = append(s.calls, "settle")
	return make([]store.Settled, len(settlements)), s.settle
}

// An outcome is written after the older callback gave way, and not if that failed: otherwise a job would have two that wait.
func TestSettleInOrder(t *testing.T) {
	j := job.Job{Key: job.Key{Topic: "t", ID: "a"}, UID: "01K", Attempts: 1}
	j.Spec.Callbacks = &job.Callbacks{}
	j.Spec.Callbacks.Set(job.CallbackAttemptFailed, &job.Callback{})
	second := job.Settlement{Key: j.Key, Job: &j, To: job.Retrying, Attempts: 2}
	older := "update " + job.Key{Topic: "t", ID: j.CallbackID(job.CallbackAttemptFailed, 1)}.String()
	down := errors.New("down")
	for name, test := range map[string]struct {
		store failing
		err   error
		calls []string
	}{
		"all is well":               {calls: []string{older, "settle"}},
		"the older one is gone":     {store: failing{update: store.ErrNotFound}, calls: []string{older, "settle"}},
		"the older one has ended":   {store: failing{update: job.ErrFinished}, calls: []string{older, "settle"}},
		"it cannot give way":        {store: failing{update: down}, err: down, calls: []string{older}},
		"the outcome is not stored": {store: failing{settle: down}, err: down, calls: []string{older, "settle"}},
	} {
		t.Run(name, func(t *testing.T) {
			settled, err := successors.Settle(t.Context(), &test.store, []job.Settlement{second})
			if !errors.Is(err, test.err) || (err == nil) != (len(settled) == 1) {
				t.Errorf("%d results, %v; want %v", len(settled), err, test.err)
			}
			if !slices.Equal(test.store.calls, test.calls) {
				t.Errorf("calls %q, want %q", test.store.calls, test.calls)
			}
		})
	}
}

// A report comes back as it was set. One that cannot be read names its callback.
func TestReports(t *testing.T) {
	callback := job.Job{Key: job.Key{Topic: "t", ID: "01K.dead"}}
	successors.SetReport(&callback.Spec, &job.Report{Job: job.Job{Key: job.Key{Topic: "t", ID: "a"}, UID: "01K", Attempts: 3}})
	r, err := successors.Report(&callback)
	must.OK(t, err)
	must.Equal(t, "key", r.Job.Key, job.Key{Topic: "t", ID: "a"})
	must.Equal(t, "attempts", r.Job.Attempts, 3)
	callback.Spec.Body = callback.Spec.Body[:1]
	if _, err := successors.Report(&callback); err == nil || !strings.Contains(err.Error(), "t/01K.dead") {
		t.Errorf("a report that was cut: %v", err)
	}
}
