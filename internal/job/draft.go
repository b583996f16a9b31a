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

// Draft is the registration of a job with the same content. Fields that the job lacks are
// absent, except retry and priority: their values keep the defaults of a topic away.
func (j *Job) Draft() *Draft {
	s := &j.Spec
	d := &Draft{
		Topic: &j.Topic, ID: &j.ID, BizKey: given(s.BizKey), OrderKey: given(s.OrderKey),
		Destination: &s.Destination, Method: new(s.HTTPMethod()),
		At: given(s.When.At), Delay: given(s.When.Delay), Spread: given(s.When.Spread),
		ContentType: given(s.ContentType), Headers: headerMap(s.Headers), Retry: s.Retry,
		Timeout: given(s.Timeout), TTL: given(s.TTL), Expect: given(s.ExpectBody), Labels: labelMap(s.Labels),
		Priority: new(s.Priority.Number()), Callbacks: s.Callbacks.Draft(), Dialect: s.Dialect,
	}
	if s.Destination.Pulled() {
		d.Destination, d.Method, d.Pull = nil, nil, new(true)
	}
	if d.Retry == nil {
		d.Retry = &Retry{}
	}
	if s.BodyForm != BodyNone {
		d.Body = &Body{Form: s.BodyForm, Content: s.Body}
	}
	if c := s.Count; c != nil {
		d.Count = &CountDraft{Target: &c.Target, AtDeadline: new(string(c.AtDeadline))}
		if s.When.At == 0 {
			d.Delay = &s.When.Delay // without one, a counted job has the longest
		}
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
