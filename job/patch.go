package job

import "strings"

// Patch reads the draft as a change of job j. It returns the new Spec and the new due
// time, or nil if that does not change. Absent fields keep their values; headers,
// labels, retry and expect are replaced as a whole, so {} resets them to none and to
// the server's policy. now only limits "at". Errors are those of Registration. Patch
// does not change j, and does not check whether j may change.
func (d *Draft) Patch(j *Job, l Limits, now Instant) (Spec, *When, error) {
	var f Findings
	f.refuseFixed(d)
	if len(f.fields) == 0 && len(d.Changes()) == 0 {
		f.Add("", "must change something: "+changeable())
	}
	s := j.Spec
	w := f.when(d, now)
	spread := s.When.Spread
	if d.Spread != nil {
		spread = f.spread(d)
		if w == nil {
			f.Add("spread", "must be combined with delay or at")
		}
	}
	if w != nil {
		w.Spread = spread
		s.When = *w
	}
	if d.Destination != nil {
		f.Check("url", d.Destination.Check())
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
	if d.Timeout != nil {
		s.Timeout = f.Duration("timeout", d.Timeout, 0, MinTimeout, l.MaxTimeout)
	}
	if d.TTL != nil {
		s.TTL = f.ttl(d)
	}
	if d.NoExpect {
		s.ExpectBody = ""
	}
	if d.Expect != nil {
		s.ExpectBody = f.expectBody(*d.Expect)
	}
	if d.Labels != nil {
		s.Labels = f.labels("labels", d.Labels)
	}
	if d.Priority != nil {
		s.Priority = f.priority("priority", d.Priority)
	}
	if d.Count != nil {
		s.Count = f.count(d.Count)
	}
	f.patchCallbacks(d, &s)
	f.refuseOfCallback(d, &j.Spec)
	f.body(d, &s, l)
	if err := f.Err(); err != nil {
		return Spec{}, nil, err
	}
	return s, w, nil
}

// refuseFixed refuses the fields of the job's address, its order key, and the ones that
// only a registration has.
func (f *Findings) refuseFixed(d *Draft) {
	fixed := []struct {
		field Field
		given bool
	}{
		{"topic", d.Topic != nil},
		{"id", d.ID != nil},
		{"order_key", d.OrderKey != nil},
		{"on_conflict", d.OnConflict != nil},
		{"group", d.Group != nil},
		{"filter_label", d.FilterLabel != nil},
	}
	for _, field := range fixed {
		if field.given {
			f.Add(field.field, "cannot be changed; cancel the job and register another")
		}
	}
}

// changes are the fields of a change, in the order of the documentation.
var changes = []struct {
	name  string
	given func(d *Draft) bool
}{
	{"delay", func(d *Draft) bool { return d.Delay != nil }},
	{"at", func(d *Draft) bool { return d.At != nil }},
	{"spread", func(d *Draft) bool { return d.Spread != nil }},
	{"url", func(d *Draft) bool { return d.Destination != nil }},
	{"method", func(d *Draft) bool { return d.Method != nil }},
	{"headers", func(d *Draft) bool { return d.Headers != nil }},
	{"body", func(d *Draft) bool { return d.hasBody(BodyJSON) }},
	{"body_text", func(d *Draft) bool { return d.hasBody(BodyText) }},
	{"body_base64", func(d *Draft) bool { return d.hasBody(BodyBase64) }},
	{"content_type", func(d *Draft) bool { return d.ContentType != nil }},
	{"retry", func(d *Draft) bool { return d.Retry != nil }},
	{"timeout", func(d *Draft) bool { return d.Timeout != nil }},
	{"ttl", func(d *Draft) bool { return d.TTL != nil }},
	{"expect", func(d *Draft) bool { return d.Expect != nil || d.NoExpect }},
	{"biz_key", func(d *Draft) bool { return d.BizKey != nil || d.NoBizKey }},
	{"labels", func(d *Draft) bool { return d.Labels != nil }},
	{"priority", func(d *Draft) bool { return d.Priority != nil }},
	{"count", func(d *Draft) bool { return d.Count != nil }},
	{"callbacks", func(d *Draft) bool { return d.Callbacks != nil }},
}

func (d *Draft) hasBody(f BodyForm) bool { return d.Body != nil && d.Body.Form == f }

// Changes lists the fields of a change that the draft sets.
func (d *Draft) Changes() []string {
	var names []string
	for _, c := range changes {
		if c.given(d) {
			names = append(names, c.name)
		}
	}
	return names
}

// Empty reports whether the draft sets no field.
func (d *Draft) Empty() bool {
	return d.Topic == nil && d.ID == nil && d.OnConflict == nil && d.OrderKey == nil && d.Group == nil && d.FilterLabel == nil &&
		len(d.Changes()) == 0
}

func changeable() string {
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.name
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
