package metered_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/store"
)

// outcomes answers a settlement with one result for each, and an update with a cancelled job.
type outcomes struct {
	store.Store
	settled []store.Settled
}

func (o outcomes) Settle(context.Context, []job.Settlement) ([]store.Settled, error) {
	return o.settled, nil
}

func (o outcomes) Update(_ context.Context, _ job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	j := job.Job{Spec: job.Spec{Callbacks: everyCallback()}}
	err := change(&j, 1)
	return j, err
}

func everyCallback() *job.Callbacks {
	var c job.Callbacks
	for _, e := range job.CallbackEvents {
		c.Set(e, &job.Callback{})
	}
	return &c
}

func TestCallbacksAreCountedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	sub, err := metered.Callbacks(registry)
	if err != nil {
		t.Fatal(err)
	}
	settlement := func(o job.Outcome) job.Settlement {
		j := &job.Job{State: job.Running, Spec: job.Spec{Callbacks: everyCallback()}}
		return job.Settle(j, o, func(int) (time.Duration, bool) { return 0, false })
	}
	failed := settlement(job.Outcome{Kind: job.OutcomeFailed, Attempt: &job.Attempt{Number: 1}})
	all := []job.Settlement{settlement(job.Outcome{Kind: job.OutcomeDelivered}), failed, failed, failed, {}}
	dead := store.Settled{To: job.Dead, Reason: job.ReasonRetryLimit}
	repeated, stale := dead, store.Settled{Status: store.Stale}
	repeated.Repeated = true
	s := feed.Observe(outcomes{settled: []store.Settled{
		{To: job.Delivered, Reason: job.ReasonDelivered}, {To: job.Cancelled, Reason: job.ReasonCancelled}, repeated, stale, {To: job.Delivered},
	}}, sub)
	if _, err := s.Settle(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), job.Key{}, func(j *job.Job, now job.Instant) error {
		_, err := j.Cancel(now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), job.Key{}, (*job.Job).Supersede); err != nil {
		t.Fatal(err)
	}
	want := "# HELP duehook_callbacks_superseded_total Callbacks of failed attempts that a newer one replaced before they were delivered.\n" +
		"# TYPE duehook_callbacks_superseded_total counter\nduehook_callbacks_superseded_total 1\n" +
		"# HELP duehook_callbacks_total Callbacks registered with the outcomes of their jobs, by event.\n# TYPE duehook_callbacks_total counter\n"
	for _, line := range []string{"attempt_failed 1", "cancelled 3", "dead 0", "delivered 1", "expired 0"} {
		event, n, _ := strings.Cut(line, " ")
		want += fmt.Sprintf("duehook_callbacks_total{event=%q} %s\n", event, n)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if _, err := metered.Callbacks(registry); err == nil {
		t.Error("registered twice")
	}
}
