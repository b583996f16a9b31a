package encoding

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

// Everything is read as it was written, each of the fields.
func TestReadAsWritten(t *testing.T) {
	t.Run("spec", readAsWritten(AppendSpec, DecodeSpec))
	t.Run("attempt", readAsWritten(AppendAttempt, DecodeAttempt))
}

// A map of more than 15 fields has a longer header.
func TestAllFields(t *testing.T) {
	limit := 3
	want := job.Spec{
		Destination: "http://a", Method: "PUT", BizKey: "b", ContentType: "c", Headers: []job.Header{{Name: "H", Value: "v"}},
		Body: []byte("p"), BodyForm: job.BodyText, Priority: 1, When: job.When{Delay: 1}, Retry: &job.Retry{Limit: &limit},
		Timeout: 1, TTL: 1, ExpectBody: "e", Traceparent: "x", Labels: []job.Label{{Key: "k", Value: "v"}},
		Occurrence: &job.Occurrence{Schedule: "s"}, Callbacks: &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackDead: {Destination: "http://b"}}},
		Reports: job.CallbackDead,
	}
	before := []byte("before")
	text := AppendSpec(before, &want)
	var got job.Spec
	must.OK(t, DecodeSpec(text[len(before):], &got))
	if diff := cmp.Diff(want, got); diff != "" || string(text[:len(before)]) != "before" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReportReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Make[job.Report]().Draw(t, "report")
		j := &want.Job
		named(j.Spec.Callbacks)
		j.NextAt, j.EndedAt, j.UpdatedAt, j.Token, j.CancelRequested = 0, 0, 0, 0, false // they follow from the callback, or are of no use
		var got job.Report
		must.OK(t, DecodeReport(AppendReport(nil, &want), &got))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// named gives callbacks the names of events instead of arbitrary ones.
func named(c *job.Callbacks) {
	if c == nil {
		return
	}
	arbitrary := c.By
	c.By = nil
	for i, name := range slices.Sorted(maps.Keys(arbitrary)) {
		if i < len(job.CallbackEvents) && arbitrary[name] != nil {
			c.Set(job.CallbackEvents[i], arbitrary[name])
		}
	}
}

func readAsWritten[T any](appendTo func([]byte, *T) []byte, decode func([]byte, *T) error) func(*testing.T) {
	return func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := rapid.Make[T]().Draw(t, "value")
			if s, ok := any(&want).(*job.Spec); ok {
				named(s.Callbacks)
			}
			before := []byte("before")
			text, found := bytes.CutPrefix(appendTo(before, &want), before)
			if !found {
				t.Fatal("what was there is gone")
			}
			var got T
			must.OK(t, decode(text, &got))
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			// Whatever is cut short fails.
			cut := rapid.IntRange(0, len(text)-1).Draw(t, "cut")
			if err := decode(text[:cut], new(T)); err == nil {
				t.Fatalf("%q cut to %d bytes is read", text, cut)
			}
		})
	}
}

// A field that a newer version wrote is passed over.
func TestUnknownFields(t *testing.T) {
	const newer = "\x83\xa1n\x01\xa3new\x81\xa1a\x92\x01\xa1b\xa1c\xcd\x01\xf4"
	var got job.Attempt
	must.OK(t, DecodeAttempt([]byte(newer), &got))
	must.Same(t, "result", got, job.Attempt{Number: 1, Status: 500})
}

// Fields without a value are not written, and numbers take as few bytes as they can.
func TestWrittenShort(t *testing.T) {
	a := job.Attempt{Number: 1, StartedAt: 1_000, Duration: 5, Status: 500, Reason: "ladder"}
	if text := AppendAttempt(nil, &a); string(text) != "\x85\xa1n\x01\xa1s\xcd\x03\xe8\xa1d\x05\xa1c\xcd\x01\xf4\xa1r\xa6ladder" {
		t.Errorf("written as %q", text)
	}
	if text := AppendSpec(nil, &job.Spec{Destination: "http://a"}); string(text) != "\x81\xa1u\xa8http://a" {
		t.Errorf("written as %q", text)
	}
}

