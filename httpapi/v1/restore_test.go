package v1

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// fakeRestoring notes what is asked for. The store has every job that its
// ledger has.
type fakeRestoring struct {
	faults *faultyStore
	status store.RestoreStatus
}

func newFakeRestoring(faults *faultyStore) *fakeRestoring {
	none := store.RestoreRun{State: store.RestoreNone}
	return &fakeRestoring{faults: faults, status: store.RestoreStatus{Requested: none, Reconcile: none}}
}

func (f *fakeRestoring) StartRestore(_ context.Context, o store.RestoreOptions) (store.RestoreRun, error) {
	if err := f.faults.err(); err != nil {
		return store.RestoreRun{}, err
	}
	r := &f.status.Requested
	if !r.State.Ended() {
		return *r, store.ErrRestoring
	}
	*r = store.RestoreRun{State: store.RestoreWaiting, Options: o, StartedAt: 1_767_258_000_000}
	return *r, nil
}

func (f *fakeRestoring) RestoreStatus(context.Context) (store.RestoreStatus, error) {
	return f.status, f.faults.err()
}

func (f *fakeRestoring) RestoreJob(ctx context.Context, key job.Key) (job.Job, bool, error) {
	j, err := f.faults.Get(ctx, key)
	switch {
	case err != nil:
		return job.Job{}, false, err
	case j.State.Final():
		return j, false, job.ErrFinished
	}
	return j, true, nil
}

func TestRestore(t *testing.T) {
	a := newAPI(t)
	run := map[string]any{
		"state": "waiting", "topic": "t", "expired": false, "started_at": "2026-01-01T09:00:00.000Z", "ended_at": nil,
		"checked": 0.0, "restored": 0.0, "skipped": 0.0, "no_room": 0.0, "conflicts": 0.0, "repaired": 0.0, "unreadable": 0.0, "unreadable_jobs": []any{},
	}
	if diff := cmp.Diff(run, a.want(202, "POST", "/v1/restore", `{"topic":"t","expired":false}`)); diff != "" {
		t.Error(diff)
	}
	a.restoring.status.Requested.State, a.restoring.status.Requested.EndedAt = store.RestoreDone, 1_767_258_001_000
	a.restoring.status.Requested.RestoreReport = store.RestoreReport{Checked: 5, Restored: 4, Skipped: 3, Conflicts: 2, Repaired: 1, Unreadable: 1, UnreadableJobs: []string{"t/a"}}
	got := a.want(200, "GET", "/v1/restore", "")
	delete(got, "last_reconcile")
	run["state"], run["ended_at"] = "done", "2026-01-01T09:00:01.000Z"
	run["unreadable"], run["unreadable_jobs"] = 1.0, []any{"t/a"}
	run["checked"], run["restored"], run["skipped"], run["conflicts"], run["repaired"] = 5.0, 4.0, 3.0, 2.0, 1.0
	if diff := cmp.Diff(run, got); diff != "" {
		t.Error(diff)
	}
	a.want(202, "POST", "/v1/restore", `{"expired":true,"topic":null}`)
	if o := a.restoring.status.Requested.Options; o != (store.RestoreOptions{}) {
		t.Errorf("asked for %+v", o)
	}
}

func TestRestoreRefuses(t *testing.T) {
	newAPI(t).refuses("POST", "/v1/restore", map[string]string{
		`{"expired":1}`: "/expired", `{"expired":"false"}`: "/expired", `{"topic":"a b"}`: "/topic",
		`{"topic":1}`: "/topic", `{"topics":"t"}`: "/topics",
	})
}

func TestRestoreJob(t *testing.T) {
	a := newAPI(t)
	want := a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":"1h"}`)
	delete(want, "result")
	if diff := cmp.Diff(map[string]any{"restored": true, "job": want}, a.want(200, "POST", "/v1/jobs/t/a/restore", "")); diff != "" {
		t.Error(diff)
	}
}
