package job

import (
	"slices"
	"strings"
	"time"
)

// Defaults are values for jobs of a topic that do not set these fields.
type Defaults struct {
	Destination Destination `json:",omitempty"` // of jobs that name none
	Retry       *Retry
	Timeout     time.Duration
	TTL         time.Duration
	Headers     []Header // sorted by name
	Priority    Priority
	Spread      time.Duration
	Callbacks   *Callbacks
}

// Defaults reads only the url, retry, timeout, ttl, headers, priority, spread and callbacks of the
// draft.
// Errors are those of Registration, except that they name priority, as
// topics do.
func (d *Draft) Defaults(l Bounds) (Defaults, error) {
	var f Findings
	v := Defaults{
		Retry:     f.retry(d.Retry),
		Timeout:   f.Duration("timeout", d.Timeout, 0, MinTimeout, l.MaxTimeout),
		TTL:       f.ttl(d),
		Headers:   f.headers(d.Headers),
		Priority:  f.priority("priority", d.Priority),
		Spread:    f.spread(d),
		Callbacks: f.callbacks(d.Callbacks),
	}
	if d.Destination != nil && f.Check("url", d.Destination.Check()) {
		v.Destination = *d.Destination
	}
	return v, f.Err()
}

// Apply fills in the fields of s, read from d, that d does not set, except the destination. An empty
// retry selects the server's policy. Apply adds headers whose names s lacks, up to
// the limit of a job.
func (v *Defaults) Apply(d *Draft, s *Spec) {
	if d.Retry == nil {
		s.Retry = v.Retry
	}
	if s.Timeout == 0 && !s.Destination.Pulled() {
		s.Timeout = v.Timeout
	}
	if s.TTL == 0 {
		s.TTL = v.TTL
	}
	if d.Priority == nil {
		s.Priority = v.Priority
	}
	if d.Callbacks == nil {
		s.Callbacks = v.Callbacks
	}
	if d.Spread == nil {
		s.When.Spread = v.Spread
	}
	own := s.Headers
	for _, h := range v.Headers {
		if !slices.ContainsFunc(own, func(o Header) bool { return o.Name == h.Name }) && len(s.Headers) < MaxHeaders {
			s.Headers = append(s.Headers, h)
		}
	}
	slices.SortFunc(s.Headers, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
}