func sample() (job.Spec, job.Attempt) {
	spec := job.Spec{
		Destination: "https://shop.example/hooks/timeout", ContentType: "application/json", Body: make([]byte, 300),
		BodyForm: job.BodyJSON, When: job.When{At: 1_800_000_000_000},
	}
	attempt := job.Attempt{
		Number: 1, StartedAt: 1_800_000_000_000, Duration: 3 * time.Millisecond, Status: 200, Reason: "delivered",
		Timings: job.Timings{FirstByte: 2 * time.Millisecond, Reused: true}, Version: 3,
		ResponseHeaders: []job.Header{{Name: "Content-Length", Value: "0"}, {Name: "Date", Value: "Sun, 22 Nov 2026 13:55:18 GMT"}},
	}
	return spec, attempt
}

func BenchmarkSpec(b *testing.B) {
	spec, _ := sample()
	b.ReportAllocs()
	for b.Loop() {
		AppendSpec(nil, &spec)
	}
}

func BenchmarkAttempt(b *testing.B) {
	_, attempt := sample()
	b.ReportAllocs()
	for b.Loop() {
		AppendAttempt(nil, &attempt)
	}
}

// A map of any number of fields is read as it was written.
func TestLargeMaps(t *testing.T) {
	for _, n := range []int{0, smallMap, smallMap + 1, 1 << 10} {
		want := make([]int, n)
		for i := range want {
			want[i] = i + 1
		}
		w := codec{b: []byte("before")}
		w.fields(func() { numbers(&w, want) })
		r, got := codec{b: w.b[len("before"):], reading: true}, make([]int, n)
		r.fields(func() { numbers(&r, got) })
		if r.err != nil || !slices.Equal(got, want) || len(r.b) > 0 {
			t.Errorf("of %d fields read %v, %d bytes left: %v", n, got, len(r.b), r.err)
		}
	}
}

func numbers(c *codec, v []int) {
	for i := range v {
		number(c, strconv.Itoa(i), &v[i])
	}
}

// Fields are found in any order: an older version wrote another one.
func TestAnyOrder(t *testing.T) {
	var got job.Attempt
	must.OK(t, DecodeAttempt([]byte("\x83\xa1r\xa6ladder\xa1c\xcd\x01\xf4\xa1n\x01"), &got))
	must.Same(t, "result", got, job.Attempt{Number: 1, Status: 500, Reason: "ladder"})
}

// Whatever a store has, reading it does not panic, and what was read is written so that it is read again.
func FuzzDecode(f *testing.F) {
	spec, attempt := sample()
	spec.Callbacks = &job.Callbacks{}
	spec.Callbacks.Set(job.CallbackDead, &job.Callback{Destination: "http://b"})
	f.Add(AppendSpec(nil, &spec))
	f.Add(AppendAttempt(nil, &attempt))
	f.Add(AppendReport(nil, &job.Report{Job: job.Job{Spec: spec, LastAttempt: &attempt}, Response: &job.Response{Body: []byte("r")}}))
	f.Add([]byte("\x81\xa1h\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, AppendSpec, DecodeSpec)
		again(t, b, AppendAttempt, DecodeAttempt)
		again(t, b, AppendReport, DecodeReport)
	})
}

func again[T any](t *testing.T, b []byte, appendTo func([]byte, *T) []byte, decode func([]byte, *T) error) {
	t.Helper()
	var first, second T
	if decode(b, &first) != nil {
		return
	}
	if err := decode(appendTo(nil, &first), &second); err != nil {
		t.Fatalf("%q was read as %+v, which cannot be read again: %v", b, first, err)
	}
	if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%q is read in two ways:\n%s", b, diff)
	}
}
