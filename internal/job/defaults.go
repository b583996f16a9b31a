package job

import (
	"slices"
	"strings"
)

// Defaults reads only the fields of the draft for which topics have defaults. Errors are those of
// Registration.
func (d *Draft) Defaults(l Bounds) (Defaults, error) {
	var f Findings
	var v Defaults
	for i := range fields {
		if read := fields[i].readDefault; read != nil {
			read(&f, d, &v, l)
		}
	}
	return v, f.Err()
}

// Empty reports whether there is no default.
func (v *Defaults) Empty() bool {
	return !slices.ContainsFunc(fields, func(f field) bool { return f.hasDefault != nil && f.hasDefault(v) })
}

// Apply returns s, read from d, with the fields that d does not set, except the destination. An empty
// retry selects the server's policy. Apply adds headers whose names s lacks, up to
// the limit of a job.
func (v *Defaults) Apply(d *Draft, s Spec) Spec {
	for i := range fields {
		if fill := fields[i].fill; fill != nil {
			fill(v, d, &s)
		}
	}
	return s
}

// addHeaders adds headers whose names s lacks, up to the limit of a job.
func (s *Spec) addHeaders(list []Header) {
	own := s.Headers
	for _, h := range list {
		if !slices.ContainsFunc(own, func(o Header) bool { return o.Name == h.Name }) && len(s.Headers) < MaxHeaders {
			s.Headers = append(s.Headers, h)
		}
	}
	slices.SortFunc(s.Headers, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
}

// AppendKept appends for each field whether the draft gives a value that only keeps the default of a topic
// away, which a Spec does not show.
func (d *Draft) AppendKept(b []byte) []byte {
	for i := range fields {
		switch f := &fields[i]; {
		case !f.mayBeZero:
		case f.given(d):
			b = append(b, '+')
		default:
			b = append(b, '-')
		}
	}
	return b
}
