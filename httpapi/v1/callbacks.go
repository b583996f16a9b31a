package v1

import (
	"encoding/base64"
	"slices"

	"github.com/duehook/duehook/httpapi/wire"
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store/successors"
)

var callbackFields = wire.NewFieldSet(map[string]func(*job.CallbackDraft, wire.Field){
	"url":     func(d *job.CallbackDraft, f wire.Field) { d.Destination = (*job.Destination)(f.Text()) },
	"method":  func(d *job.CallbackDraft, f wire.Field) { d.Method = f.Text() },
	"headers": func(d *job.CallbackDraft, f wire.Field) { d.Headers = f.Texts() },
})

var callbacksFields = wire.NewFieldSet(func() map[string]func(*job.CallbacksDraft, wire.Field) {
	fields := map[string]func(*job.CallbacksDraft, wire.Field){
		"retry":           func(d *job.CallbacksDraft, f wire.Field) { d.Retry = decodeRetry(f) },
		"include_request": func(d *job.CallbacksDraft, f wire.Field) { d.IncludeRequest = new(f.Boolean()) },
	}
	for _, e := range job.CallbackEvents {
		fields[string(e)] = func(d *job.CallbacksDraft, f wire.Field) {
			one := &job.CallbackDraft{}
			callbackFields.Decode(f.Raw, f.Pointer(), one, f.Errs)
			d.On[e] = one
		}
	}
	return fields
}())

func decodeCallbacks(f wire.Field) *job.CallbacksDraft {
	d := &job.CallbacksDraft{On: map[job.CallbackEvent]*job.CallbackDraft{}}
	callbacksFields.Decode(f.Raw, f.Pointer(), d, f.Errs)
	return d
}

// writeCallbacks writes callbacks by their events, and their retry policy.
func writeCallbacks(w *jsonout.Writer, d *job.CallbacksDraft) {
	for _, e := range job.CallbackEvents {
		if c := d.On[e]; c != nil {
			w.In(string(e), func() {
				w.URL("url", string(*c.Destination))
				jsonout.IfGiven("method", c.Method, w.Text)
				switch {
				case len(c.Headers) == 0:
				case w.Mask != nil:
					w.Null("headers")
				default:
					w.Member("headers", c.Headers)
				}
			})
		}
	}
	if d.Retry != nil {
		jsonout.Part(w, "retry", d.Retry, writeRetry)
	}
	if d.IncludeRequest != nil {
		w.Boolean("include_request", *d.IncludeRequest)
	}
}

// maxCallbackLinks bounds the callbacks that the view of a job names.
const maxCallbackLinks = 10

// writeCallbackLinks writes which callbacks of a job were registered last, and what a callback
// reports.
func writeCallbackLinks(w *jsonout.Writer, j *job.Job) {
	if keys := j.CallbackKeys(); len(keys) > 0 {
		jsonout.List(w, "callbacks", keys[max(0, len(keys)-maxCallbackLinks):], func(w *jsonout.Writer, key *job.Key) {
			w.Text("event", string(job.EventOfCallback(key.ID)))
			w.Text("id", key.ID)
			w.Text("url", jobPath(*key))
		})
	}
	if j.Spec.Reports == "" {
		return
	}
	id, url := "", ""
	if r, err := successors.Report(j); err == nil {
		id, url = r.Job.ID, jobPath(r.Job.Key)
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

// CallbackBody returns a function that makes the bodies of callbacks. policy is the server's.
func CallbackBody(policy retrypolicy.Policy) func(callback *job.Job) ([]byte, error) {
	return func(callback *job.Job) ([]byte, error) {
		r, err := successors.Report(callback)
		if err != nil {
			return nil, err
		}
		j := &r.Job
		room := make([]byte, 0, 2*jsonout.TypicalItem+base64.StdEncoding.EncodedLen(len(j.Spec.Body)))
		return jsonout.AppendObject(room, func(w *jsonout.Writer) {
			w.Text("event", string(callback.Spec.Reports))
			w.Instant("at", callback.CreatedAt)
			w.In("job", func() { writeJob(w, j, policy) })
			writeReported(w, &r)
			if r.Request {
				writeRequest(w, &j.Spec)
			} else {
				w.Null("request")
			}
		}), nil
	}
}

// writeRequest writes the headers and the body that a job sends.
func writeRequest(w *jsonout.Writer, s *job.Spec) {
	headers := s.Headers
	if s.ContentType != "" {
		headers = append(slices.Clip(headers), job.Header{Name: "Content-Type", Value: s.ContentType})
	}
	w.In("request", func() {
		w.Headers("headers", headers)
		w.Base64("body_base64", s.Body)
	})
}

// writeReported writes the last attempt with the body of its answer, which is null if there was
// no answer. The attempt is null if the event concludes none.
func writeReported(w *jsonout.Writer, r *job.Report) {
	body := r.Response
	jsonout.Part(w, "attempt", r.Job.LastAttempt, func(w *jsonout.Writer, a *job.Attempt) {
		writeAttempt(w, a, r.Job.UID)
		answered := body != nil && a.Status != 0
		if answered {
			w.Base64("response_body_base64", body.Body)
		} else {
			w.Null("response_body_base64")
		}
		w.Boolean("response_body_truncated", answered && body.Cut)
	})
}
