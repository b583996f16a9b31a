package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

var limits = job.Bounds{MaxBody: 64, MaxTimeout: time.Minute}

func draft(t testing.TB, doc string) *job.Draft {
	t.Helper()
	var d taggedDraft
	if err := json.Unmarshal([]byte(doc), &d); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return d.draft()
}

// taggedDraft is a job.Draft by the names of the HTTP API.
type taggedDraft struct {
	Topic       *string           `json:"topic"`
	ID          *string           `json:"id"`
	BizKey      *string           `json:"biz_key"`
	Destination *job.Destination  `json:"url"`
	Method      *string           `json:"method"`
	Delay       *jsonDuration     `json:"delay"`
	At          *jsonInstant      `json:"at"`
	Body        json.RawMessage   `json:"body"`
	BodyText    *string           `json:"body_text"`
	BodyBase64  *[]byte           `json:"body_base64"`
	ContentType *string           `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Retry       *struct {
		Steps []jsonDuration `json:"steps"`
		Limit *int           `json:"limit"`
	} `json:"retry"`
	Timeout *jsonDuration `json:"timeout"`
	TTL     *jsonDuration `json:"ttl"`
	Spread  *jsonDuration `json:"spread"`
	Expect  *struct {
		Body *string `json:"body"`
	} `json:"expect"`
	OnConflict *string           `json:"on_conflict"`
	Labels     map[string]string `json:"labels"`
	Priority   *int              `json:"priority"`

	NoBizKey bool `json:"no_biz_key"`
	NoExpect bool `json:"no_expect"`
}

func (d *taggedDraft) draft() *job.Draft {
	to := &job.Draft{
		Topic: d.Topic, ID: d.ID, BizKey: d.BizKey, Destination: d.Destination, Method: d.Method,
		Delay: (*time.Duration)(d.Delay), At: (*job.Instant)(d.At), ContentType: d.ContentType, Headers: d.Headers,
		Timeout: (*time.Duration)(d.Timeout), TTL: (*time.Duration)(d.TTL), Spread: (*time.Duration)(d.Spread),
		OnConflict: d.OnConflict, Labels: d.Labels, Priority: d.Priority, NoBizKey: d.NoBizKey, NoExpect: d.NoExpect,
	}
	switch {
	case d.Body != nil && string(d.Body) != "null":
		to.Body = &job.Body{Form: job.BodyJSON, Content: d.Body}
	case d.BodyText != nil:
		to.Body = &job.Body{Form: job.BodyText, Content: []byte(*d.BodyText)}
	case d.BodyBase64 != nil:
		to.Body = &job.Body{Form: job.BodyBase64, Content: *d.BodyBase64}
	}
	if d.Retry != nil {
		to.Retry = &job.Retry{Limit: d.Retry.Limit}
		if d.Retry.Steps != nil {
			to.Retry.Steps = []time.Duration{}
		}
		for _, step := range d.Retry.Steps {
			to.Retry.Steps = append(to.Retry.Steps, time.Duration(step))
		}
	}
	if d.Expect != nil {
		to.Expect, to.NoExpect = d.Expect.Body, d.Expect.Body == nil
	}
	return to
}

// jsonDuration is a duration as a JSON string, or as a number of seconds, which may be
// negative here.
type jsonDuration time.Duration

func (d *jsonDuration) UnmarshalJSON(raw []byte) error {
	var seconds int64
	if err := json.Unmarshal(raw, &seconds); err == nil {
		*d = jsonDuration(seconds) * jsonDuration(time.Second)
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	parsed, err := job.ParseDuration(s)
	*d = jsonDuration(parsed)
	return err
}

// jsonInstant is a time as a JSON string, or as Unix time.
type jsonInstant job.Instant

func (i *jsonInstant) UnmarshalJSON(raw []byte) error {
	parsed, err := job.ParseUnix(string(raw))
	var s string
	if json.Unmarshal(raw, &s) == nil {
		parsed, err = job.ParseTime(s)
	}
	*i = jsonInstant(parsed)
	return err
}

func TestRegistration(t *testing.T) {
	tests := []struct {
		name, doc string
		want      job.Request
	}{
		{"only a URL", `{"url":"http://shop.example"}`, job.Request{
			Key: job.Key{Topic: "default"}, OnConflict: job.ConflictReject,
			Spec: job.Spec{Destination: "http://shop.example"},
		}},
		{"everything", `{
			"topic":"order-timeout","id":"order-8812","biz_key":"8812","url":"https://shop.example/hooks/timeout?a=b%20c",
			"method":"PUT","delay":"30m","body":{"order_id": 8812},"content_type":"application/cloudevents+json",
			"headers":{"x-tenant":"acme","Authorization":"Bearer x","x-empty":"","X-A":"grüße\t!"},
			"retry":{"steps":["15s",180,"PT10M"],"limit":5},"timeout":"1500ms","ttl":7200,
			"expect":{"body":" success\n"},"on_conflict":"replace","labels":{"shop":"7","env.x_1-":"größe: 1","a":""},"priority":9}`, job.Request{
			Key: job.Key{Topic: "order-timeout", ID: "order-8812"}, OnConflict: job.ConflictReplace,
			Spec: job.Spec{
				Destination: "https://shop.example/hooks/timeout?a=b%20c", Method: "PUT", BizKey: "8812",
				ContentType: "application/cloudevents+json",
				Headers: []job.Header{
					{Name: "Authorization", Value: "Bearer x"},
					{Name: "X-A", Value: "grüße\t!"},
					{Name: "X-Empty"},
					{Name: "X-Tenant", Value: "acme"},
				},
				Body: []byte(`{"order_id": 8812}`), BodyForm: job.BodyJSON,
				When:    job.When{Delay: 30 * time.Minute},
				Retry:   &job.Retry{Steps: []time.Duration{15 * time.Second, 3 * time.Minute, 10 * time.Minute}, Limit: ptr(5)},
				Timeout: 1500 * time.Millisecond, TTL: 2 * time.Hour, ExpectBody: "success",
				Labels:   []job.Label{{Key: "a"}, {Key: "env.x_1-", Value: "größe: 1"}, {Key: "shop", Value: "7"}},
				Priority: 9,
			},
		}},
		{"null is absent", `{"url":"http://a","topic":null,"id":null,"biz_key":null,"method":null,"delay":null,"at":null,
			"body":null,"body_text":null,"body_base64":null,"content_type":null,"headers":null,"retry":null,
			"timeout":null,"ttl":null,"expect":null,"on_conflict":null,"labels":null,"priority":null}`, job.Request{
			Key: job.Key{Topic: "default"}, OnConflict: job.ConflictReject, Spec: job.Spec{Destination: "http://a"},
		}},
		{"empty groups say nothing", `{"url":"http://a","method":"POST","headers":{},"retry":{"steps":null},"expect":{"body":null},"on_conflict":"ignore"}`, job.Request{
			Key: job.Key{Topic: "default"}, OnConflict: job.ConflictIgnore, Spec: job.Spec{Destination: "http://a"},
		}},
		{"the usual priority", `{"url":"http://a","priority":5}`, job.Request{
			Key: job.Key{Topic: "default"}, OnConflict: job.ConflictReject, Spec: job.Spec{Destination: "http://a"},
		}},
		{"retry by limit only", `{"url":"http://a","retry":{"limit":0}}`, job.Request{
			Key: job.Key{Topic: "default"}, OnConflict: job.ConflictReject,
			Spec: job.Spec{Destination: "http://a", Retry: &job.Retry{Limit: ptr(0)}},
		}},
		{"text", `{"url":"http://a","body_text":"päid"}`, withBody(job.BodyText, "päid", "text/plain; charset=utf-8")},
		{"empty text", `{"url":"http://a","body_text":""}`, withBody(job.BodyText, "", "text/plain; charset=utf-8")},
		{"base64", `{"url":"http://a","body_base64":"AP8="}`, withBody(job.BodyBase64, "\x00\xff", "application/octet-stream")},
		{"text of a type", `{"url":"http://a","body_text":"<a/>","content_type":"text/xml; charset=\"utf-8\""}`, withBody(job.BodyText, "<a/>", `text/xml; charset="utf-8"`)},
		{"JSON of any kind", `{"url":"http://a","body":"x"}`, withBody(job.BodyJSON, `"x"`, "application/json")},
		{"at", fmt.Sprintf(`{"url":"http://a","at":%q}`, now.Time().Add(time.Hour).Format(time.RFC3339Nano)), at(now.Add(time.Hour))},
		{"at with an offset, cut down", `{"url":"http://a","at":"2027-01-15T16:00:00.1239+08:00"}`, at(now + 123)},
		{"at in the past", `{"url":"http://a","at":"2001-01-01T00:00:00Z"}`, at(978_307_200_000)},
		{"at in Unix seconds", `{"url":"http://a","at":1600000000}`, at(1_600_000_000_000)},
		{"at in Unix milliseconds", `{"url":"http://a","at": 1600000000123 }`, at(1_600_000_000_123)},
		{"at the epoch", `{"url":"http://a","at":"1970-01-01T00:00:00Z"}`, at(1)},
		{"at long before", `{"url":"http://a","at":"0000-01-01T00:00:00Z"}`, at(1)},
		{"at the limit", fmt.Sprintf(`{"url":"http://a","at":%q}`, now.Time().Add(job.MaxDelay).Format(time.RFC3339Nano)), at(now.Add(job.MaxDelay))},
		{"delay at the limit", `{"url":"http://a","delay":"366d"}`, job.Request{
			Key: job.Key{Topic: "default"}, OnConflict: job.ConflictReject,
			Spec: job.Spec{Destination: "http://a", When: job.When{Delay: job.MaxDelay}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := draft(t, tt.doc).Registration(limits, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func withBody(form job.BodyForm, body, contentType string) job.Request {
	r := job.Request{Key: job.Key{Topic: "default"}, OnConflict: job.ConflictReject}
	r.Spec = job.Spec{Destination: "http://a", BodyForm: form, ContentType: contentType}
	if body != "" {
		r.Spec.Body = []byte(body)
	}
	return r
}

func at(i job.Instant) job.Request {
	return job.Request{
		Key: job.Key{Topic: "default"}, OnConflict: job.ConflictReject,
		Spec: job.Spec{Destination: "http://a", When: job.When{At: i}},
	}
}

// complaints is what a draft is refused for, by pointer.
func complaints(t *testing.T, err error) map[string]string {
	t.Helper()
	var invalid *job.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want a *ValidationError", err)
	}
	got := map[string]string{}
	for _, f := range invalid.Fields {
		if got[string(f.Field)] != "" {
			t.Errorf("%s is refused twice: %q and %q", string(f.Field), got[string(f.Field)], f.Message)
		}
		got[string(f.Field)] = f.Message
	}
	return got
}

func TestRegistrationRefuses(t *testing.T) {
	long := strings.Repeat("x", 129)
	tests := []struct {
		fields string // added to a valid draft
		where  string
		why    string
	}{
		{`"topic":""`, "topic", "must not be empty"},
		{`"topic":"a/b"`, "topic", "may contain letters"},
		{`"topic":"a|b"`, "topic", "may contain letters"},
		{`"id":"a b"`, "id", "may contain letters"},
		{`"id":"{x}"`, "id", "may contain letters"},
		{`"id":"½"`, "id", "may contain letters"},
		{`"id":"a\u0000"`, "id", "may contain letters"},
		{`"id":"\ud800"`, "id", "may contain letters"},
		{`"id":"."`, "id", `must not be "." or ".."`},
		{`"id":".."`, "id", `must not be "." or ".."`},
		{`"id":""`, "id", "must not be empty"},
		{`"biz_key":"` + long + `"`, "biz_key", "at most 128"},
		{`"url":null`, "url", "is required"},
		{`"url":""`, "url", "must not be empty"},
		{`"url":"ftp://a"`, "url", "http:// or https://"},
		{`"method":"HEAD"`, "method", `must be one of POST, PUT, PATCH, GET, DELETE`},
		{`"method":"post"`, "method", `must be one of POST, PUT, PATCH, GET, DELETE`},
		{`"delay":"366d1ms"`, "delay", "must be from 0s to 366d"},
		{`"at":9999999999`, "at", "at most 366d ahead"},
		{`"at":"9999-12-31T23:59:59Z"`, "at", "at most 366d ahead"},
		{`"at":"2028-01-16T08:00:00.001Z"`, "at", "at most 366d ahead"},
		{`"at":"2027-01-15T16:00:00Z","delay":0`, "at", "combined with delay"},
		{`"content_type":"text/plain"`, "content_type", "needs a body"},
		{`"body":1,"content_type":""`, "content_type", "media type"},
		{`"body":1,"content_type":"text"`, "content_type", "media type"},
		{`"body":1,"content_type":"text/plain; charset"`, "content_type", "media type"},
		{`"body":1,"content_type":" text/plain"`, "content_type", "media type"},
		{`"body":1,"content_type":"text/plain; a=\"\u0001\""`, "content_type", "media type"},
		{`"body":1,"content_type":"text/plain\r\nX: y"`, "content_type", "media type"},
		{`"body":1,"content_type":"text/plain; a=\"é\""`, "content_type", "media type"},
		{`"body":1,"content_type":"text/` + strings.Repeat("x", 252) + `"`, "content_type", "at most 256"},
		{`"retry":{"steps":[]}`, "retry.steps", "1 to 64"},
		{`"retry":{"steps":[1` + strings.Repeat(",1", 64) + `]}`, "retry.steps", "1 to 64"},
		{`"retry":{"steps":[0]}`, "retry.steps.0", "from 1ms to 30d"},
		{`"retry":{"steps":["30d1ms"]}`, "retry.steps.0", "from 1ms to 30d"},
		{`"retry":{"limit":-1}`, "retry.limit", "from 0 to 1000"},
		{`"retry":{"limit":1001}`, "retry.limit", "from 0 to 1000"},
		{`"priority":0`, "priority", "from 1 to 9"},
		{`"priority":10`, "priority", "from 1 to 9"},
		{`"timeout":"99ms"`, "timeout", "from 100ms to 1m"},
		{`"timeout":"60001ms"`, "timeout", "from 100ms to 1m"},
		{`"ttl":0`, "ttl", "from 1ms to 732d"},
		{`"spread":-1`, "spread", "from 0s to 1d"},
		{`"spread":"1d1s"`, "spread", "from 0s to 1d"},
		{`"ttl":"733d"`, "ttl", "from 1ms to 732d"},
		{`"expect":{"body":" \n"}`, "expect.body", "more than white space"},
		{`"expect":{"body":"` + strings.Repeat("x", 1025) + `"}`, "expect.body", "at most 1024"},
		{`"on_conflict":"Reject"`, "on_conflict", `"reject", "ignore", "replace", "later", "sooner", "renew" or "once"`},
		{`"labels":{"":"x"}`, "labels.", "a key of 1 to 32"},
		{`"labels":{"` + long + `":"x"}`, "labels." + long[:32], "a key of 1 to 32"},
		{`"labels":{"Shop":"x"}`, "labels.Shop", "a-z 0-9"},
		{`"labels":{"a:b":"x"}`, "labels.a:b", "a-z 0-9"},
		{`"labels":{"a/b":"x"}`, "labels.a/b", "a-z 0-9"},
		{`"labels":{"a":"` + strings.Repeat("ä", 65) + `"}`, "labels.a", "at most 64 characters"},
		{`"labels":{"a":"x\ny"}`, "labels.a", "control characters"},
		{`"labels":{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":""}`, "labels", "at most 8"},
		{`"on_conflict":""`, "on_conflict", `"reject", "ignore", "replace", "later", "sooner", "renew" or "once"`},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.60s", tt.fields), func(t *testing.T) {
			got, err := draft(t, `{"url":"http://a",`+tt.fields+`}`).Registration(limits, now)
			fields := complaints(t, err)
			if len(fields) != 1 || !strings.Contains(fields[tt.where], tt.why) {
				t.Errorf("refused for %v; want %s: …%s…", fields, tt.where, tt.why)
			}
			if diff := gocmp.Diff(job.Request{}, got); diff != "" {
				t.Errorf("refused, but gave\n%s", diff)
			}
		})
	}
}

