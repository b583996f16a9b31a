package dispatcher

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	manyWorkers = 128
	manyRunning = 113 // of one topic
	manyJobs    = 1000
	claimTime   = 3 * time.Millisecond
)

// hanging is a node with many workers whose receiver answers quickly, until jobs have
// just been claimed ahead: then nothing is answered any more.
type hanging struct {
	*fakeStore
	*running
	d       *Dispatcher
	hangs   atomic.Bool
	claimed atomic.Int64 // jobs
	begun   atomic.Int64 // requests
	since   time.Time    // when it began to hang
	ahead   int          // jobs that no worker can take
}

// Claim takes a while, in which other workers come free.
func (h *hanging) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	if err := job.Sleep(ctx, job.SystemClock(), claimTime); err != nil {
		return nil, err
	}
	claimed, err := h.fakeStore.Claim(ctx, shard, hints, o)
	h.claimed.Add(int64(len(claimed)))
	if len(claimed) > manyWorkers {
		h.hangs.Store(true)
	}
	return claimed, err
}

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	n := h.begun.Add(1)
	if h.hangs.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	// Not all at once.
	return status(200), job.Sleep(r.Context(), job.SystemClock(), time.Duration(1+n%4)*time.Millisecond)
}

// hang returns a node that hangs, having claimed jobs ahead.
func hang(t *testing.T) *hanging {
	t.Helper()
	h := &hanging{fakeStore: newFakeStore()}
	h.settle = func(_ context.Context, _ int, batch []job.Settlement) ([]store.Settled, error) {
		h.release(batch)
		return h.apply(batch), nil
	}
	for i := range manyJobs {
		h.add(newJob(fmt.Sprint(i), anyURL))
	}
	h.d = withTransport(t, Options{Store: h, Workers: manyWorkers, BreakerFailures: -1}, h)
	h.running = launch(t, h.d)
	for !h.hangs.Load() {
		pass(t, time.Millisecond)
	}
	// Those that are under way are answered, and others take their place.
	pass(t, 10*time.Millisecond)
	h.since = time.Now()
	h.ahead = int(h.claimed.Load() - h.begun.Load())
	if h.ahead == 0 {
		t.Fatal("no job was claimed ahead")
	}
	return h
}

// aside is how many hints are set aside.
func (h *hanging) aside() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, j := range h.jobs {
		if j.State == job.Ready {
			n++
		}
	}
	return n - len(h.hints)
}

// release makes jobs that were given back ready again.
func (h *hanging) release(batch []job.Settlement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range batch {
		if j := h.jobs[s.Key]; s.To == job.Waiting {
			j.State = job.Ready
			h.hints <- store.Hint{Lane: j.Lane(), ID: j.ID}
		}
	}
}

// wantGivenBack wants the jobs that were claimed ahead to be given back, and no other.
func (h *hanging) wantGivenBack(reason string, n int) {
	h.t.Helper()
	delivered := int(h.begun.Load()) - manyRunning
	for range delivered + n {
		got := next(h.t, h.settled, "settlement")
		switch {
		case got.To == job.Delivered:
			delivered--
		case got.To != job.Waiting || got.Reason != reason || got.Attempts != 0 || got.ExpiredLeases != 0 || got.Delay != 0 || got.Attempt != nil:
			h.t.Fatalf("%+v", got)
		}
	}
	if delivered != 0 {
		h.t.Errorf("%d more were delivered than were begun", -delivered)
	}
}

func TestJobsThatNoWorkerTakesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hang(t)
		h.wantGivenBack(reasonUntaken, h.ahead)
		if took := time.Since(h.since); took > 2*untakenTime {
			t.Errorf("it took %v", took)
		}
		calls := len(h.claims)
		pass(t, time.Second)
		if n := len(h.claims); n != calls {
			t.Error("jobs were claimed while all workers hang")
		}

		// Another node has time for them.
		launch(t, withTransport(t, Options{Store: h.fakeStore}, always(200)))
		pass(t, time.Second)
		for range manyJobs - int(h.begun.Load()) - h.aside() {
			if got := next(t, h.settled, "settlement"); got.To != job.Delivered || got.Attempts != 1 {
				t.Fatalf("%+v", got)
			}
		}
	})
}

func TestJobsThatNoWorkerHasTakenAreGivenBackAtOnceWhenStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hang(t)
		h.cancel()
		h.wantGivenBack(job.ReasonShutdown, h.ahead)
		if took := time.Since(h.since); took > settleTime+claimTime {
			t.Errorf("it took %v", took)
		}
		h.stop()
	})
}
