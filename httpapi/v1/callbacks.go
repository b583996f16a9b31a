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
		"retry": func(d *job.CallbacksDraft, f field) { d.Retry = decodeRetry(f) },
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

// callbackView is a callback as registrations write it.
type callbackView struct {
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// viewCallbacks gives callbacks by their events, and their retry policy; nil without any.
func viewCallbacks(d *job.CallbacksDraft) map[string]any {
	if d == nil {
		return nil
	}
	view := map[string]any{}
	for e, c := range d.On {
		v := callbackView{URL: string(*c.Destination), Headers: c.Headers}
		if c.Method != nil {
			v.Method = *c.Method
		}
		view[string(e)] = v
	}
	if d.Retry != nil {
		view["retry"] = viewOwnRetry(d.Retry)
	}
	return view
}

// maxCallbackLinks bounds the callbacks that the view of a job names.
const maxCallbackLinks = 10

// callbacks writes which callbacks of a job were registered last, and what a callback reports.
func (v jobView) callbacks(w *writer) {
	if keys := v.CallbackKeys(); len(keys) > 0 {
		w.name("callbacks")
		w.bracket('[')
		for _, key := range keys[max(0, len(keys)-maxCallbackLinks):] {
			w.next()
			w.bracket('{')
			w.text("event", string(job.EventOfCallback(key.ID)))
			w.text("id", key.ID)
			w.text("url", jobPath(key))
			w.bracket('}')
		}
		w.bracket(']')
	}
	if v.Spec.Reports == "" {
		return
	}
	id, url := "", ""
	if r, err := successors.Report(v.Job); err == nil {
		id, url = r.Job.ID, jobPath(r.Job.Key)
	}
	uid, _ := job.CallbackOf(v.ID)
	w.name("callback_of")
	w.bracket('{')
	w.text("event", string(v.Spec.Reports))
	w.instant("at", v.CreatedAt)
	w.text("uid", uid)
	w.text("id", id)
	w.text("url", url)
	w.bracket('}')
}

// CallbackBody returns a function that makes the bodies of callbacks. policy is the server's.
func CallbackBody(policy retrypolicy.Policy) func(callback *job.Job) ([]byte, error) {
	return func(callback *job.Job) ([]byte, error) {
		r, err := successors.Report(callback)
		if err != nil {
			return nil, err
		}
		j := &r.Job
		w := writer{make([]byte, 0, 2*typicalResult+base64.StdEncoding.EncodedLen(len(j.Spec.Body)))}
		w.bracket('{')
		w.text("event", string(callback.Spec.Reports))
		w.instant("at", callback.CreatedAt)
		w.name("job")
		w.object(jobView{j, policy})
		w.name("attempt")
		w.reported(&r)
		w.name("request")
		w.bracket('{')
		headers := j.Spec.Headers
		if j.Spec.ContentType != "" {
			headers = append(slices.Clip(headers), job.Header{Name: "Content-Type", Value: j.Spec.ContentType})
		}
		w.headers("headers", headers)
		w.base64("body_base64", j.Spec.Body)
		w.bracket('}')
		w.bracket('}')
		return w.b, nil
	}
}

// reported writes the last attempt with the body of its answer, which is null if there was no
// answer, or if the event concludes no attempt.
func (w *writer) reported(r *job.Report) {
	a, body := r.Job.LastAttempt, r.Response
	if a == nil {
		w.null()
		return
	}
	answered := body != nil && a.Status != 0
	w.bracket('{')
	attemptView{a}.members(w)
	if answered {
		w.base64("response_body_base64", body.Body)
	} else {
		w.name("response_body_base64")
		w.null()
	}
	w.boolean("response_body_truncated", answered && body.Cut)
	w.bracket('}')
}
