package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
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

// soon is a deadline that no test comes near.
func soon(t *testing.T) *deadline {
	d := newDeadline(time.Hour)
	t.Cleanup(d.stop)
	return d
}

// TestStagesStopOneAfterTheOther: the parts of a stage are stopped together. None
// goes on working while another one drains.
func TestStagesStopOneAfterTheOther(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var r recorder
	var running, stopping sync.WaitGroup
	together := func(name string) part {
		running.Add(1)
		stopping.Add(1)
		return part{name, func(ctx context.Context) error {
			running.Done()
			<-ctx.Done()
			stopping.Done()
			stopping.Wait() // for ever, if the other one was not told to stop
			r.note("a part of the first stage drained")
			return nil
		}}
	}
	first, second := []part{together("api"), together("dispatcher")}, []part{r.part("events", &running)}
	go func() {
		running.Wait()
		cancel()
	}()
	err := runParts(ctx, slog.New(slog.DiscardHandler), soon(t), first, second)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a part of the first stage drained", "a part of the first stage drained", "events stops", "events drained"}
	if !slices.Equal(r.events, want) {
		t.Errorf("%v, want %v", r.events, want)
	}
}

// TestDeadlineOfParts: what does not stop in time is named, and does not keep the
// process from ending. All stages share the time.
func TestDeadlineOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		stuck := func(name string) part {
			return part{name, func(context.Context) error { <-release; return nil }}
		}
		slow := part{"slow", func(ctx context.Context) error {
			<-ctx.Done()
			return job.Sleep(context.WithoutCancel(ctx), job.SystemClock(), 4*time.Second)
		}}
		by := newDeadline(6 * time.Second)
		defer by.stop()
		cancel()
		began := time.Now()
		err := runParts(ctx, slog.New(slog.DiscardHandler), by, []part{slow}, []part{stuck("events"), stuck("topics")})
		if err == nil || !strings.Contains(err.Error(), "not stopped within 6s: events, topics") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("stopping took %v", took)
		}
		close(release)
	})
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
	err := runParts(t.Context(), slog.New(slog.DiscardHandler), soon(t), []part{api}, []part{carrier}, []part{dispatcher})
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
	err := runParts(t.Context(), slog.New(slog.DiscardHandler), soon(t),
		[]part{r.part("api", &running), {"carrier", func(context.Context) error { return nil }}})
	if err == nil || !strings.Contains(err.Error(), "carrier ended by itself") {
		t.Errorf("got %v", err)
	}
}
