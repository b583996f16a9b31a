package v1

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// jobField is a field of a registration in JSON. A function is nil where the field does not occur.
type jobField struct {
	name string
	set  func(*job.Draft, decode.Field)
	null func(*job.Draft) // what null means; nil: absent
	// write writes it as a client writes it; nothing if the draft does not give it.
	write func(*jsonio.Writer, *job.Draft)
	// show writes it in the answer about one job, beside what jobjson.WriteJob writes.
	show func(*jsonio.Writer, *job.Spec)
	// topic writes the default in the settings of a topic; nil: topics have none.
	topic func(*jsonio.Writer, *job.Defaults)
}

// jobFields are the fields of registrations, in the order in which answers have them.
var jobFields = []jobField{
	textField{draft: func(d *job.Draft) **string { return &d.Topic }}.named("topic"),
	textField{draft: func(d *job.Draft) **string { return &d.ID }}.named("id"),
	{name: "uid", set: func(d *job.Draft, f decode.Field) { d.UID = f.Text() }},
	textField{
		draft: func(d *job.Draft) **string { return &d.BizKey },
		null:  func(d *job.Draft) { d.NoBizKey = true },
	}.named("biz_key"),
	textField{draft: func(d *job.Draft) **string { return &d.OrderKey }}.named("order_key"),
	{
		name:  "url",
		set:   func(d *job.Draft, f decode.Field) { d.Destination = (*job.Destination)(f.Text()) },
		write: func(w *jsonio.Writer, d *job.Draft) { jsonio.IfGiven("url", (*string)(d.Destination), w.Text) },
		topic: func(w *jsonio.Writer, v *job.Defaults) { w.TextIfAny("url", string(v.Destination)) },
	},
	{
		name:  "pull",
		set:   func(d *job.Draft, f decode.Field) { d.Pull = new(f.Boolean()) },
		write: func(w *jsonio.Writer, d *job.Draft) { jsonio.IfGiven("pull", d.Pull, w.Boolean) },
	},
	textField{draft: func(d *job.Draft) **string { return &d.Group }}.named("group"),
	textField{draft: func(d *job.Draft) **string { return &d.FilterLabel }}.named("filter_label"),
	textField{draft: func(d *job.Draft) **string { return &d.Method }}.named("method"),
	{
		name:  "at",
		set:   func(d *job.Draft, f decode.Field) { d.At = f.Instant() },
		write: func(w *jsonio.Writer, d *job.Draft) { jsonio.IfGiven("at", d.At, w.Instant) },
	},
	durationField{draft: func(d *job.Draft) **time.Duration { return &d.Delay }}.named("delay"),
	{
		name: "body",
		set:  func(d *job.Draft, f decode.Field) { setBody(d, f, job.BodyJSON, f.Raw) },
		write: func(w *jsonio.Writer, d *job.Draft) {
			if d.Body != nil {
				writeBody(w, d.Body) // in any form
			}
		},
	},
	{name: "body_text", set: setBodyText},
	{name: "body_base64", set: setBodyBase64},
	{
		name: "retry",
		set:  func(d *job.Draft, f decode.Field) { d.Retry = retryFields.New(f) },
		write: func(w *jsonio.Writer, d *job.Draft) {
			if d.Retry != nil {
				jsonio.Part(w, "retry", d.Retry, writeRetry)
			}
		},
		show: func(w *jsonio.Writer, s *job.Spec) { jsonio.Part(w, "retry", s.Retry, writeRetry) }, // null: the server's ladder
		topic: func(w *jsonio.Writer, v *job.Defaults) {
			jsonio.Part(w, "retry", v.Retry, func(w *jsonio.Writer, r *job.Retry) {
				w.Member("steps", steps(r.Steps))
				jsonio.Nullable(w, "limit", r.Limit, w.Integer)
			})
		},
	},
	durationField{
		draft: func(d *job.Draft) **time.Duration { return &d.Timeout },
		spec:  func(s *job.Spec) *time.Duration { return &s.Timeout },
		topic: func(v *job.Defaults) *time.Duration { return &v.Timeout },
	}.named("timeout"),
	durationField{
		draft: func(d *job.Draft) **time.Duration { return &d.TTL },
		spec:  func(s *job.Spec) *time.Duration { return &s.TTL },
		topic: func(v *job.Defaults) *time.Duration { return &v.TTL },
	}.named("ttl"),
	{
		name: "expect",
		set: func(d *job.Draft, f decode.Field) {
			expectFields.Into(d, f)
			d.NoExpect = d.Expect == nil
		},
		null:  func(d *job.Draft) { d.NoExpect = true },
		write: func(w *jsonio.Writer, d *job.Draft) { jsonio.IfGiven("expect", d.Expect, expected(w)) },
		show: func(w *jsonio.Writer, s *job.Spec) {
			jsonio.Nullable(w, "expect", orNull(&s.ExpectBody), expected(w))
		},
	},
	textField{
		draft: func(d *job.Draft) **string { return &d.ContentType },
		spec:  func(s *job.Spec) *string { return &s.ContentType },
	}.named("content_type"),
	{
		name: "headers",
		set:  func(d *job.Draft, f decode.Field) { d.Headers = f.Texts() },
		write: func(w *jsonio.Writer, d *job.Draft) {
			if d.Headers != nil {
				w.Member("headers", d.Headers)
			}
		},
		show:  func(w *jsonio.Writer, s *job.Spec) { w.Headers("headers", s.Headers) },
		topic: func(w *jsonio.Writer, v *job.Defaults) { w.Headers("headers", v.Headers) },
	},
	{
		name: "labels",
		set:  func(d *job.Draft, f decode.Field) { d.Labels = f.Texts() },
		write: func(w *jsonio.Writer, d *job.Draft) {
			if d.Labels != nil {
				w.Member("labels", d.Labels)
			}
		},
	},
	{
		name: "count",
		set: func(d *job.Draft, f decode.Field) {
			var count job.CountDraft
			countFields.Into(&count, f)
			if f.Raw[0] == '{' { // otherwise its target would be missed, too
				d.Count = &count
			}
		},
		write: func(w *jsonio.Writer, d *job.Draft) {
			if c := d.Count; c != nil {
				w.In("count", func() { jobjson.WriteCountTerms(w, *c.Target, *c.AtDeadline) })
			}
		},
	},
	{
		name:  "priority",
		set:   func(d *job.Draft, f decode.Field) { d.Priority = f.Integer() },
		write: func(w *jsonio.Writer, d *job.Draft) { jsonio.IfGiven("priority", d.Priority, w.Integer) },
		topic: func(w *jsonio.Writer, v *job.Defaults) {
			if v.Priority == 0 {
				w.Null("priority")
			} else {
				w.Integer("priority", v.Priority.Number())
			}
		},
	},
	durationField{
		draft: func(d *job.Draft) **time.Duration { return &d.Spread },
		topic: func(v *job.Defaults) *time.Duration { return &v.Spread },
	}.named("spread"),
	{
		name: "callbacks",
		set:  func(d *job.Draft, f decode.Field) { d.Callbacks = decodeCallbacks(f) },
		write: func(w *jsonio.Writer, d *job.Draft) {
			if d.Callbacks != nil {
				jsonio.Part(w, "callbacks", d.Callbacks, writeCallbacks)
			}
		},
		show: func(w *jsonio.Writer, s *job.Spec) {
			jsonio.Part(w, "callbacks", s.Callbacks.Draft(), writeCallbacks)
		},
		topic: func(w *jsonio.Writer, v *job.Defaults) {
			if v.Callbacks != nil {
				jsonio.Part(w, "callbacks", v.Callbacks.Draft(), writeCallbacks)
			}
		},
	},
	{name: "on_conflict", set: func(d *job.Draft, f decode.Field) { d.OnConflict = f.Text() }},
}

