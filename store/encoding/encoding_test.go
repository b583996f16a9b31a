package encoding

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/job"
)

// By the tags, everything is read as it was, with each of the fields there are.
func TestReadByTags(t *testing.T) {
	t.Run("spec", readByTags(AppendSpec))
	t.Run("attempt", readByTags(AppendAttempt))
}

func readByTags[T any](appendTo func([]byte, *T) []byte) func(*testing.T) {
	return func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			want := rapid.Make[T]().Draw(t, "value")
			before := []byte("before")
			text, found := bytes.CutPrefix(appendTo(before, &want), before)
			if !found {
				t.Fatal("what was there is gone")
			}
			var got T
			if err := msgpack.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
		})
	}
}

// Nothing is longer than the library makes it.
func TestAsLongAsByTags(t *testing.T) {
	spec, attempt := sample()
	for name, tc := range map[string]struct {
		got  []byte
		from any
	}{"spec": {AppendSpec(nil, &spec), &spec}, "attempt": {AppendAttempt(nil, &attempt), &attempt}} {
		var want bytes.Buffer
		e := msgpack.NewEncoder(&want)
		e.UseCompactInts(true)
		if err := e.Encode(tc.from); err != nil {
			t.Fatal(err)
		}
		if len(tc.got) > want.Len() {
			t.Errorf("%s: %d bytes, %d by tags", name, len(tc.got), want.Len())
		}
	}
}

// Attempts as they were written before these had response headers and a version.
func TestOldAttempts(t *testing.T) {
	const old = "\x85\xa1n\x01\xa1s\xcd\x03\xe8\xa1d\x05\xa1c\xcd\x01\xf4\xa1r\xa6ladder"
	want := job.Attempt{Number: 1, StartedAt: 1_000, Duration: 5, Status: 500, Reason: "ladder"}
	var got job.Attempt
	if err := msgpack.Unmarshal([]byte(old), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if text := AppendAttempt(nil, &want); string(text) != old {
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
