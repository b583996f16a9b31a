package v1

import (
	"time"

	"github.com/duehook/duehook/job"
)

// getRegistration answers GET /v1/jobs/{topic}/{id}/registration. Headers and
// body may be secret, so the call needs the scope that could have set them.
func (s *API) getRegistration(r *request) (view, error) {
	j, err := s.Scheduler.Get(r.Context(), r.key())
	if err != nil {
		return nil, err
	}
	r.setETag(jobTag(&j))
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
	w.given("topic", d.Topic)
	w.given("id", d.ID)
	w.given("biz_key", d.BizKey)
	w.given("order_key", d.OrderKey)
	w.given("url", (*string)(d.Destination))
	w.given("method", d.Method)
	if d.At != nil {
		w.instant("at", *d.At)
	}
	w.given("delay", formatted(d.Delay))
	w.given("spread", formatted(d.Spread))
	if d.Headers != nil {
		w.member("headers", d.Headers)
	}
	w.given("content_type", d.ContentType)
	if d.Body != nil {
		w.body(d.Body)
	}
	if d.Retry != nil {
		part(w, "retry", d.Retry, writeRetry)
	}
	w.given("timeout", formatted(d.Timeout))
	w.given("ttl", formatted(d.TTL))
	if d.Expect != nil {
		w.in("expect", func() { w.text("body", *d.Expect) })
	}
	if d.Labels != nil {
		w.member("labels", d.Labels)
	}
	if c := d.Count; c != nil {
		w.in("count", func() { writeCountTerms(w, *c.Target, *c.AtDeadline) })
	}
	if d.Priority != nil {
		w.integer("priority", *d.Priority)
	}
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
	if r.Limit != nil {
		w.integer("limit", *r.Limit)
	}
}

// formatted is a duration as the API shows it, or nil.
func formatted(d *time.Duration) *string {
	if d == nil {
		return nil
	}
	text := job.FormatDuration(*d)
	return &text
}
