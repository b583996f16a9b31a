package v1

import (
	"errors"
	"net/http"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

var restoreFields = newFieldSet(map[string]func(*store.RestoreOptions, field){
	"expired": func(o *store.RestoreOptions, f field) { o.NotOverdue = !f.boolean() },
	"topic":   ofText(func(o *store.RestoreOptions, e *fieldErrors, at, s string) { o.Topic = e.name(at, s) }),
})

// startRestore answers POST /v1/restore.
func (s *API) startRestore(r *request) (any, error) {
	o, err := readAll(r, maxSmall, restoreFields)
	if err != nil {
		return nil, err
	}
	run, err := s.Restoring.StartRestore(r.Context(), *o)
	return answer{http.StatusAccepted, viewRun(&run)}, err
}

// restoreStatus answers GET /v1/restore.
func (s *API) restoreStatus(r *request) (any, error) {
	status, err := s.Restoring.RestoreStatus(r.Context())
	return restoreView{runView: viewRun(&status.Requested), LastReconcile: viewRun(&status.Reconcile)}, err
}

// restoreJob answers POST /v1/jobs/{topic}/{id}/restore.
func (s *API) restoreJob(r *request) (any, error) {
	j, restored, err := s.Restoring.RestoreJob(r.Context(), r.key())
	switch {
	case errors.Is(err, job.ErrFinished):
		return nil, &scheduler.StateError{Job: j, Cause: err}
	case err != nil:
		return nil, err
	}
	return restoredView{Restored: restored, Job: s.viewJob(&j)}, nil
}

// runView is one comparison of the journal and the store.
type runView struct {
	State     string  `json:"state"`
	Topic     *string `json:"topic"` // null: all
	Expired   bool    `json:"expired"`
	StartedAt instant `json:"started_at"`
	EndedAt   instant `json:"ended_at"`
	Checked   int64   `json:"checked"`
	Restored  int64   `json:"restored"`
	Skipped   int64   `json:"skipped"`
	NoRoom    int64   `json:"no_room"`
	Conflicts int64   `json:"conflicts"`
	Repaired  int64   `json:"repaired"`

	Unreadable     int64    `json:"unreadable"`
	UnreadableJobs []string `json:"unreadable_jobs"` // topic/id of the first
}

type restoreView struct {
	runView
	LastReconcile runView `json:"last_reconcile"`
}

type restoredView struct {
	Restored bool    `json:"restored"`
	Job      jobView `json:"job"`
}

func viewRun(r *store.RestoreRun) runView {
	return runView{
		State: string(r.State), Topic: orNull(&r.Options.Topic), Expired: !r.Options.NotOverdue,
		StartedAt: instant(r.StartedAt), EndedAt: instant(r.EndedAt),
		Checked: r.Checked, Restored: r.Restored, Skipped: r.Skipped, NoRoom: r.NoRoom, Conflicts: r.Conflicts, Repaired: r.Repaired,
		Unreadable: r.Unreadable, UnreadableJobs: append([]string{}, r.UnreadableJobs...),
	}
}
