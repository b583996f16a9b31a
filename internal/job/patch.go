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
	for _, field := range d.Given("topic", "id", "uid", "order_key", "on_conflict", "group", "filter_label", "pull") {
		f.Add(field, "cannot be changed; cancel the job and register another")
	}
	if len(f.fields) == 0 && len(d.Changes()) == 0 {
		f.Add("", "must change something: "+enumerate(changes))
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
	if d.Destination != nil && !j.Spec.Destination.Pulled() {
		f.Check("url", d.Destination.Check())
		s.Destination = *d.Destination
	}
	f.content(d, &s, l)
	if err := f.Err(); err != nil {
		return Spec{}, nil, err
	}
	return s, w, nil
}

// changes are the fields of a change, in the order of the documentation.
var changes = []Field{
	"delay", "at", "spread", "url", "method", "headers", "body", "body_text", "body_base64", "content_type",
	"retry", "timeout", "ttl", "expect", "biz_key", "labels", "priority", "count", "callbacks",
}

// gives reports for each field whether a draft sets it.
var gives = map[Field]func(d *Draft) bool{
	"topic":        func(d *Draft) bool { return d.Topic != nil },
	"id":           func(d *Draft) bool { return d.ID != nil },
	"uid":          func(d *Draft) bool { return d.UID != nil },
	"order_key":    func(d *Draft) bool { return d.OrderKey != nil },
	"on_conflict":  func(d *Draft) bool { return d.OnConflict != nil },
	"group":        func(d *Draft) bool { return d.Group != nil },
	"filter_label": func(d *Draft) bool { return d.FilterLabel != nil },
	"pull":         func(d *Draft) bool { return d.Pull != nil },
	"delay":        func(d *Draft) bool { return d.Delay != nil },
	"at":           func(d *Draft) bool { return d.At != nil },
	"spread":       func(d *Draft) bool { return d.Spread != nil },
	"url":          func(d *Draft) bool { return d.Destination != nil },
	"method":       func(d *Draft) bool { return d.Method != nil },
	"headers":      func(d *Draft) bool { return d.Headers != nil },
	"body":         func(d *Draft) bool { return d.hasBody(BodyJSON) },
	"body_text":    func(d *Draft) bool { return d.hasBody(BodyText) },
	"body_base64":  func(d *Draft) bool { return d.hasBody(BodyBase64) },
	"content_type": func(d *Draft) bool { return d.ContentType != nil },
	"retry":        func(d *Draft) bool { return d.Retry != nil },
	"timeout":      func(d *Draft) bool { return d.Timeout != nil },
	"ttl":          func(d *Draft) bool { return d.TTL != nil },
	"expect":       func(d *Draft) bool { return d.Expect != nil || d.NoExpect },
	"biz_key":      func(d *Draft) bool { return d.BizKey != nil || d.NoBizKey },
	"labels":       func(d *Draft) bool { return d.Labels != nil },
	"priority":     func(d *Draft) bool { return d.Priority != nil },
	"count":        func(d *Draft) bool { return d.Count != nil },
	"callbacks":    func(d *Draft) bool { return d.Callbacks != nil },
}

func (d *Draft) hasBody(f BodyForm) bool { return d.Body != nil && d.Body.Form == f }

// Given returns the fields among some that the draft sets.
func (d *Draft) Given(some ...Field) []Field {
	return slices.DeleteFunc(slices.Clone(some), func(field Field) bool { return !gives[field](d) })
}

// Changes returns the fields of a change that the draft sets.
func (d *Draft) Changes() []Field { return d.Given(changes...) }

// Empty reports whether the draft sets no field.
func (d *Draft) Empty() bool {
	for _, sets := range gives {
		if sets(d) {
			return false
		}
	}
	return true
}

// enumerate is "a, b or c".
func enumerate[T ~string](names []T) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = string(name)
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}
