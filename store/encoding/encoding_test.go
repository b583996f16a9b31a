package encoding

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/job"
)

// Everything is read as it was written, each of the fields.
func TestReadAsWritten(t *testing.T) {
	t.Run("spec", readAsWritten(AppendSpec, DecodeSpec))
	t.Run("attempt", readAsWritten(AppendAttempt, DecodeAttempt))
}

func readAsWritten[T any](appendTo func([]byte, *T) []byte, decode func([]byte, *T) error) func(*testing.T) {
	return func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := rapid.Make[T]().Draw(t, "value")
			before := []byte("before")
			text, found := bytes.CutPrefix(appendTo(before, &want), before)
			if !found {
				t.Fatal("what was there is gone")
			}
			var got T
			if err := decode(text, &got); err != nil {
				t.Fatal(err)
			}
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
	if err := DecodeAttempt([]byte(newer), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(job.Attempt{Number: 1, Status: 500}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
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
