package v1

import (
	"encoding/base64"

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
	return registrationView{&j, s.Scheduler.DefaultCallbacks(j.Topic)}, nil
}

// registrationView is a job in the form in which it is registered. What the job
// lacks is left out, except retry, priority and callbacks: {} and the default priority
// keep the defaults of a topic away.
type registrationView struct {
	*job.Job
	defaultCallbacks bool // the topic has some, which the job lacks
}

// appendJSON writes a JSON body byte for byte, which encoding/json would not.
func (v registrationView) appendJSON(b []byte) ([]byte, error) {
	s := &v.Spec
	w := jobWriter{b: b}
	w.text(`{"topic":`, v.Topic)
	w.text(`,"id":`, v.ID)
	if s.BizKey != "" {
		w.text(`,"biz_key":`, s.BizKey)
	}
	if s.OrderKey != "" {
		w.text(`,"order_key":`, s.OrderKey)
	}
	w.text(`,"url":`, string(s.Destination))
	w.text(`,"method":`, s.HTTPMethod())
	switch {
	case s.When.At != 0:
		w.instant(`,"at":`, instant(s.When.At))
	case s.When.Delay != 0:
		w.text(`,"delay":`, job.FormatDuration(s.When.Delay))
	}
	if s.When.Spread != 0 {
		w.text(`,"spread":`, job.FormatDuration(s.When.Spread))
	}
	if len(s.Headers) > 0 {
		w.name(`,"headers":`)
		w.any(viewHeaders(s.Headers))
	}
	if s.ContentType != "" {
		w.text(`,"content_type":`, s.ContentType)
	}
	w.body(s.BodyForm, s.Body)
	w.name(`,"retry":`)
	w.any(viewOwnRetry(s.Retry))
	if s.Timeout != 0 {
		w.text(`,"timeout":`, job.FormatDuration(s.Timeout))
	}
	if s.TTL != 0 {
		w.text(`,"ttl":`, job.FormatDuration(s.TTL))
	}
	if s.ExpectBody != "" {
		w.text(`,"expect":{"body":`, s.ExpectBody)
		w.name(`}`)
	}
	if len(s.Labels) > 0 {
		w.labels(`,"labels":`, viewLabels(s.Labels))
	}
	if c := s.Count; c != nil {
		w.name(`,"count":`)
		w.any(countTermsView{c.Target, string(c.AtDeadline)})
	}
	w.integer(`,"priority":`, s.Priority.Number())
	if c := viewCallbacks(s.Callbacks); c != nil {
		w.name(`,"callbacks":`)
		w.any(c)
	} else if v.defaultCallbacks {
		w.name(`,"callbacks":{}`)
	}
	w.name(`}`)
	return w.b, w.err
}

// body writes a body in the form in which it was given.
func (w *jobWriter) body(form job.BodyForm, content []byte) {
	switch form {
	case job.BodyJSON:
		w.name(`,"body":`)
		w.b = append(w.b, content...)
	case job.BodyText:
		w.text(`,"body_text":`, string(content))
	case job.BodyBase64:
		w.text(`,"body_base64":`, base64.StdEncoding.EncodeToString(content))
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
