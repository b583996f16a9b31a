package v1

import (
	"encoding/base64"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store/successors"
)

var callbackFields = newFieldSet(map[string]func(*job.CallbackDraft, field){
	"url":     func(d *job.CallbackDraft, f field) { d.Destination = (*job.Destination)(f.text()) },
	"method":  func(d *job.CallbackDraft, f field) { d.Method = f.text() },
	"headers": func(d *job.CallbackDraft, f field) { d.Headers = f.texts() },
})

var callbacksFields = newFieldSet(func() map[string]func(*job.CallbacksDraft, field) {
	fields := map[string]func(*job.CallbacksDraft, field){
		"retry":           func(d *job.CallbacksDraft, f field) { d.Retry = decodeRetry(f) },
		"include_request": func(d *job.CallbacksDraft, f field) { d.IncludeRequest = new(f.boolean()) },
	}
	for _, e := range job.CallbackEvents {
		fields[string(e)] = func(d *job.CallbacksDraft, f field) {
			one := &job.CallbackDraft{}
			callbackFields.decode(f.raw, f.pointer(), one, f.errs)
			d.On[e] = one
		}
	}
	return fields
}())

func decodeCallbacks(f field) *job.CallbacksDraft {
	d := &job.CallbacksDraft{On: map[job.CallbackEvent]*job.CallbackDraft{}}
	callbacksFields.decode(f.raw, f.pointer(), d, f.errs)
	return d
}

// writeCallbacks writes callbacks by their events, and their retry policy.
func writeCallbacks(w *writer, d *job.CallbacksDraft) {
	for _, e := range job.CallbackEvents {
		if c := d.On[e]; c != nil {
			w.in(string(e), func() {
				w.url("url", string(*c.Destination))
				ifGiven("method", c.Method, w.text)
				switch {
				case len(c.Headers) == 0:
				case w.masked:
					w.null("headers")
				default:
					w.member("headers", c.Headers)
				}
			})
		}
	}
	if d.Retry != nil {
		part(w, "retry", d.Retry, writeRetry)
	}
	if d.IncludeRequest != nil {
		w.boolean("include_request", *d.IncludeRequest)
	}
}

// maxCallbackLinks bounds the callbacks that the view of a job names.
const maxCallbackLinks = 10

// writeCallbackLinks writes which callbacks of a job were registered last, and what a callback
// reports.
func writeCallbackLinks(w *writer, j *job.Job) {
	if keys := j.CallbackKeys(); len(keys) > 0 {
		list(w, "callbacks", keys[max(0, len(keys)-maxCallbackLinks):], func(w *writer, key *job.Key) {
			w.text("event", string(job.EventOfCallback(key.ID)))
			w.text("id", key.ID)
			w.text("url", jobPath(*key))
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
	w.in("callback_of", func() {
		w.text("event", string(j.Spec.Reports))
		w.instant("at", j.CreatedAt)
		w.text("uid", uid)
		w.text("id", id)
		w.text("url", url)
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
		room := make([]byte, 0, 2*typicalItem+base64.StdEncoding.EncodedLen(len(j.Spec.Body)))
		return appendObject(room, func(w *writer) {
			w.text("event", string(callback.Spec.Reports))
			w.instant("at", callback.CreatedAt)
			w.in("job", func() { writeJob(w, j, policy) })
			writeReported(w, &r)
			if r.Request {
				writeRequest(w, &j.Spec)
			} else {
				w.null("request")
			}
		}), nil
	}
}

// writeRequest writes the headers and the body that a job sends.
func writeRequest(w *writer, s *job.Spec) {
	headers := s.Headers
	if s.ContentType != "" {
		headers = append(slices.Clip(headers), job.Header{Name: "Content-Type", Value: s.ContentType})
	}
	w.in("request", func() {
		w.headers("headers", headers)
		w.base64("body_base64", s.Body)
	})
}

// writeReported writes the last attempt with the body of its answer, which is null if there was
// no answer. The attempt is null if the event concludes none.
func writeReported(w *writer, r *job.Report) {
	body := r.Response
	part(w, "attempt", r.Job.LastAttempt, func(w *writer, a *job.Attempt) {
		writeAttempt(w, a, r.Job.UID)
		answered := body != nil && a.Status != 0
		if answered {
			w.base64("response_body_base64", body.Body)
		} else {
			w.null("response_body_base64")
		}
		w.boolean("response_body_truncated", answered && body.Cut)
	})
}