func TestRegistrationNamesEveryWrongField(t *testing.T) {
	_, err := draft(t, `{"topic":"/","id":"","biz_key":" ","url":"x","method":"HEAD","delay":-1,"at":"2027-01-15T16:00:00Z",
		"body":1,"content_type":"x","headers":{"host":"a","a b":""},
		"retry":{"steps":[0,1,-1],"limit":-1},"timeout":0,"ttl":-1,"expect":{"body":""},"on_conflict":"x","labels":{"A":"","b":"\u0000"}}`).Registration(limits, now)
	got := complaints(t, err)
	for _, where := range []string{
		"topic", "id", "biz_key", "url", "method", "delay", "at", "content_type",
		"headers.host", "headers.a b", "retry.steps.0", "retry.steps.2", "retry.limit",
		"timeout", "ttl", "expect.body", "on_conflict", "labels.A", "labels.b",
	} {
		if got[where] == "" {
			t.Errorf("%s is not refused", where)
		}
		if !strings.Contains(err.Error(), where+": "+got[where]) {
			t.Errorf("the error does not speak of %s: %v", where, err)
		}
		delete(got, where)
	}
	if len(got) > 0 {
		t.Errorf("also refused: %v", got)
	}
}

// An answer must not grow with what it refuses.
func TestRefusalsAreBounded(t *testing.T) {
	d := draft(t, `{"url":"http://a","retry":{"steps":[0`+strings.Repeat(",0", 9999)+`]}}`)
	d.Headers = many(1000, "a b", 1)
	_, err := d.Registration(limits, now)
	if got := complaints(t, err); len(got) != job.MaxFindings {
		t.Errorf("%d complaints, want %d", len(got), job.MaxFindings)
	}
}

