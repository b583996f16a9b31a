package v1

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonout"
)

// getRegistration answers GET /v1/jobs/{topic}/{id}/registration. Headers and
// body may be secret, so the call needs the scope that could have set them.
func (s *API) getRegistration(r *request) (jsonout.View, error) {
	j, err := s.App.Get(r.Context(), r.key())
	if err != nil {
		return nil, err
	}
	r.setWhole(jobjson.Version(&j))
	if j.Spec.Reports != "" {
		if j.Spec.Body, err = jobjson.CallbackBody(s.App.Policy())(&j); err != nil {
			return nil, err
		}
	}
	d := j.Draft()
	if d.Callbacks == nil && s.App.DefaultCallbacks(j.Topic) {
		d.Callbacks = &job.CallbacksDraft{} // {} keeps the defaults of the topic away
	}
	return jsonout.Shown(writeRegistration, d), nil
}

// writeRegistration writes a draft in the form in which a client writes it, with a JSON body
// byte for byte. Fields that are not given are left out.
func writeRegistration(w *jsonout.Writer, d *job.Draft) {
	jsonout.IfGiven("topic", d.Topic, w.Text)
	jsonout.IfGiven("id", d.ID, w.Text)
	jsonout.IfGiven("biz_key", d.BizKey, w.Text)
	jsonout.IfGiven("order_key", d.OrderKey, w.Text)
	jsonout.IfGiven("url", (*string)(d.Destination), w.Text)
	jsonout.IfGiven("pull", d.Pull, w.Boolean)
	jsonout.IfGiven("group", d.Group, w.Text)
	jsonout.IfGiven("filter_label", d.FilterLabel, w.Text)
	jsonout.IfGiven("method", d.Method, w.Text)
	jsonout.IfGiven("at", d.At, w.Instant)
	jsonout.IfGiven("delay", d.Delay, w.Duration)
	jsonout.IfGiven("spread", d.Spread, w.Duration)
	if d.Headers != nil {
		w.Member("headers", d.Headers)
	}
	jsonout.IfGiven("content_type", d.ContentType, w.Text)
	if d.Body != nil {
		writeBody(w, d.Body)
	}
	if d.Retry != nil {
		jsonout.Part(w, "retry", d.Retry, writeRetry)
	}
	jsonout.IfGiven("timeout", d.Timeout, w.Duration)
	jsonout.IfGiven("ttl", d.TTL, w.Duration)
	if d.Expect != nil {
		w.In("expect", func() { w.Text("body", *d.Expect) })
	}
	if d.Labels != nil {
		w.Member("labels", d.Labels)
	}
	if c := d.Count; c != nil {
		w.In("count", func() { jobjson.WriteCountTerms(w, *c.Target, *c.AtDeadline) })
	}
	jsonout.IfGiven("priority", d.Priority, w.Integer)
	if d.Callbacks != nil {
		jsonout.Part(w, "callbacks", d.Callbacks, writeCallbacks)
	}
}

// body writes a body in the form in which it was given.
func writeBody(w *jsonout.Writer, b *job.Body) {
	switch b.Form {
	case job.BodyJSON:
		w.Name("body")
		w.B = append(w.B, b.Content...)
	case job.BodyText:
		w.Text("body_text", string(b.Content))
	case job.BodyBase64:
		w.Base64("body_base64", b.Content)
	}
}

// writeRetry writes a retry policy in the form in which registrations write it.
func writeRetry(w *jsonout.Writer, r *job.Retry) {
	if len(r.Steps) > 0 {
		w.Member("steps", steps(r.Steps))
	}
	jsonout.IfGiven("limit", r.Limit, w.Integer)
}
