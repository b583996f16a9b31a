package httpapi

import (
	"encoding/base64"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/job"
)

// getRegistration answers GET /v1/jobs/{topic}/{id}/registration. Headers and
// body may be secret, so the call needs the scope that could have set them.
func (s *Server) getRegistration(c echo.Context) error {
	j, err := s.pathJob(c)
	if err != nil {
		return err
	}
	setETag(c, jobTag(&j))
	return writeAppended(c, http.StatusOK, registrationView{&j})
}

// registrationView is a job in the form in which it is registered. What the job
// lacks is left out, but for retry and priority: {} and the default one keep
// the defaults of a topic away.
type registrationView struct{ *job.Job }

// appendJSON writes a JSON body byte for byte, which encoding/json would not.
func (v registrationView) appendJSON(b []byte) ([]byte, error) {
	s := &v.Spec
	w := jobWriter{b: b}
	w.text(`{"topic":`, v.Topic)
	w.text(`,"id":`, v.ID)
	if s.BizKey != "" {
		w.text(`,"biz_key":`, s.BizKey)
	}
	w.text(`,"url":`, string(s.Destination))
	w.text(`,"method":`, s.HTTPMethod())
	switch {
	case s.When.At != 0:
		w.instant(`,"at":`, instant(s.When.At))
	case s.When.Delay != 0:
		w.text(`,"delay":`, job.FormatDuration(s.When.Delay))
	}
	if len(s.Headers) > 0 {
		w.name(`,"headers":`)
		w.any(viewHeaders(s.Headers))
	}
	if s.ContentType != "" {
		w.text(`,"content_type":`, s.ContentType)
	}
	switch s.BodyForm {
	case job.BodyJSON:
		w.name(`,"body":`)
		w.b = append(w.b, s.Body...)
	case job.BodyText:
		w.text(`,"body_text":`, string(s.Body))
	case job.BodyBase64:
		w.text(`,"body_base64":`, base64.StdEncoding.EncodeToString(s.Body))
	}
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
	w.integer(`,"priority":`, s.Priority.Number())
	w.name(`}`)
	return w.b, w.err
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
