package job

import "strings"

// Patch reads the draft as a change of job j: the Spec that it will have, and
// when it is to be due, or nil if that stays. Fields that are absent stay as
// they are; headers, labels, retry and expect are replaced whole, so that {} takes
// them back to none and to the server's policy. now serves only to see how far ahead "at"
// is. Errors are those of Registration. j itself is not changed, nor is it
// asked whether it may be.
func (d *Draft) Patch(j *Job, l Limits, now Instant) (Spec, *When, error) {
	var f findings
	f.refuseFixed(d)
	if len(f.fields) == 0 && len(d.Changes()) == 0 {
		f.add("", "must change something: "+changeable())
	}
	s := j.Spec
	w := f.when(d, now)
	if w != nil {
		s.When = *w
	}
	if d.Destination != nil {
		f.check("url", d.Destination.Check())
		s.Destination = *d.Destination
	}
	if d.BizKey != nil || d.NoBizKey {
		s.BizKey = f.name("biz_key", d.BizKey, "")
	}
	if d.Method != nil {
		s.Method = f.method(d.Method)
	}
	if d.Headers != nil {
		s.Headers = f.headers(d.Headers)
	}
	if d.Retry != nil {
		s.Retry = f.retry(d.Retry)
	}
	if given(d.Timeout) {
		s.Timeout = f.duration("timeout", d.Timeout, MinTimeout, l.MaxTimeout)
	}
	if given(d.TTL) {
		s.TTL = f.ttl(d)
	}
	if d.NoExpect {
		s.ExpectBody = ""
	}
	if d.Expect != nil {
		s.ExpectBody = f.expectBody(d.Expect.Body)
	}
	if d.Labels != nil {
		s.Labels = f.labels("labels", d.Labels)
	}
	if d.Priority != nil {
		s.Priority = f.priority("priority", d.Priority)
	}
	f.body(d, &s, l)
	if err := f.err(); err != nil {
		return Spec{}, nil, err
	}
	return s, w, nil
}

// refuseFixed refuses the fields that address the job, and that of its
// registration only.
func (f *findings) refuseFixed(d *Draft) {
	fixed := []struct {
		field Field
		given bool
	}{
		{"topic", d.Topic != nil},
		{"id", d.ID != nil},
		{"on_conflict", d.OnConflict != nil},
	}
	for _, field := range fixed {
		if field.given {
			f.add(field.field, "cannot be changed; cancel the job and register another")
		}
	}
}

// changes are the fields that a change may have, in the order of the documents.
var changes = []struct {
	name  string
	given func(d *Draft) bool
}{
	{"delay", func(d *Draft) bool { return given(d.Delay) }},
	{"at", func(d *Draft) bool { return given(d.At) }},
	{"url", func(d *Draft) bool { return d.Destination != nil }},
	{"method", func(d *Draft) bool { return d.Method != nil }},
	{"headers", func(d *Draft) bool { return d.Headers != nil }},
	{"body", func(d *Draft) bool { return given(d.Body) }},
	{"body_text", func(d *Draft) bool { return d.BodyText != nil }},
	{"body_base64", func(d *Draft) bool { return d.BodyBase64 != nil }},
	{"content_type", func(d *Draft) bool { return d.ContentType != nil }},
	{"retry", func(d *Draft) bool { return d.Retry != nil }},
	{"timeout", func(d *Draft) bool { return given(d.Timeout) }},
	{"ttl", func(d *Draft) bool { return given(d.TTL) }},
	{"expect", func(d *Draft) bool { return d.Expect != nil || d.NoExpect }},
	{"biz_key", func(d *Draft) bool { return d.BizKey != nil || d.NoBizKey }},
	{"labels", func(d *Draft) bool { return d.Labels != nil }},
	{"priority", func(d *Draft) bool { return d.Priority != nil }},
}

// Changes names the fields of a change that the draft gives.
func (d *Draft) Changes() []string {
	var names []string
	for _, c := range changes {
		if c.given(d) {
			names = append(names, c.name)
		}
	}
	return names
}

// Empty reports whether the draft gives no field at all.
func (d *Draft) Empty() bool {
	return d.Topic == nil && d.ID == nil && d.OnConflict == nil && len(d.Changes()) == 0
}

func changeable() string {
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.name
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
