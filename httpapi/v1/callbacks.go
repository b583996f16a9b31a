package v1

import (
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

var callbackFields = decode.NewFieldSet(map[string]func(*job.CallbackDraft, decode.Field){
	"url":     func(d *job.CallbackDraft, f decode.Field) { d.Destination = (*job.Destination)(f.Text()) },
	"method":  func(d *job.CallbackDraft, f decode.Field) { d.Method = f.Text() },
	"headers": func(d *job.CallbackDraft, f decode.Field) { d.Headers = f.Texts() },
})

var callbacksFields = decode.NewFieldSet(func() map[string]func(*job.CallbacksDraft, decode.Field) {
	fields := map[string]func(*job.CallbacksDraft, decode.Field){
		"retry":           func(d *job.CallbacksDraft, f decode.Field) { d.Retry = retryFields.New(f) },
		"include_request": func(d *job.CallbacksDraft, f decode.Field) { d.IncludeRequest = new(f.Boolean()) },
	}
	for _, e := range job.CallbackEvents {
		fields[string(e)] = func(d *job.CallbacksDraft, f decode.Field) { d.On[e] = callbackFields.New(f) }
	}
	return fields
}())

func decodeCallbacks(f decode.Field) *job.CallbacksDraft {
	d := &job.CallbacksDraft{On: map[job.CallbackEvent]*job.CallbackDraft{}}
	callbacksFields.Into(d, f)
	return d
}

// writeCallbacks writes callbacks by their events, and their retry policy.
func writeCallbacks(w *jsonio.Writer, d *job.CallbacksDraft) {
	for _, e := range job.CallbackEvents {
		if c := d.On[e]; c != nil {
			w.In(string(e), func() {
				w.Text("url", string(*c.Destination))
				jsonio.IfGiven("method", c.Method, w.Text)
				if len(c.Headers) > 0 {
					w.Member("headers", c.Headers)
				}
			})
		}
	}
	if d.Retry != nil {
		jsonio.Part(w, "retry", d.Retry, writeRetry)
	}
	if d.IncludeRequest != nil {
		w.Boolean("include_request", *d.IncludeRequest)
	}
}
