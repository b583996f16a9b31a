package httpapi

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// maxRestoreRequest bounds, in bytes, the request to restore.
const maxRestoreRequest = 4 << 10

var restoreFields = newFieldSet(map[string]func(*store.RestoreOptions, field){
	"expired": func(o *store.RestoreOptions, f field) {
		switch string(f.raw) {
		case "true":
		case "false":
			o.NotOverdue = true
		default:
			f.wrongType("true or false")
		}
	},
	"topic": func(o *store.RestoreOptions, f field) {
		topic := f.text()
		if topic == nil {
			return
		}
		if err := job.CheckName(*topic); err != nil {
			f.fail(err.Error())
		}
		o.Topic = *topic
	},
})

// startRestore answers POST /v1/restore.
func (s *Server) startRestore(c echo.Context) error {
	o, err := readRestore(c)
	if err != nil {
		return err
	}
	if err := s.checkLedger(); err != nil {
		return err
	}
	run, err := s.opts.Restoring.StartRestore(c.Request().Context(), *o)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusAccepted, viewRun(&run))
}

func readRestore(c echo.Context) (*store.RestoreOptions, error) {
	body, err := readOptionalJSON(c, maxRestoreRequest)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return &store.RestoreOptions{}, nil
	}
	defer release(body)
	o, errs := decodeObject(body.Bytes(), restoreFields)
	return o, errs.err()
}

// restoreStatus answers GET /v1/restore.
func (s *Server) restoreStatus(c echo.Context) error {
	if err := s.checkLedger(); err != nil {
		return err
	}
	status, err := s.opts.Restoring.RestoreStatus(c.Request().Context())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, restoreView{runView: viewRun(&status.Requested), LastSweep: viewRun(&status.Sweep)})
}

// restoreJob answers POST /v1/jobs/{topic}/{id}/restore.
func (s *Server) restoreJob(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	if err := s.checkLedger(); err != nil {
		return err
	}
	j, restored, err := s.opts.Restoring.RestoreJob(c.Request().Context(), key)
	switch {
	case errors.Is(err, job.ErrFinished):
		return withState(err, &j)
	case err != nil:
		return err
	}
	return writeJSON(c, http.StatusOK, restoredView{Restored: restored, Job: s.viewJob(&j)})
}

func (s *Server) checkLedger() error {
	if s.opts.Restoring != nil {
		return nil
	}
	return &apiError{
		code:   codeLedgerMissing,
		detail: "This server keeps no journal of jobs, so there is nothing to restore them from. Start all servers with the same --ledger-url.",
	}
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
	LastSweep runView `json:"last_sweep"`
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
