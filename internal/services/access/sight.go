package access

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/successors"
)

// Sight is what the caller of a request may see. The zero value sees everything; it is that of the
// node itself, and of callers where no keys are required.
//
// Whatever hands jobs, schedules, groups, topics or rules to callers passes them through the Sight of
// the context, so that no front decides what to show. Secrets are where registrations put them: the
// queries of URLs, the values of headers, and bodies. Answers of receivers are shown as in the log.
// A Sight copies what it changes.
type Sight struct {
	masks   bool
	cursors *cursors // nil: cursors are shown
}

type sightKey struct{}

// See returns a context whose calls hand out what a caller may see.
func (k *Keys) See(ctx context.Context, p Principal) context.Context {
	s := Sight{masks: !p.Scope.includes(Write)}
	if len(p.Topics) > 0 {
		s.cursors = k.cursors
	}
	return context.WithValue(ctx, sightKey{}, s)
}

// SightOf is the Sight of a context.
func SightOf(ctx context.Context) Sight {
	s, _ := ctx.Value(sightKey{}).(Sight)
	return s
}

// Text shows a text that may quote URLs or tokens.
func (s Sight) Text(text string) string {
	if s.masks {
		text = Redact(text)
	}
	return text
}

// URL shows a URL of a valid job or rule.
func (s Sight) URL(url job.Destination) job.Destination {
	if at := strings.IndexAny(string(url), "?#"); s.masks && at >= 0 {
		return url[:at+1] + hidden
	}
	return url
}

func (s Sight) url(url *job.Destination) *job.Destination {
	if url == nil {
		return nil
	}
	return new(s.URL(*url))
}

// Headers shows headers of requests.
func (s Sight) Headers(list []job.Header) []job.Header {
	if !s.masks {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Value = hidden
	}
	return list
}

func (s Sight) drafted(headers map[string]string) map[string]string {
	if !s.masks {
		return headers
	}
	headers = maps.Clone(headers)
	for name := range headers {
		headers[name] = hidden
	}
	return headers
}

// body shows the body of a request. A JSON body stays one.
func (s Sight) body(body []byte, form job.BodyForm) []byte {
	switch {
	case !s.masks || len(body) == 0:
		return body
	case form == job.BodyJSON:
		return []byte(`"` + hidden + `"`)
	}
	return []byte(hidden)
}

func (s Sight) callbacks(c *job.Callbacks) *job.Callbacks {
	if !s.masks || c == nil {
		return c
	}
	shown := *c
	shown.By = maps.Clone(c.By)
	for event, to := range c.By {
		callback := *to
		callback.Destination, callback.Headers = s.URL(to.Destination), s.Headers(to.Headers)
		shown.By[event] = &callback
	}
	return &shown
}

// Draft shows the job of a schedule.
func (s Sight) Draft(d *job.Draft) {
	if !s.masks {
		return
	}
	d.Destination, d.Headers = s.url(d.Destination), s.drafted(d.Headers)
	if d.Body != nil {
		d.Body = &job.Body{Form: d.Body.Form, Content: s.body(d.Body.Content, d.Body.Form)}
	}
	if c := d.Callbacks; c != nil {
		shown := *c
		shown.On = maps.Clone(c.On)
		for event, to := range c.On {
			callback := *to
			callback.Destination, callback.Headers = s.url(to.Destination), s.drafted(to.Headers)
			shown.On[event] = &callback
		}
		d.Callbacks = &shown
	}
}

// Defaults shows the defaults of a topic.
func (s Sight) Defaults(d *job.Defaults) {
	d.Destination, d.Headers, d.Callbacks = s.URL(d.Destination), s.Headers(d.Headers), s.callbacks(d.Callbacks)
}

// Attempt shows an attempt.
func (s Sight) Attempt(a *job.Attempt) {
	if !s.masks {
		return
	}
	a.ResponseBody, a.ResponseHeaders = Redact(a.ResponseBody), slices.Clone(a.ResponseHeaders)
	for i := range a.ResponseHeaders {
		h := &a.ResponseHeaders[i]
		switch h.Value = Redact(h.Value); strings.ToLower(h.Name) {
		case "location", "content-location", "refresh", "link": // a URL may be relative
			if end := strings.IndexAny(h.Value, "?#"); end >= 0 {
				h.Value = h.Value[:end+1] + hidden
			}
		}
	}
}

// Job shows a job. The report of a callback stays one.
func (s Sight) Job(j *job.Job) {
	if !s.masks {
		return
	}
	spec := &j.Spec
	spec.Destination, spec.Headers, spec.Callbacks = s.URL(spec.Destination), s.Headers(spec.Headers), s.callbacks(spec.Callbacks)
	if a := j.LastAttempt; a != nil {
		shown := *a
		s.Attempt(&shown)
		j.LastAttempt = &shown
	}
	report, err := job.Report{}, error(nil)
	if spec.Reports != "" {
		report, err = successors.Report(j)
	}
	if spec.Reports == "" || err != nil {
		spec.Body = s.body(spec.Body, spec.BodyForm)
		return
	}
	s.Job(&report.Job)
	if report.Response != nil {
		report.Response = &job.Response{Body: []byte(hidden)}
	}
	successors.SetReport(spec, &report)
}
