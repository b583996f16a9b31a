package job

import (
	"slices"
	"strings"
	"time"
)

// Defaults are what the jobs of a topic are registered with if they do not say
// otherwise themselves.
type Defaults struct {
	Retry    *Retry
	Timeout  time.Duration
	TTL      time.Duration
	Headers  []Header // sorted by name
	Priority Priority
}

// Defaults reads what the draft says of retry, timeout, ttl, headers and
// priority, and nothing else. Errors are those of Registration, but name
// job_priority, as topics do.
func (d *Draft) Defaults(l Limits) (Defaults, error) {
	var f findings
	v := Defaults{
		Retry:    f.retry(d.Retry),
		Timeout:  f.duration("timeout", d.Timeout, MinTimeout, l.MaxTimeout),
		TTL:      f.ttl(d),
		Headers:  f.headers(d.Headers),
		Priority: f.priority("job_priority", d.Priority),
	}
	return v, f.err()
}

// Apply gives s, which was read from d, what d leaves open. An empty retry asks
// for the server's policy. Of headers, those of names that s lacks are added, as
// long as there are no more than a job may have.
func (v *Defaults) Apply(d *Draft, s *Spec) {
	if d.Retry == nil {
		s.Retry = v.Retry
	}
	if s.Timeout == 0 {
		s.Timeout = v.Timeout
	}
	if s.TTL == 0 {
		s.TTL = v.TTL
	}
	if d.Priority == nil {
		s.Priority = v.Priority
	}
	own := s.Headers
	for _, h := range v.Headers {
		if !slices.ContainsFunc(own, func(o Header) bool { return o.Name == h.Name }) && len(s.Headers) < MaxHeaders {
			s.Headers = append(s.Headers, h)
		}
	}
	slices.SortFunc(s.Headers, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
}
