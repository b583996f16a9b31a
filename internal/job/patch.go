package job

import (
	"slices"
	"strings"
)

// Patch reads the draft as a change of job j. It returns the new Spec and the new due
// time, or nil if that does not change. Absent fields keep their values; headers,
// labels, retry and expect are replaced as a whole, so {} resets them to none and to
// the server's policy. now only limits "at". Errors are those of Registration. Patch
// does not change j, and does not check whether j may change.
func (d *Draft) Patch(j *Job, l Bounds, now Instant) (Spec, *When, error) {
	var f Findings
	for _, name := range d.given(func(one *field) bool { return one.fixed }) {
		f.Add(name, "cannot be changed; cancel the job and register another")
	}
	if len(f.fields) == 0 && len(d.Changes()) == 0 {
		f.Add("", "must change something: "+enumerate(changes()))
	}
	if j.Spec.Reports != "" {
		for _, field := range d.Given("body", "body_text", "body_base64", "content_type", "callbacks") {
			f.Add(field, "cannot be changed: the job is a callback")
		}
	}
	if j.Spec.Destination.Pulled() {
		f.pushFields(d)
	}
	s := j.Spec
	w := f.when(d, now)
	if w != nil {
		w.Spread = s.When.Spread
		s.When = *w
	} else if d.Spread != nil {
		f.Add("spread", "must be combined with delay or at")
	}
	if d.Destination != nil && !j.Spec.Destination.Pulled() {
		f.Check("url", d.Destination.Check())
		s.Destination = *d.Destination
	}
	f.content(d, &s, l)
	if err := f.Err(); err != nil {
		return Spec{}, nil, err
	}
	if w != nil {
		w.Spread = s.When.Spread
	}
	return s, w, nil
}

// changes are the fields that a change may set.
func changes() (names []Field) {
	for i := range fields {
		if !fields[i].fixed {
			names = append(names, fields[i].name)
		}
	}
	return names
}

func (d *Draft) hasBody(f BodyForm) bool { return d.Body != nil && d.Body.Form == f }

// given returns the fields that the draft sets and which selects.
func (d *Draft) given(which func(*field) bool) (names []Field) {
	for i := range fields {
		if f := &fields[i]; which(f) && f.given(d) {
			names = append(names, f.name)
		}
	}
	return names
}

// Given returns the fields among some that the draft sets.
func (d *Draft) Given(some ...Field) []Field {
	return d.given(func(f *field) bool { return slices.Contains(some, f.name) })
}

// Changes returns the fields of a change that the draft sets.
func (d *Draft) Changes() []Field { return d.given(func(f *field) bool { return !f.fixed }) }

// Empty reports whether the draft sets no field.
func (d *Draft) Empty() bool { return d.given(func(*field) bool { return true }) == nil }

// enumerate is "a, b or c".
func enumerate[T ~string](names []T) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = string(name)
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}
