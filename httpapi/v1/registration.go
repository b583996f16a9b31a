package v1

import (
	"github.com/duehook/duehook/job"
)

// getRegistration answers GET /v1/jobs/{topic}/{id}/registration. Headers and
// body may be secret, so the call needs the scope that could have set them.
func (s *API) getRegistration(r *request) (any, error) {
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
	return registrationView{d}, nil
}

// registrationView is a draft in the form in which a client writes it. Fields that are not
// given are left out.
type registrationView struct{ *job.Draft }

// write writes a JSON body byte for byte, which encoding/json would not.
func (v registrationView) members(w *writer) {
	w.given("topic", v.Topic)
	w.given("id", v.ID)
	w.given("biz_key", v.BizKey)
	w.given("order_key", v.OrderKey)
	w.given("url", (*string)(v.Destination))
	w.given("method", v.Method)
	if v.At != nil {
		w.instant("at", *v.At)
	}
	w.given("delay", formatted(v.Delay))
	w.given("spread", formatted(v.Spread))
	if v.Headers != nil {
		w.member("headers", v.Headers)
	}
	w.given("content_type", v.ContentType)
	if v.Body != nil {
		w.body(v.Body)
	}
	if v.Retry != nil {
		w.member("retry", viewOwnRetry(v.Retry))
	}
	w.given("timeout", formatted(v.Timeout))
	w.given("ttl", formatted(v.TTL))
	if v.Expect != nil {
		w.member("expect", map[string]string{"body": *v.Expect})
	}
	if v.Labels != nil {
		w.member("labels", v.Labels)
	}
	if c := v.Count; c != nil {
		w.member("count", countTermsView{*c.Target, *c.AtDeadline})
	}
	if v.Priority != nil {
		w.member("priority", *v.Priority)
	}
	if v.Callbacks != nil {
		w.member("callbacks", viewCallbacks(v.Callbacks))
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

// ownRetryView is a retry policy as registrations write it.
type ownRetryView struct {
	Steps []string `json:"steps,omitempty"`
	Limit *int     `json:"limit,omitempty"`
}

func viewOwnRetry(r *job.Retry) ownRetryView {
	if r == nil {
		return ownRetryView{}
	}
	return ownRetryView{Steps: viewSteps(r.Steps), Limit: r.Limit}
}
