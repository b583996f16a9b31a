package app

import (
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/everyfield"
)

// A field that is left out would lose a change of it: the registration would count as a
// repetition of the old one.
func TestFingerprintCoversEachField(t *testing.T) {
	d, seen := &job.Draft{Pull: new(true)}, map[job.Fingerprint]string{}
	seen[fingerprint(d, everyfield.Filled[job.Spec]())] = "the base"
	for at, s := range everyfield.Changed[job.Spec]() {
		if strings.HasPrefix(at, "[Callbacks By") { // of an event that does not exist
			continue
		}
		f := fingerprint(d, s)
		if other, twice := seen[f]; twice {
			t.Errorf("%s has the fingerprint of %s", at, other)
		}
		seen[f] = at
	}
}

func TestFingerprint(t *testing.T) {
	r := newRig(t)
	of := func(change ...func(d *job.Draft)) job.Fingerprint {
		t.Helper()
		d := &job.Draft{Topic: new("t"), ID: new("a"), Destination: new(job.Destination("https://shop.example/")), Body: jsonBody(`{"a":1,"b":[{"c":2,"d":3},4]}`)}
		for _, c := range change {
			c(d)
		}
		p, err := r.Prepare(d, Origin{})
		if err != nil {
			t.Fatal(err)
		}
		return p.reg.Spec.Content
	}
	body := func(b *job.Body) func(*job.Draft) { return func(d *job.Draft) { d.Body = b } }
	base := of()
	for name, change := range map[string]func(*job.Draft){
		"members in another order":  body(jsonBody(`{"b":[{"d":3,"c":2},4],"a":1}`)),
		"white space":               body(jsonBody("{ \"a\" : 1,\n\"b\":[{\"c\":2,\"d\":3} ,\t4 ] }")),
		"the default method":        func(d *job.Draft) { d.Method = new("POST") },
		"no delay":                  func(d *job.Draft) { d.Delay = new(time.Duration(0)) },
		"on_conflict, which is not": func(d *job.Draft) { d.OnConflict = new("ignore") },
	} {
		if of(change) != base {
			t.Errorf("%s: other content", name)
		}
	}
	seen := map[job.Fingerprint]string{base: "the base"}
	for name, change := range map[string]func(*job.Draft){
		"elements in another order": body(jsonBody(`{"a":1,"b":[4,{"c":2,"d":3}]}`)),
		"a number":                  body(jsonBody(`{"a":1.0,"b":[{"c":2,"d":3},4]}`)),
		"an escape":                 body(jsonBody(`{"\\u0061":1,"b":[{"c":2,"d":3},4]}`)),
		"a member twice":            body(jsonBody(`{"a":1,"a":1,"b":[{"c":2,"d":3},4]}`)),
		"the same text":             body(&job.Body{Form: job.BodyText, Content: []byte(`{"a":1,"b":[{"c":2,"d":3},4]}`)}),
		"text with another order":   body(&job.Body{Form: job.BodyText, Content: []byte(`{"b":[{"c":2,"d":3},4],"a":1}`)}),
		"no body":                   body(nil),
		"the normal priority":       func(d *job.Draft) { d.Priority = new(5) },
		"the server's retries":      func(d *job.Draft) { d.Retry = &job.Retry{} },
		"no callbacks":              func(d *job.Draft) { d.Callbacks = &job.CallbacksDraft{} },
		"no spread":                 func(d *job.Draft) { d.Spread = new(time.Duration(0)) },
		"the topic's destination":   func(d *job.Draft) { d.Destination = nil; d.Pull = new(true) },
	} {
		f := of(change)
		if other, twice := seen[f]; twice {
			t.Errorf("%s: the same content as %s", name, other)
		}
		seen[f] = name
	}
	// Defaults of the topic do not count, and so it does not matter that they change.
	noURL := func(d *job.Draft) { d.Destination = nil }
	for _, s := range []topics.Settings{
		{Defaults: job.Defaults{Destination: "https://one.example/", Timeout: time.Second, Priority: job.PriorityOf(9), Headers: []job.Header{{Name: "A", Value: "1"}}}},
		{Defaults: job.Defaults{Destination: "https://two.example/", TTL: time.Hour, Spread: time.Minute}},
	} {
		if _, _, err := r.PutTopic(t.Context(), "t", s); err != nil {
			t.Fatal(err)
		}
		if of() != base {
			t.Errorf("with the defaults %+v: other content", s.Defaults)
		}
		f := of(noURL)
		if other, twice := seen[f]; twice && other != "without a URL" {
			t.Errorf("without a URL: the same content as %s", other)
		}
		seen[f] = "without a URL"
	}
}

func jsonBody(text string) *job.Body { return &job.Body{Form: job.BodyJSON, Content: []byte(text)} }
