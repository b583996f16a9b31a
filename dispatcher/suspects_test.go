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

// charging is a store that takes charges.
type charging struct {
	*fakeStore
	fails atomic.Bool
}

func (s *charging) Update(_ context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails.Load() {
		return job.Job{}, errDown
	}
	j := s.jobs[key]
	return *j, change(j, j.NextAt)
}

func (s *charging) expiredLeases(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[job.Key{Topic: "orders", ID: id}].ExpiredLeases
}

func suspect(id string) job.Job {
	j := newJob(id, anyURL)
	j.ExpiredLeases = job.SuspectAfter
	return j
}

func TestSuspectsAreSentOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &charging{fakeStore: newFakeStore()}
		answer := make(chan int)
		var sending atomic.Int64
		launch(t, withTransport(t, Options{Store: s}, roundTripper(func(r *http.Request) (*http.Response, error) {
			id := r.Header.Get("Duehook-Job-Id")
			if id == "neighbour" {
				return status(200), nil
			}
			if n := sending.Add(1); n > 1 {
				t.Errorf("%d suspects are sent at a time", n)
			}
			defer sending.Add(-1)
			if n := s.expiredLeases(id); n != job.SuspectAfter+1 {
				t.Errorf("%s is sent with %d expired leases written down", id, n)
			}
			return status(<-answer), nil
		})))
		const others = 3
		s.add(suspect("first"))
		synctest.Wait()
		for i := range others {
			s.add(suspect(fmt.Sprint(i)))
		}
		for n := range others {
			got := next(t, s.settled, "settlement")
			if got.To != job.Waiting || got.Reason != job.ReasonQuarantined || got.ExpiredLeases != job.SuspectAfter || got.Attempts != 0 {
				t.Errorf("%+v", got)
			}
			if turns := int(got.Delay / suspectPause); turns < 1 || turns > others {
				t.Errorf("suspect %d is to come back in %v", n, got.Delay)
			}
		}
		s.add(newJob("neighbour", anyURL))
		if got := next(t, s.settled, "settlement"); got.Key.ID != "neighbour" || got.To != job.Delivered {
			t.Errorf("%+v", got)
		}
		answer <- 200
		if got := next(t, s.settled, "settlement"); got.Key.ID != "first" || got.To != job.Delivered || got.ExpiredLeases != 0 {
			t.Errorf("%+v", got)
		}
		s.add(suspect("next"))
		answer <- 500
		if got := next(t, s.settled, "settlement"); got.Key.ID != "next" || got.To != job.Retrying || got.ExpiredLeases != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestSuspectIsNotSentUncharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &charging{fakeStore: newFakeStore()}
		s.fails.Store(true)
		launch(t, withTransport(t, Options{Store: s}, roundTripper(func(*http.Request) (*http.Response, error) {
			t.Error("a request was made")
			return status(200), nil
		})))
		s.add(suspect("a"))
		if got := next(t, s.settled, "settlement"); got.Reason != job.ReasonQuarantined || got.ExpiredLeases != job.SuspectAfter || got.Delay == 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestSuspectThatIsCutOffIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &charging{fakeStore: newFakeStore()}
		r := launch(t, withTransport(t, Options{Store: s, Grace: time.Second}, roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})))
		s.add(suspect("a"))
		synctest.Wait()
		r.stop()
		if got := next(t, s.settled, "settlement"); got.Reason != job.ReasonShutdown || got.ExpiredLeases != job.SuspectAfter {
			t.Errorf("%+v", got)
		}
	})
}

func TestSuspectWhoseLeaseJustExpiredIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lapsing{newFakeStore()}
		launch(t, withTransport(t, Options{Store: s}, roundTripper(func(*http.Request) (*http.Response, error) {
			t.Error("a request was made")
			return status(200), nil
		})))
		s.add(suspect("a"))
		if got := next(t, s.settled, "settlement"); got.Reason != job.ReasonQuarantined || got.Delay != time.Minute || got.ExpiredLeases != job.SuspectAfter {
			t.Errorf("%+v", got)
		}
	})
}

// lapsing is a store of which all leases have expired.
type lapsing struct{ *fakeStore }

func (s *lapsing) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	claims, err := s.fakeStore.Claim(ctx, shard, hints, o)
	for i := range claims {
		claims[i].From = job.Running
	}
	return claims, err
}
