package jobjson

import (
	"encoding/base64"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store/successors"
)

// maxCallbackLinks bounds the callbacks that the view of a job names.
const maxCallbackLinks = 10

// writeCallbackLinks writes which callbacks of a job were registered last, and what a callback
// reports.
func writeCallbackLinks(w *jsonio.Writer, j *job.Job) {
	if keys := j.CallbackKeys(); len(keys) > 0 {
		jsonio.List(w, "callback_jobs", keys[max(0, len(keys)-maxCallbackLinks):], func(w *jsonio.Writer, key *job.Key) {
			w.Text("event", string(job.EventOfCallback(key.ID)))
			w.Text("id", key.ID)
			w.Text("url", Path(*key))
		})
	}
	if j.Spec.Reports == "" {
		return
	}
	id, url := "", ""
	if r, err := successors.Report(j); err == nil {
		id, url = r.Job.ID, Path(r.Job.Key)
	}
	uid, _ := job.CallbackOf(j.ID)
	w.In("callback_of", func() {
		w.Text("event", string(j.Spec.Reports))
		w.Instant("at", j.CreatedAt)
		w.Text("uid", uid)
		w.Text("id", id)
		w.Text("url", url)
	})
}

// CallbackBody returns a function that makes the bodies of callbacks, as docs/api/callbacks.md
// describes them. policy is the server's.
func CallbackBody(policy retrypolicy.Policy) func(callback *job.Job) ([]byte, error) {
	return func(callback *job.Job) ([]byte, error) {
		r, err := successors.Report(callback)
		if err != nil {
			return nil, err
		}
		room := make([]byte, 0, 2*jsonio.TypicalItem+base64.StdEncoding.EncodedLen(len(r.Job.Spec.Body)))
		return jsonio.AppendObject(room, func(w *jsonio.Writer) {
			w.Text("event", string(callback.Spec.Reports))
			w.Instant("at", callback.CreatedAt)
			w.In("job", func() { WriteJob(w, &r.Job, policy) })
			writeReported(w, &r)
			if r.Request {
				writeRequest(w, &r.Job.Spec)
			} else {
				w.Null("request")
			}
		}), nil
	}
}

// RequestHeaders are the headers of a job's request that its registration gave.
func RequestHeaders(s *job.Spec) []job.Header {
	if s.ContentType == "" {
		return s.Headers
	}
	return append(slices.Clip(s.Headers), job.Header{Name: "Content-Type", Value: s.ContentType})
}

// writeRequest writes the headers and the body that a job sends.
func writeRequest(w *jsonio.Writer, s *job.Spec) {
	w.In("request", func() {
		w.Headers("headers", RequestHeaders(s))
		w.Base64("body_base64", s.Body)
	})
}

// writeReported writes the last attempt with the body of its answer, which is null if there was
// no answer. The attempt is null if the event concludes none.
func writeReported(w *jsonio.Writer, r *job.Report) {
	body := r.Response
	jsonio.Part(w, "attempt", r.Job.LastAttempt, func(w *jsonio.Writer, a *job.Attempt) {
		WriteAttempt(w, a, r.Job.UID)
		answered := body != nil && a.Status != 0
		if answered {
			w.Base64("response_body_base64", body.Body)
		} else {
			w.Null("response_body_base64")
		}
		w.Boolean("response_body_truncated", answered && body.Cut)
	})
}
