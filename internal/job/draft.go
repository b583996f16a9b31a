package job

import (
	"cmp"
	"time"
)

// Draft is a registration or a change of a job as a client asks for it. A nil field
// was not given. Fronts decode it; Registration, Patch and Defaults validate it.
type Draft struct {
	Topic       *string
	ID          *string
	UID         *string // that the job had in another store
	BizKey      *string
	OrderKey    *string
	Destination *Destination
	Pull        *bool   // instead of Destination: consumers fetch the job
	Group       *string // instead of Destination: a job for each of its members
	FilterLabel *string // only for members with this label
	Method      *string
	Delay       *time.Duration // or At
	At          *Instant
	Spread      *time.Duration
	Body        *Body
	ContentType *string
	Headers     map[string]string
	Retry       *Retry // an empty one asks for the server's policy
	Timeout     *time.Duration
	TTL         *time.Duration
	Expect      *string // the body of a successful answer
	OnConflict  *string
	Labels      map[string]string
	Priority    *int
	Count       *CountDraft
	Callbacks   *CallbacksDraft
	Dialect     *Dialect

	// NoBizKey and NoExpect remove these fields in a change.
	NoBizKey bool
	NoExpect bool
}

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

// fields are all fields of a registration. Those that a change may set are in the order of the documentation.
var fields = []field{
	{name: "topic", fixed: true, given: func(d *Draft) bool { return d.Topic != nil }},
	{name: "id", fixed: true, given: func(d *Draft) bool { return d.ID != nil }},
	{name: "uid", fixed: true, given: func(d *Draft) bool { return d.UID != nil }},
	value[string, string]{
		fixed: true,
		draft: func(d *Draft) **string { return &d.OrderKey },
		spec:  func(s *Spec) *string { return &s.OrderKey },
		check: func(f *Findings, v *string, _ *Spec, _ Bounds) string { return f.name("order_key", v, "") },
		back:  given[string],
	}.field("order_key"),
	{name: "on_conflict", fixed: true, given: func(d *Draft) bool { return d.OnConflict != nil }},
	{name: "group", fixed: true, push: true, given: func(d *Draft) bool { return d.Group != nil }},
	{name: "filter_label", fixed: true, push: true, given: func(d *Draft) bool { return d.FilterLabel != nil }},
	{name: "pull", fixed: true, given: func(d *Draft) bool { return d.Pull != nil }},
	{name: "delay", given: func(d *Draft) bool { return d.Delay != nil }},
	{name: "at", given: func(d *Draft) bool { return d.At != nil }},
	{
		name: "url", push: true, given: func(d *Draft) bool { return d.Destination != nil },
		readDefault: func(f *Findings, d *Draft, v *Defaults, _ Bounds) {
			if d.Destination != nil && f.Check("url", d.Destination.Check()) {
				v.Destination = *d.Destination
			}
		},
		hasDefault: func(v *Defaults) bool { return v.Destination != "" },
	},
	value[string, string]{
		push:  true,
		draft: func(d *Draft) **string { return &d.Method },
		spec:  func(s *Spec) *string { return &s.Method },
		check: func(f *Findings, v *string, _ *Spec, _ Bounds) string { return f.method(v) },
		back:  func(m string) *string { return new(cmp.Or(m, Methods[0])) },
	}.field("method"),
	{
		name: "headers", given: func(d *Draft) bool { return d.Headers != nil },
		set: func(f *Findings, d *Draft, s *Spec, _ Bounds) {
			if d.Headers != nil {
				s.Headers = f.headers(d.Headers)
			}
		},
		draw:        func(d *Draft, s *Spec) { d.Headers = headerMap(s.Headers) },
		readDefault: func(f *Findings, d *Draft, v *Defaults, _ Bounds) { v.Headers = f.headers(d.Headers) },
		hasDefault:  func(v *Defaults) bool { return len(v.Headers) > 0 },
		fill:        func(v *Defaults, _ *Draft, s *Spec) { s.addHeaders(v.Headers) },
	},
	{name: "body", given: func(d *Draft) bool { return d.hasBody(BodyJSON) }},
	{name: "body_text", given: func(d *Draft) bool { return d.hasBody(BodyText) }},
	{name: "body_base64", given: func(d *Draft) bool { return d.hasBody(BodyBase64) }},
	{
		name: "content_type", given: func(d *Draft) bool { return d.ContentType != nil },
		draw: func(d *Draft, s *Spec) { d.ContentType = given(s.ContentType) },
	},
	value[Retry, *Retry]{
		mayBeZero: true, // the server's policy
		draft:     func(d *Draft) **Retry { return &d.Retry },
		spec:      func(s *Spec) **Retry { return &s.Retry },
		topic:     func(v *Defaults) **Retry { return &v.Retry },
		check:     (*Findings).retryOf,
		back:      func(r *Retry) *Retry { return cmp.Or(r, &Retry{}) },
	}.field("retry"),
	value[time.Duration, time.Duration]{
		push:  true,
		draft: func(d *Draft) **time.Duration { return &d.Timeout },
		spec:  func(s *Spec) *time.Duration { return &s.Timeout },
		topic: func(v *Defaults) *time.Duration { return &v.Timeout },
		check: func(f *Findings, v *time.Duration, _ *Spec, l Bounds) time.Duration {
			return f.Duration("timeout", v, 0, MinTimeout, l.MaxTimeout)
		},
		back: given[time.Duration],
	}.field("timeout"),
	value[time.Duration, time.Duration]{
		draft: func(d *Draft) **time.Duration { return &d.TTL },
		spec:  func(s *Spec) *time.Duration { return &s.TTL },
		topic: func(v *Defaults) *time.Duration { return &v.TTL },
		check: func(f *Findings, v *time.Duration, _ *Spec, _ Bounds) time.Duration {
			return f.Duration("ttl", v, 0, time.Millisecond, MaxTTL)
		},
		back: given[time.Duration],
	}.field("ttl"),
	value[string, string]{
		push:   true,
		draft:  func(d *Draft) **string { return &d.Expect },
		remove: func(d *Draft) bool { return d.NoExpect },
		spec:   func(s *Spec) *string { return &s.ExpectBody },
		check:  func(f *Findings, v *string, _ *Spec, _ Bounds) string { return f.expectBody(*v) },
		back:   given[string],
	}.field("expect"),
	value[string, string]{
		draft:  func(d *Draft) **string { return &d.BizKey },
		remove: func(d *Draft) bool { return d.NoBizKey },
		spec:   func(s *Spec) *string { return &s.BizKey },
		check:  func(f *Findings, v *string, _ *Spec, _ Bounds) string { return f.name("biz_key", v, "") },
		back:   given[string],
	}.field("biz_key"),
	{
		name: "labels", given: func(d *Draft) bool { return d.Labels != nil },
		set: func(f *Findings, d *Draft, s *Spec, _ Bounds) {
			if d.Labels != nil {
				s.Labels = f.labels("labels", d.Labels)
			}
		},
		draw: func(d *Draft, s *Spec) { d.Labels = labelMap(s.Labels) },
	},
	value[int, Priority]{
		mayBeZero: true, // the default priority
		draft:     func(d *Draft) **int { return &d.Priority },
		spec:      func(s *Spec) *Priority { return &s.Priority },
		topic:     func(v *Defaults) *Priority { return &v.Priority },
		check:     func(f *Findings, v *int, _ *Spec, _ Bounds) Priority { return f.priority("priority", v) },
		back:      func(p Priority) *int { return new(p.Number()) },
	}.field("priority"),
	value[CountDraft, *Count]{
		draft: func(d *Draft) **CountDraft { return &d.Count },
		spec:  func(s *Spec) **Count { return &s.Count },
		check: func(f *Findings, v *CountDraft, _ *Spec, _ Bounds) *Count { return f.count(v) },
		back:  (*Count).draft,
	}.field("count"),
	value[CallbacksDraft, *Callbacks]{
		mayBeZero: true, // none
		draft:     func(d *Draft) **CallbacksDraft { return &d.Callbacks },
		spec:      func(s *Spec) **Callbacks { return &s.Callbacks },
		topic:     func(v *Defaults) **Callbacks { return &v.Callbacks },
		check:     (*Findings).callbacksOf,
		back:      (*Callbacks).Draft,
	}.field("callbacks"),
	value[time.Duration, time.Duration]{
		mayBeZero: true, // due at once
		draft:     func(d *Draft) **time.Duration { return &d.Spread },
		spec:      func(s *Spec) *time.Duration { return &s.When.Spread },
		topic:     func(v *Defaults) *time.Duration { return &v.Spread },
		check: func(f *Findings, v *time.Duration, _ *Spec, _ Bounds) time.Duration {
			return f.Duration("spread", v, 0, 0, MaxSpread)
		},
		back: given[time.Duration],
	}.field("spread"),
}