// textField is where jobs have a field that is a text. An answer about a job shows it if spec is given.
type textField struct {
	draft func(*job.Draft) **string
	null  func(*job.Draft)
	spec  func(*job.Spec) *string
}

func (t textField) named(name string) jobField {
	f := jobField{
		name: name, null: t.null,
		set:   func(d *job.Draft, f decode.Field) { *t.draft(d) = f.Text() },
		write: func(w *jsonio.Writer, d *job.Draft) { jsonio.IfGiven(name, *t.draft(d), w.Text) },
	}
	if t.spec != nil {
		f.show = func(w *jsonio.Writer, s *job.Spec) { w.TextOrNull(name, *t.spec(s)) }
	}
	return f
}

// durationField is a textField that is a duration. The settings of a topic have it if topic is given.
type durationField struct {
	draft func(*job.Draft) **time.Duration
	spec  func(*job.Spec) *time.Duration
	topic func(*job.Defaults) *time.Duration
}

func (t durationField) named(name string) jobField {
	f := jobField{
		name:  name,
		set:   func(d *job.Draft, f decode.Field) { *t.draft(d) = f.Duration() },
		write: func(w *jsonio.Writer, d *job.Draft) { jsonio.IfGiven(name, *t.draft(d), w.Duration) },
	}
	if t.spec != nil {
		f.show = func(w *jsonio.Writer, s *job.Spec) { jsonio.Nullable(w, name, orNull(t.spec(s)), w.Duration) }
	}
	if t.topic != nil {
		f.topic = func(w *jsonio.Writer, v *job.Defaults) { jsonio.Nullable(w, name, orNull(t.topic(v)), w.Duration) }
	}
	return f
}

