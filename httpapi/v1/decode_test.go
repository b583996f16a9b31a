package v1

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// Values that cannot be read are refused like values that are out of range.
func TestUnreadableValues(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct{ members, pointer, why string }{
		{`"delay":-1`, "/delay", "must not be negative"},
		{`"delay":true`, "/delay", "must be a number of whole seconds"},
		{`"delay":[]`, "/delay", "must be a number of whole seconds"},
		{`"delay":1.5`, "/delay", "whole number of seconds"},
		{`"delay":1e300`, "/delay", "longer than any"},
		{`"at":""`, "/at", "RFC 3339"},
		{`"at":true`, "/at", "Unix time as a number"},
		{`"at":[1600000000]`, "/at", "Unix time as a number"},
		{`"at":160000000`, "/at", "10 digits, for seconds, or 13, for milliseconds"},
		{`"at":16000000001`, "/at", "10 digits"},
		{`"at":1600000000123456`, "/at", "10 digits"},
		{`"at":-160000000`, "/at", "10 digits"},
		{`"at":1600000.01`, "/at", "10 digits"},
		{`"at":1600000000.5`, "/at", "10 digits"},
		{`"at":0`, "/at", "10 digits"},
		{`"at":"1600000000"`, "/at", "RFC 3339"},
		{`"at":"tomorrow"`, "/at", "RFC 3339"},
		{`"at":"2027-01-15T16:00:00"`, "/at", "RFC 3339"},
		{`"at":"2027-01-15 16:00:00Z"`, "/at", "RFC 3339"},
		{`"at":"2027-02-30T16:00:00Z"`, "/at", "RFC 3339"},
		{`"at":"2027-01-15T16:00:00,5Z"`, "/at", "RFC 3339"},
		{`"at":"2027-01-15T6:00:00Z"`, "/at", "RFC 3339"},
		{`"at":"2027-01-15T16:00:00+24:00"`, "/at", "RFC 3339"},
		{`"at":"2027-01-15T16:00:00+08:60"`, "/at", "RFC 3339"},
		{`"body":1,"body_text":"x"`, "/body_text", "combined with another form"},
		{`"body":1,"body_base64":""`, "/body_base64", "combined with another form"},
		{`"body_text":"x","body_base64":"AP8="`, "/body_base64", "combined with another form"},
		{`"body_base64":"AP8"`, "/body_base64", "must be base64"},
		{`"body_base64":"A\nP8="`, "/body_base64", "must be base64"},
		{`"body_base64":"AP9="`, "/body_base64", "must be base64"},
		{`"body_base64":"_-8="`, "/body_base64", "must be base64"},
		{`"retry":{"steps":[1,null]}`, "/retry/steps/1", "must be a number of whole seconds"},
		{`"timeout":"soon"`, "/timeout", "is not a duration"},
	} {
		p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", `{"url":"https://shop.example/hook",`+tt.members+`}`)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != tt.pointer || !strings.Contains(p.Errors[0].Message, tt.why) {
			t.Errorf("%s: refused for %v, want %s: …%s…", tt.members, p.Errors, tt.pointer, tt.why)
		}
	}
}

// An answer names everything wrong, in what cannot be read and in what is not valid.
func TestEverythingWrongIsNamed(t *testing.T) {
	a := newAPI(t)
	p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", `{"topic":"/","id":"","biz_key":" ","url":"x","method":"HEAD","delay":-1,"at":"x",
		"body":1,"body_text":"","content_type":"x","headers":{"host":"a","a b":""},
		"retry":{"steps":[0,1,-1],"limit":-1},"timeout":0,"ttl":-1,"expect":{"body":""},"on_conflict":"x","labels":{"A":"","b":"\u0000"}}`)
	got := map[string]string{}
	for _, e := range p.Errors {
		if got[e.Pointer] != "" {
			t.Errorf("%s is refused twice: %q and %q", e.Pointer, got[e.Pointer], e.Message)
		}
		got[e.Pointer] = e.Message
	}
	for _, pointer := range []string{
		"/topic", "/id", "/biz_key", "/url", "/method", "/delay", "/at", "/body_text", "/content_type",
		"/headers/host", "/headers/a b", "/retry/steps/0", "/retry/steps/2", "/retry/limit",
		"/timeout", "/ttl", "/expect/body", "/on_conflict", "/labels/A", "/labels/b",
	} {
		if got[pointer] == "" {
			t.Errorf("%s is not refused", pointer)
		}
		delete(got, pointer)
	}
	if len(got) > 0 {
		t.Errorf("also refused: %v", got)
	}
}

// Numbers of seconds are judged by their value. Only strings and numbers are durations.
func TestDurationsInJSON(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		`0`: 0, `-0`: 0, `90`: 90 * time.Second, `5.0`: 5 * time.Second, `1e3`: 1000 * time.Second, `100e-2`: time.Second,
		`"1500ms"`: 1500 * time.Millisecond, `"PT30M"`: 30 * time.Minute, `"\u0039s"`: 9 * time.Second,
	} {
		if got, err := decode.ParseDuration([]byte(raw)); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", raw, got, err, want)
		}
	}
	for want, raws := range map[string][]string{
		"must be a number of whole seconds or a string": {`null`, `true`, `{}`, `[]`, `[5]`},
		"must not be negative":                          {`-1`, `-0.5`, `-1e400`, `"-5s"`},
		"must be a whole number":                        {`0.5`, `15e-1`},
		"longer than any duration":                      {`1e400`, `9223372037`, `"9223372037s"`},
		"is not a duration":                             {`"9\ud800s"`, `"soon"`},
	} {
		for _, raw := range raws {
			if got, err := decode.ParseDuration([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s = %v, %v; want an error with %q", raw, got, err, want)
			}
		}
	}
	for _, data := range []string{``, `"open`, `5s`, `05`, `+5`, `.5`, `NaN`, `-`, `-x`, `5 5`, "\"\x01\"", "\v0", "\u00a00"} {
		if err := jsonio.Check(fmt.Appendf(nil, `{"delay":%s}`, data)); err == nil {
			t.Errorf("%q was taken for JSON", data)
		}
	}
}

// Each known field that is given twice is refused, also the last of an object with many.
func TestEveryFieldGivenTwice(t *testing.T) {
	setters := map[string]func(*int, decode.Field){}
	for i := range decode.MaxKnown {
		setters[fmt.Sprint("f", i)] = func(n *int, _ decode.Field) { *n++ }
	}
	set := decode.NewFieldSet(setters)
	for name := range setters {
		n, errs := decode.Decode([]byte(`{"`+name+`":1,"`+name+`":2}`), set)
		if len(errs.Fields) != 1 || errs.Fields[0].Message != "is given twice" || *n != 1 {
			t.Errorf("%s twice: %v, set %d times", name, errs.Fields, *n)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an object may know more fields than there are bits")
		}
	}()
	setters["more"] = nil
	decode.NewFieldSet(setters)
}