// Draft is the registration of a job with the same content. Fields that the job lacks are
// absent, except retry and priority: their values keep the defaults of a topic away.
func (j *Job) Draft() *Draft {
	s := &j.Spec
	d := &Draft{
		Topic: &j.Topic, ID: &j.ID, Destination: &s.Destination,
		At: given(s.When.At), Delay: given(s.When.Delay), Dialect: s.Dialect,
	}
	for i := range fields {
		if draw := fields[i].draw; draw != nil {
			draw(d, s)
		}
	}
	if s.Destination.Pulled() {
		d.Destination, d.Method, d.Pull = nil, nil, new(true)
	}
	if s.BodyForm != BodyNone {
		d.Body = &Body{Form: s.BodyForm, Content: s.Body}
	}
	if s.Count != nil && s.When.At == 0 {
		d.Delay = &s.When.Delay // without one, a counted job has the longest
	}
	return d
}

// given is nil for a zero value.
func given[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

func headerMap(list []Header) map[string]string {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]string, len(list))
	for _, h := range list {
		m[h.Name] = h.Value
	}
	return m
}

func labelMap(list []Label) map[string]string {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]string, len(list))
	for _, l := range list {
		m[l.Key] = l.Value
	}
	return m
}

// Body is the body of a job in the form in which the client gave it. The content of
// the form BodyJSON is one JSON value in UTF-8; the front checks it.
type Body struct {
	Form    BodyForm
	Content []byte
}

// Bounds are the settings that bound drafts: sizes and times. Those of topics are store.Limits.
type Bounds struct {
	MaxBody    int           // bytes of the job's body
	MaxTimeout time.Duration // of one attempt
}

// WithDefaults replaces limits that are zero: 256 KiB and a minute.
func (l Bounds) WithDefaults() Bounds {
	return Bounds{cmp.Or(l.MaxBody, 256<<10), cmp.Or(l.MaxTimeout, time.Minute)}
}
