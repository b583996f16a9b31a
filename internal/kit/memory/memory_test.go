package memory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const total = 1 << 20

func newBudget(t *testing.T) *Budget {
	t.Helper()
	return New(total, job.SystemClock())
}

func want(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (got == nil) != (want == nil) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A connection has an eighth, however many calls it makes; a key has half, on however many connections.
func TestShares(t *testing.T) {
	b := newBudget(t)
	on := b.Connect()
	one, two := b.Hold(on), b.Hold(on)
	want(t, "more than a share", one.Add(total/8+1), ErrTooLarge)
	want(t, "half of a share", one.Add(total/16), nil)
	want(t, "more than the other half", two.Add(total/16+1), ErrNoRoom)
	want(t, "the other half", two.Add(total/16), nil)
	elsewhere := b.Hold(b.Connect())
	want(t, "on another connection", elsewhere.Add(1), nil)
	elsewhere.Free()
	one.Free()
	two.Free()

	var held []*Hold
	for range 4 {
		h := b.Hold(b.Connect())
		want(t, "a key", h.As("key"), nil)
		want(t, "a part of the half of a key", h.Add(total/8), nil)
		held = append(held, h)
	}
	last := b.Hold(b.Connect())
	want(t, "a key", last.As("key"), nil)
	want(t, "more than the half of a key", last.Add(1), ErrNoRoom)
	late := b.Hold(b.Connect())
	want(t, "bytes before the key is known", late.Add(1), nil)
	want(t, "those, once it is", late.As("key"), ErrNoRoom)
	late.Free()
	other := b.Hold(b.Connect())
	want(t, "another key", other.As("other"), nil)
	want(t, "room for another key", other.Add(total/8), nil)
	for range 2 {
		want(t, "the rest", b.Hold(b.Connect()).Add(total/8), nil)
	}
	want(t, "the last bytes", b.Hold(b.Connect()).Add(total/8), nil)
	want(t, "more than all", b.Hold(b.Connect()).Add(1), ErrNoRoom)
	for _, h := range append(held, last, other) {
		h.Free()
	}
	if b.keys["key"] != nil || b.keys["other"] != nil {
		t.Error("keys that hold nothing are kept")
	}
}

// Who finds no room waits for it, at most for Patience and in the order of arrival; a share that is used up holds up nobody
// else. What was given up in between is not counted.
func TestWaiting(t *testing.T) {
	b := newBudget(t)
	var all []*Hold
	for range 8 {
		h := b.Hold(nil)
		want(t, "an eighth", h.Add(total/8), nil)
		all = append(all, h)
	}
	results := make(chan string, 3)
	take := func(name string, on *Connection, n int64) *Hold {
		h := b.Hold(on)
		before := b.Waiting()
		go func() { results <- fmt.Sprint(name, " ", h.Take(t.Context(), n)) }()
		testenv.Eventually(t, 10*time.Second, func() bool { return b.Waiting() == before+1 }, "the call waits")
		return h
	}
	large := take("large", nil, total/8)
	small := take("small", nil, total/8)
	all[0].Give(total / 16) // not enough for anybody
	if n := b.Waiting(); n != 2 {
		t.Errorf("%d wait", n)
	}
	all[0].Free()
	if got := <-results; got != "large <nil>" {
		t.Error(got)
	}
	if got := <-results; got != "small "+ErrNoRoom.Error() {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, "a caller who is gone", small.Take(ctx, total/8), context.Canceled)
	if n := b.Waiting(); n != 0 {
		t.Errorf("%d still wait", n)
	}
	large.Free()
	for _, h := range all {
		h.Free()
	}
	small.Free()
	if n := b.Held(); n != 0 {
		t.Errorf("%d bytes are held by nobody", n)
	}
}

// The queue is bounded, and a connection has an eighth of it.
func TestTheQueueIsBounded(t *testing.T) {
	b := newBudget(t)
	on := b.Connect()
	full := b.Hold(on)
	want(t, "the share", full.Add(total/8), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, maxWaiting)
	for range maxWaiting / 8 {
		h := b.Hold(on)
		go func() { done <- h.Take(ctx, 1) }()
	}
	testenv.Eventually(t, 10*time.Second, func() bool { return b.Waiting() == maxWaiting/8 }, "they wait")
	want(t, "one more of the connection", b.Hold(on).Take(ctx, 1), ErrNoRoom)
	want(t, "another connection", b.Hold(b.Connect()).Take(ctx, 1), nil)
	cancel()
	for range maxWaiting / 8 {
		want(t, "one that waited", <-done, context.Canceled)
	}
}
