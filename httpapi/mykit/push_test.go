package mykit

import (
	"strconv"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

func TestRead(t *testing.T) {
	p, err := read([]byte(` {"topic":7,"TOPIC":"x","bizKey":true,"delay":"10","ttl":1.9,"status":null,"priority":"","createTime":"5","body":3.50}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.Topic != "7" || p.BizKey != "true" || p.Delay != 10 || p.TTL != 1 || p.Status != 0 || p.Priority != 0 || *p.CreateTime != 5 || *p.Body != "3.50" {
		t.Errorf("got %+v", p)
	}
}

func TestDue(t *testing.T) {
	const now = job.Instant(1_800_000_000_000)
	for body, want := range map[string]job.When{
		`{}`:                           {},
		`{"delay":1000}`:               {Delay: 1e9},
		`{"delay":-5}`:                 {},
		`{"delay":1000,"priority":7}`:  {Delay: 1_007_000_000},
		`{"delay":1000,"priority":-7}`: {Delay: 1e9},
		`{"createTime":1767258000000,"delay":60000}`:    {At: 1767258060000},
		`{"createTime":1767258000000,"delay":-1}`:       {At: 1767257999999},
		`{"createTime":0,"delay":-9223372036854775808}`: {At: 1},
		`{"createTime":null,"delay":0}`:                 {},
	} {
		p, err := read([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		p.Topic, p.ID = "t", "a"
		r, err := p.draft(now).Registration(job.Bounds{}.WithDefaults(), now)
		if v, wrong := err.(*job.ValidationError); wrong { //nolint:errorlint // as Registration returns it
			if len(v.Fields) != 1 || v.Fields[0].Field != "url" { // the draft has none
				t.Errorf("%s: %v", body, err)
			}
			d := p.draft(now)
			d.Pull = new(true)
			r, err = d.Registration(job.Bounds{}.WithDefaults(), now)
		}
		if err != nil || r.Spec.When != want {
			t.Errorf("%s: %+v, %v; want %+v", body, r.Spec.When, err, want)
		}
	}
}

// A job that can be read is one that the domain can check, and what the dialect keeps survives.
func FuzzRead(f *testing.F) {
	f.Add(`{"topic":"order","bizKey":"8812","delay":1800000,"body":"{\"order\":8812}"}`)
	f.Add(`{"topic":"order","id":"o 1","subtopic":"ü","delay":"10","createTime":1767258000000,"ttl":12,"priority":3,"status":5}`)
	f.Add(`{"topic":1,"delay":1e30,"createTime":-1,"body":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		if jsonio.Check([]byte(body)) != nil {
			return
		}
		p, err := read([]byte(body))
		if err != nil {
			if text := err.Error(); text == "" || len(text) > 500 {
				t.Errorf("refused with %q", text)
			}
			return
		}
		d := p.draft(1)
		d.Pull = new(true)
		if *d.ID == "" || job.CheckName(*d.ID) != nil {
			t.Errorf("the id %q became %q", p.ID, *d.ID)
		}
		if p.CreateTime != nil && d.Dialect.Data != strconv.FormatInt(*p.CreateTime, 10) {
			t.Errorf("kept %s of %s", d.Dialect.Data, body)
		}
		r, err := d.Registration(job.Bounds{}.WithDefaults(), 1)
		if err == nil && p.Body != nil && *p.Body != string(r.Spec.Body) {
			t.Errorf("the body of %s became %q", body, r.Spec.Body)
		}
		if err == nil && strings.Contains(r.Key.ID, "/") {
			t.Errorf("the id is %q", r.Key.ID)
		}
	})
}
