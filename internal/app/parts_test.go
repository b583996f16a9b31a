package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// A pool of the Redis client that could not connect tries again once a second,
// and sees only then that it was closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// recorder notes what happens in which order.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) note(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

// part runs until it is stopped, and takes a moment to drain.
func (r *recorder) part(name string, running *sync.WaitGroup) part {
	running.Add(1)
	return part{name, func(ctx context.Context) error {
		running.Done()
		<-ctx.Done()
		r.note(name + " stops")
		r.note(name + " drained")
		return nil
	}}
}

func TestPartsStopOneAfterTheOther(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var r recorder
	var running sync.WaitGroup
	parts := []part{r.part("api", &running), r.part("carrier", &running), r.part("dispatcher", &running)}
	go func() {
		running.Wait()
		cancel()
	}()
	if err := runParts(ctx, slog.New(slog.DiscardHandler), parts...); err != nil {
		t.Fatal(err)
	}
	want := []string{"api stops", "api drained", "carrier stops", "carrier drained", "dispatcher stops", "dispatcher drained"}
	if !slices.Equal(r.events, want) {
		t.Errorf("%v, want %v", r.events, want)
	}
}

func TestFailureOfAPartStopsTheOthers(t *testing.T) {
	boom := errors.New("boom")
	var r recorder
	var running sync.WaitGroup
	api, dispatcher := r.part("api", &running), r.part("dispatcher", &running)
	carrier := part{"carrier", func(context.Context) error {
		running.Wait()
		return boom
	}}
	err := runParts(t.Context(), slog.New(slog.DiscardHandler), api, carrier, dispatcher)
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want the part's error", err)
	}
	want := []string{"api stops", "api drained", "dispatcher stops", "dispatcher drained"}
	if !slices.Equal(r.events, want) {
		t.Errorf("%v, want %v", r.events, want)
	}
}

func TestPartThatEndsByItselfIsAFailure(t *testing.T) {
	var r recorder
	var running sync.WaitGroup
	err := runParts(t.Context(), slog.New(slog.DiscardHandler),
		r.part("api", &running), part{"carrier", func(context.Context) error { return nil }})
	if err == nil || !strings.Contains(err.Error(), "carrier ended by itself") {
		t.Errorf("got %v", err)
	}
}
