package v1

import (
	"errors"
	"net/http"

	"github.com/duehook/duehook/httpapi/wire"
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

var restoreFields = wire.NewFieldSet(map[string]func(*store.RestoreOptions, wire.Field){
	"expired": func(o *store.RestoreOptions, f wire.Field) { o.NotOverdue = !f.Boolean() },
	"topic":   wire.OfText(func(o *store.RestoreOptions, e *wire.Errors, at, s string) { o.Topic = asName(e, at, s) }),
})

// startRestore answers POST /v1/restore.
func (s *API) startRestore(r *request) (jsonout.View, error) {
	o, err := readAll(r, maxSmall, restoreFields)
	if err != nil {
		return nil, err
	}
	run, err := s.Restoring.StartRestore(r.Context(), *o)
	r.status = http.StatusAccepted
	return jsonout.Shown(writeRun, &run), err
}

// restoreStatus answers GET /v1/restore.
func (s *API) restoreStatus(r *request) (jsonout.View, error) {
	status, err := s.Restoring.RestoreStatus(r.Context())
	return func(w *jsonout.Writer) {
		writeRun(w, &status.Requested)
		jsonout.Part(w, "last_reconcile", &status.Reconcile, writeRun)
	}, err
}

// restoreJob answers POST /v1/jobs/{topic}/{id}/restore.
func (s *API) restoreJob(r *request) (jsonout.View, error) {
	j, restored, err := s.Restoring.RestoreJob(r.Context(), r.key())
	switch {
	case errors.Is(err, job.ErrFinished):
		return nil, &scheduler.StateError{Job: j, Cause: err}
	case err != nil:
		return nil, err
	}
	return func(w *jsonout.Writer) {
		w.Boolean("restored", restored)
		jsonout.Part(w, "job", &j, s.writeJob)
	}, nil
}

// writeRun writes one comparison of the ledger and the store.
func writeRun(w *jsonout.Writer, r *store.RestoreRun) {
	w.Text("state", string(r.State))
	w.TextOrNull("topic", r.Options.Topic) // null: all
	w.Boolean("expired", !r.Options.NotOverdue)
	w.Instant("started_at", r.StartedAt)
	w.Instant("ended_at", r.EndedAt)
	w.Number("checked", r.Checked)
	w.Number("restored", r.Restored)
	w.Number("skipped", r.Skipped)
	w.Number("no_room", r.NoRoom)
	w.Number("conflicts", r.Conflicts)
	w.Number("repaired", r.Repaired)
	w.Number("unreadable", r.Unreadable)
	w.Member("unreadable_jobs", append([]string{}, r.UnreadableJobs...)) // topic/id of the first
}