func TestBodyTooLarge(t *testing.T) {
	for _, fields := range []string{
		`"body":"` + strings.Repeat("x", 63) + `"`,
		`"body_text":"` + strings.Repeat("x", 65) + `"`,
		`"body_base64":"` + strings.Repeat("AAAA", 21) + `AAA="`,
		`"topic":"/","body_text":"` + strings.Repeat("x", 65) + `"`, // it comes before the fields
	} {
		_, err := draft(t, `{"url":"http://a",`+fields+`}`).Registration(limits, now)
		if !errors.Is(err, job.ErrBodyTooLarge) || !strings.Contains(err.Error(), "at most 64 bytes") {
			t.Errorf("%.30s…: %v, want ErrBodyTooLarge with the limit", fields, err)
		}
	}
	_, err := draft(t, `{"url":"http://a","body_text":"`+strings.Repeat("x", 64)+`"}`).Registration(limits, now)
	if err != nil {
		t.Errorf("a body of the limit: %v", err)
	}
}

// Decoders replace invalid UTF-8; drafts that were not decoded may hold it.
func TestRegistrationRefusesInvalidUTF8(t *testing.T) {
	bad := "a\xff"
	tests := map[string]job.Draft{
		"topic":           {Topic: &bad},
		"id":              {ID: &bad},
		"biz_key":         {BizKey: &bad},
		"url":             {Destination: ptr(job.Destination("http://a/\xff"))},
		"method":          {Method: &bad},
		"body_text":       {Body: &job.Body{Form: job.BodyText, Content: []byte(bad)}},
		"content_type":    {Body: &job.Body{Form: job.BodyText}, ContentType: ptr("text/plain; a=\"\xff\"")},
		"headers.X":       {Headers: map[string]string{"X": bad}},
		"headers.a\uFFFD": {Headers: map[string]string{bad: "x"}},
		"expect.body":     {Expect: &bad},
		"on_conflict":     {OnConflict: &bad},
		"labels.a":        {Labels: map[string]string{"a": bad}},
	}
	for where, d := range tests {
		if d.Destination == nil {
			d.Destination = ptr(job.Destination("http://a"))
		}
		_, err := d.Registration(limits, now)
		if got := complaints(t, err); len(got) != 1 || got[where] == "" {
			t.Errorf("refused for %v, want %s", got, where)
		}
	}
}
