package v1

import (
	"encoding/base64"
	"net/textproto"

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

// callbackLink is the callback of an event of a job.
type callbackLink struct {
	Event string `json:"event"`
	ID    string `json:"id"`
	URL   string `json:"url"` // its path in this API
}

// maxCallbackLinks bounds the callbacks that the view of a job names.
const maxCallbackLinks = 10

// linkCallbacks names the last callbacks of a job.
func linkCallbacks(j *job.Job) (links []callbackLink) {
	keys := j.CallbackKeys()
	for _, key := range keys[max(0, len(keys)-maxCallbackLinks):] {
		links = append(links, callbackLink{string(job.EventOfCallback(key.ID)), key.ID, jobPath(key)})
	}
	return links
}

// callbackOfView is what a callback reports.
type callbackOfView struct {
	Event string  `json:"event"`
	At    instant `json:"at"`
	UID   string  `json:"uid"`
	ID    string  `json:"id"`
	URL   string  `json:"url"` // the path of its job in this API
}

// viewCallbackOf is nil for a job that is no callback.
func viewCallbackOf(j *job.Job) *callbackOfView {
	if j.Spec.Reports == "" {
		return nil
	}
	v := &callbackOfView{Event: string(j.Spec.Reports), At: instant(j.CreatedAt)}
	v.UID, _ = job.CallbackOf(j.ID)
	if r, err := successors.Report(j); err == nil {
		v.ID, v.URL = r.Job.ID, jobPath(r.Job.Key)
	}
	return v
}

// callbackBody is the body of a callback's request.
type callbackBody struct {
	Event   string           `json:"event"`
	At      instant          `json:"at"`
	Job     jobView          `json:"job"`
	Attempt *callbackAttempt `json:"attempt"`
	Request callbackRequest  `json:"request"`
}

// callbackAttempt is the last attempt with the body of its answer, which is null if there was no
// answer, or if the event concludes no attempt.
type callbackAttempt struct {
	attemptView
	ResponseBodyBase64    []byte `json:"response_body_base64"`
	ResponseBodyTruncated bool   `json:"response_body_truncated"`
}

type callbackRequest struct {
	Headers    map[string]string `json:"headers"`
	BodyBase64 []byte            `json:"body_base64"` // never nil
}

// CallbackBody returns a function that makes the bodies of callbacks. policy is the server's.
func CallbackBody(policy retrypolicy.Policy) func(callback *job.Job) ([]byte, error) {
	return func(callback *job.Job) ([]byte, error) {
		r, err := successors.Report(callback)
		if err != nil {
			return nil, err
		}
		j := &r.Job
		v := callbackBody{
			Event: string(callback.Spec.Reports), At: instant(callback.CreatedAt), Job: viewJob(j, policy),
			Request: callbackRequest{Headers: viewHeaders(j.Spec.Headers), BodyBase64: orEmpty(j.Spec.Body)},
		}
		if j.Spec.ContentType != "" {
			v.Request.Headers[textproto.CanonicalMIMEHeaderKey("content-type")] = j.Spec.ContentType
		}
		bodies := len(j.Spec.Body)
		if j.LastAttempt != nil {
			v.Attempt = &callbackAttempt{attemptView: *v.Job.LastAttempt}
			if r.Response != nil && j.LastAttempt.Status != 0 {
				v.Attempt.ResponseBodyBase64, v.Attempt.ResponseBodyTruncated = orEmpty(r.Response.Body), r.Response.Cut
				bodies += len(r.Response.Body)
			}
		}
		return v.appendJSON(make([]byte, 0, 2*typicalResult+base64.StdEncoding.EncodedLen(bodies)))
	}
}

// orEmpty makes no bytes empty in JSON, where nil is null.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
