package v1

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// getRegistration answers GET /v1/jobs/{topic}/{id}/registration. Headers and
// body may be secret, so the call needs the scope that could have set them.
func (s *API) getRegistration(r *request) (jsonio.View, error) {
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
	return jsonio.Shown(writeRegistration, d), nil
}

// writeBody writes a body in the form in which it was given.
func writeBody(w *jsonio.Writer, b *job.Body) {
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
func writeRetry(w *jsonio.Writer, r *job.Retry) {
	if len(r.Steps) > 0 {
		w.Member("steps", steps(r.Steps))
	}
	jsonio.IfGiven("limit", r.Limit, w.Integer)
}
