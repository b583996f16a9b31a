package receiver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// againWhileRunning is the delay of a repeat during handling.
	againWhileRunning = 5 * time.Second
	// markTimeout bounds Done and Forget, which run even if the client has gone.
	markTimeout = 5 * time.Second
)

// Func handles one delivery. Nil means that it was handled and is not sent again.
// It should stop when ctx ends: nobody waits for the answer then.
type Func func(ctx context.Context, d Delivery) error

// Handler serves deliveries with f:
//
//	POST, PUT, PATCH, GET or DELETE,
//	signed, new                         by the result of f:
//	  nil                               200 with Options.Reply
//	  Gone, Abort, RetryAfter, Snooze,
//	  Reschedule                        their answer
//	  any other error                   500: the next step of the ladder
//	handled before                      200 with Options.Reply; f is not called
//	being handled at the moment         409 with Duehook-Action: snooze and Retry-After: 5:
//	                                    duehook asks again and uses no attempt
//	Seen fails                          503; f is not called
//	no valid signature                  401
//	malformed headers or a broken body  400
//	body too large                      413
//	other methods                       405
//
// A delivery is remembered as handled only once f has returned nil. If f panics,
// it is forgotten and the panic continues.
func (r *Receiver) Handler(f Func) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.serve(w, req, f) })
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request, f Func) {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet, http.MethodDelete:
	default:
		w.Header().Set("Allow", "POST, PUT, PATCH, GET, DELETE")
		answerError{status: http.StatusMethodNotAllowed}.write(w)
		return
	}
	d, err := r.Verify(req)
	if err != nil {
		if r.log != nil {
			r.log.WarnContext(req.Context(), "a delivery was refused", "error", err)
		}
		answerError{status: refusal(err)}.write(w)
		return
	}
	if err := r.once(req.Context(), d, f); err != nil {
		answer(err).write(w)
		return
	}
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, r.reply) // after a lost answer, duehook asks again
}

// refusal is the status for an error of Verify.
func refusal(err error) int {
	switch {
	case errors.Is(err, ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrHeaders), errors.Is(err, ErrBody):
		return http.StatusBadRequest
	}
	return http.StatusUnauthorized
}

// answer is the answer of an error.
func answer(err error) answerError {
	var a answerError
	if errors.As(err, &a) {
		return a
	}
	return answerError{status: http.StatusInternalServerError}
}

// once calls f unless the delivery was handled before, and remembers it if f
// succeeds.
func (r *Receiver) once(ctx context.Context, d Delivery, f Func) error {
	status, err := r.seen.Begin(ctx, d.ID)
	switch {
	case err != nil:
		r.log.ErrorContext(ctx, "cannot look up whether a delivery was handled", "webhook_id", d.ID, "error", err)
		return answerError{status: http.StatusServiceUnavailable}
	case status == Handled:
		return nil
	case status == Running:
		return Snooze(againWhileRunning)
	}
	handled := false
	defer func() { r.mark(ctx, d.ID, handled) }() // also when f panics
	if err := f(ctx, d); err != nil {
		r.log.WarnContext(ctx, "a delivery was not handled",
			"webhook_id", d.ID, "topic", d.Topic, "job_id", d.JobID, "attempt", d.Attempt, "error", err)
		return err
	}
	handled = true
	return nil
}

// mark stores in Seen how handling ended. If that fails, a handled delivery may be
// handled twice.
func (r *Receiver) mark(ctx context.Context, id string, handled bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	mark := r.seen.Forget
	if handled {
		mark = r.seen.Done
	}
	if err := mark(ctx, id); err != nil {
		r.log.ErrorContext(ctx, "cannot store whether a delivery was handled", "webhook_id", id, "handled", handled, "error", err)
	}
}