// draftFields decode a registration or a change.
var draftFields = draftSet()

func draftSet() decode.FieldSet[job.Draft] {
	set, null := map[string]func(*job.Draft, decode.Field){}, map[string]func(*job.Draft){}
	for _, f := range jobFields {
		if set[f.name] = f.set; f.null != nil {
			null[f.name] = f.null
		}
	}
	return decode.NewFieldSet(set).WithNull(null)
}

// writeRegistration writes a draft in the form in which a client writes it, with a JSON body
// byte for byte. Fields that are not given are left out.
func writeRegistration(w *jsonio.Writer, d *job.Draft) {
	for i := range jobFields {
		if write := jobFields[i].write; write != nil {
			write(w, d)
		}
	}
}

// expected writes what an answer must have to count as a delivery.
func expected(w *jsonio.Writer) func(name, body string) {
	return func(name, body string) { w.In(name, func() { w.Text("body", body) }) }
}

// writeDefaults writes the defaults of a topic.
func writeDefaults(w *jsonio.Writer, v *job.Defaults) {
	for i := range jobFields {
		if write := jobFields[i].topic; write != nil {
			write(w, v)
		}
	}
}

// setBody sets the body, whose content may point into the request.
func setBody(d *job.Draft, f decode.Field, form job.BodyForm, content []byte) {
	if d.Body != nil {
		f.Fail("must not be combined with another form of the body")
		return
	}
	d.Body = &job.Body{Form: form, Content: content}
}

func setBodyText(d *job.Draft, f decode.Field) {
	if s := f.Text(); s != nil {
		setBody(d, f, job.BodyText, []byte(*s))
	}
}

var strictBase64 = base64.StdEncoding.Strict()

func setBodyBase64(d *job.Draft, f decode.Field) {
	s := f.Text()
	if s == nil {
		return
	}
	content, err := strictBase64.DecodeString(*s)
	if err != nil || strings.ContainsAny(*s, "\r\n") { // the decoder skips line breaks
		f.Fail("must be base64 (RFC 4648 section 4) with padding and without line breaks")
	}
	setBody(d, f, job.BodyBase64, content)
}
