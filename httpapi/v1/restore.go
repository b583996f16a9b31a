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
func (s *API) startRestore(r *request) (view, error) {
	o, err := readAll(r, maxSmall, restoreFields)
	if err != nil {
		return nil, err
	}
	run, err := s.Restoring.StartRestore(r.Context(), *o)
	r.status = http.StatusAccepted
	return shown(writeRun, &run), err
}

// restoreStatus answers GET /v1/restore.
func (s *API) restoreStatus(r *request) (view, error) {
	status, err := s.Restoring.RestoreStatus(r.Context())
	return func(w *writer) {
		writeRun(w, &status.Requested)
		part(w, "last_reconcile", &status.Reconcile, writeRun)
	}, err
}

// restoreJob answers POST /v1/jobs/{topic}/{id}/restore.
func (s *API) restoreJob(r *request) (view, error) {
	j, restored, err := s.Restoring.RestoreJob(r.Context(), r.key())
	switch {
	case errors.Is(err, job.ErrFinished):
		return nil, &scheduler.StateError{Job: j, Cause: err}
	case err != nil:
		return nil, err
	}
	return func(w *writer) {
		w.boolean("restored", restored)
		part(w, "job", &j, s.writeJob)
	}, nil
}

// writeRun writes one comparison of the journal and the store.
func writeRun(w *writer, r *store.RestoreRun) {
	w.text("state", string(r.State))
	w.textOrNull("topic", r.Options.Topic) // null: all
	w.boolean("expired", !r.Options.NotOverdue)
	w.instant("started_at", r.StartedAt)
	w.instant("ended_at", r.EndedAt)
	w.number("checked", r.Checked)
	w.number("restored", r.Restored)
	w.number("skipped", r.Skipped)
	w.number("no_room", r.NoRoom)
	w.number("conflicts", r.Conflicts)
	w.number("repaired", r.Repaired)
	w.number("unreadable", r.Unreadable)
	w.member("unreadable_jobs", append([]string{}, r.UnreadableJobs...)) // topic/id of the first
}
