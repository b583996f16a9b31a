package v1

import (
	"github.com/duehook/duehook/job"
)

// getRegistration answers GET /v1/jobs/{topic}/{id}/registration. Headers and
// body may be secret, so the call needs the scope that could have set them.
func (s *API) getRegistration(r *request) (view, error) {
	j, err := s.Scheduler.Get(r.Context(), r.key())
	if err != nil {
		return nil, err
	}
	r.setVersion(jobVersion(&j))
	if j.Spec.Reports != "" {
		if j.Spec.Body, err = CallbackBody(s.Scheduler.Policy())(&j); err != nil {
			return nil, err
		}
	}
	d := j.Draft()
	if d.Callbacks == nil && s.Scheduler.DefaultCallbacks(j.Topic) {
		d.Callbacks = &job.CallbacksDraft{} // {} keeps the defaults of the topic away
	}
	return shown(writeRegistration, d), nil
}

// writeRegistration writes a draft in the form in which a client writes it, with a JSON body
// byte for byte. Fields that are not given are left out.
func writeRegistration(w *writer, d *job.Draft) {
	ifGiven("topic", d.Topic, w.text)
	ifGiven("id", d.ID, w.text)
	ifGiven("biz_key", d.BizKey, w.text)
	ifGiven("order_key", d.OrderKey, w.text)
	ifGiven("url", (*string)(d.Destination), w.text)
	ifGiven("method", d.Method, w.text)
	ifGiven("at", d.At, w.instant)
	ifGiven("delay", d.Delay, w.duration)
	ifGiven("spread", d.Spread, w.duration)
	if d.Headers != nil {
		w.member("headers", d.Headers)
	}
	ifGiven("content_type", d.ContentType, w.text)
	if d.Body != nil {
		w.body(d.Body)
	}
	if d.Retry != nil {
		part(w, "retry", d.Retry, writeRetry)
	}
	ifGiven("timeout", d.Timeout, w.duration)
	ifGiven("ttl", d.TTL, w.duration)
	if d.Expect != nil {
		w.in("expect", func() { w.text("body", *d.Expect) })
	}
	if d.Labels != nil {
		w.member("labels", d.Labels)
	}
	if c := d.Count; c != nil {
		w.in("count", func() { writeCountTerms(w, *c.Target, *c.AtDeadline) })
	}
	ifGiven("priority", d.Priority, w.integer)
	ifGiven("again_body", d.AgainBody, w.boolean)
	if d.Callbacks != nil {
		part(w, "callbacks", d.Callbacks, writeCallbacks)
	}
}

// body writes a body in the form in which it was given.
func (w *writer) body(b *job.Body) {
	switch b.Form {
	case job.BodyJSON:
		w.name("body")
		w.b = append(w.b, b.Content...)
	case job.BodyText:
		w.text("body_text", string(b.Content))
	case job.BodyBase64:
		w.base64("body_base64", b.Content)
	}
}

// writeRetry writes a retry policy in the form in which registrations write it.
func writeRetry(w *writer, r *job.Retry) {
	if len(r.Steps) > 0 {
		w.member("steps", steps(r.Steps))
	}
	ifGiven("limit", r.Limit, w.integer)
}
