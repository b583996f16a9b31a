package dispatcher

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// silence are receivers that accept requests and answer none, but for those of topics that begin
// with "well". Each job has an endpoint of its own.
type silence struct {
	*fakeStore
	d      *Dispatcher
	t      *testing.T
	answer chan struct{} // ends one of the requests
	sent   map[string]*atomic.Int64
}

func newSilence(t *testing.T, workers int, weights map[string]int, topics ...string) *silence {
	t.Helper()
	s := &silence{fakeStore: newFakeStore(), t: t, answer: make(chan struct{}), sent: map[string]*atomic.Int64{}}
	for _, topic := range topics {
		s.sent[topic] = &atomic.Int64{}
	}
	o := Options{Store: s, Workers: workers, Timeout: time.Hour, Lease: 2 * time.Hour, Weight: func(topic string) int {
		return max(weights[topic], 1)
	}}
	s.d = withTransport(t, o, s)
	return s
}

func (s *silence) RoundTrip(r *http.Request) (*http.Response, error) {
	topic, _, _ := strings.Cut(r.URL.Hostname(), ".")
	s.sent[topic].Add(1)
	if !strings.HasPrefix(topic, "well") {
		select {
		case <-s.answer:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return status(200), nil
}

// ready makes n jobs of a topic ready.
func (s *silence) ready(topic string, n int) {
	for i := range n {
		j := newJob(fmt.Sprint(topic, "-", len(s.jobs), "-", i), fmt.Sprintf("http://%s.%d.example/", topic, i))
		j.Topic = topic
		s.add(j)
	}
}

// wantSent wants that so many requests of each topic were sent after a while.
func (s *silence) wantSent(after time.Duration, want map[string]int64) {
	s.t.Helper()
	pass(s.t, after)
	for topic, n := range want {
		if got := s.sent[topic].Load(); got != n {
			s.t.Errorf("%d requests of %s were sent, want %d", got, topic, n)
		}
	}
}

// However slow the receivers of a topic are, workers stay free for the others.
func TestNoTopicHasAllWorkers(t *testing.T) {
	for _, tc := range []struct {
		workers      int
		alone, other int64
	}{
		{1, 1, 0}, {2, 1, 1}, {4, 3, 1}, {8, 7, 1}, {9, 8, 1}, {18, 16, 1}, {512, 455, 50},
	} {
		t.Run(fmt.Sprint(tc.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSilence(t, tc.workers, nil, "slow", "other", "well")
				launch(t, s.d)
				s.ready("slow", 900)
				s.wantSent(time.Second, map[string]int64{"slow": tc.alone})
				if n := s.claimed(); n != tc.alone {
					t.Errorf("%d jobs were claimed, want %d: those that may not run cost nothing", n, tc.alone)
				}
				if tc.workers > 1 {
					s.ready("well", 100)
					s.wantSent(2*time.Second, map[string]int64{"slow": tc.alone, "well": 100})
				}
				s.ready("other", 90)
				s.wantSent(time.Second, map[string]int64{"slow": tc.alone, "other": tc.other})
			})
		})
	}
}

// claimed counts the claims so far.
func (s *silence) claimed() (n int64) {
	for _, j := range s.jobs {
		if j.State == job.Running {
			n++
		}
	}
	return n
}

// Behind many hints of a topic that may not run more, those of another come soon.
func TestHintsDoNotWaitBehindThoseOfAnotherTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilence(t, 512, nil, "slow", "well")
		launch(t, s.d)
		s.ready("slow", 1000)
		s.ready("well", 1)
		s.wantSent(50*time.Millisecond, map[string]int64{"slow": 455, "well": 1})
		for range 20 {
			s.ready("slow", 1)
			pass(t, time.Millisecond)
			s.ready("well", 1)
			pass(t, 19*time.Millisecond)
		}
		s.wantSent(0, map[string]int64{"slow": 455, "well": 21})
	})
}

// Two topics come to equal parts, or to those of their weights, as their jobs end.
func TestTopicsShareWorkers(t *testing.T) {
	for name, tc := range map[string]struct {
		weights map[string]int
		want    [2]int64
	}{
		"equal":    {nil, [2]int64{32, 32}},
		"weighted": {map[string]int{"a": 30, "b": 10}, [2]int64{46, 15}},
		"reversed": {map[string]int{"a": 1, "b": 100}, [2]int64{0, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSilence(t, 68, tc.weights, "a", "b")
				launch(t, s.d)
				s.ready("a", 400)
				pass(t, time.Second)
				s.ready("b", 400)
				pass(t, time.Second)
				for range 300 { // whichever of them ends
					s.answer <- struct{}{}
					pass(t, 10*time.Millisecond)
				}
				shares := s.d.pipelines[0].shares
				for i, topic := range []string{"a", "b"} {
					if got := int64(shares.topics[topic].running); got < tc.want[i]-2 || got > tc.want[i]+2 {
						t.Errorf("%d requests of %s are in progress, want about %d", got, topic, tc.want[i])
					}
				}
			})
		})
	}
}

// A job whose hint was set aside is sent soon after another one of its topic has ended.
func TestHintsThatWereSetAsideAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilence(t, 9, nil, "slow")
		launch(t, s.d)
		s.ready("slow", 30)
		s.wantSent(time.Second, map[string]int64{"slow": 8})
		for n := range int64(22) {
			s.answer <- struct{}{}
			s.wantSent(10*time.Millisecond, map[string]int64{"slow": 9 + n})
		}
	})
}

// A node that stops returns its hints to the ready list, so another node gets them at once.
func TestHintsThatWereSetAsideAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilence(t, 9, nil, "slow")
		r := launch(t, s.d)
		s.ready("slow", 20)
		pass(t, time.Second)
		if n := len(s.hints); n != 0 {
			t.Fatalf("%d hints are on the ready list, want them set aside", n)
		}
		r.cancel()
		pass(t, time.Millisecond)
		if n := len(s.hints); n != 12 {
			t.Errorf("%d hints are on the ready list again, want 12", n)
		}
		r.stop()
	})
}

// What shares count comes to nothing when all jobs have ended.
func TestSharesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilence(t, 9, nil, "slow", "well")
		launch(t, s.d)
		calls := 0
		s.claimHook = func(context.Context, int, []store.Hint) (before, after error) {
			if calls++; calls%3 == 0 {
				return errStore, nil
			}
			return nil, nil
		}
		s.ready("slow", 10)
		s.ready("well", 100)
		for range 10 {
			s.answer <- struct{}{}
			pass(t, time.Second)
		}
		s.hints <- store.Hint{Lane: job.Lane{Topic: "gone", Endpoint: "http://gone.example:80"}, ID: "gone"}
		pass(t, time.Minute)
		shares := s.d.pipelines[0].shares
		if len(shares.topics) != 0 || shares.running != 0 || shares.queued != 0 || len(shares.queues) != 0 {
			t.Errorf("left: %+v", shares)
		}
	})
}
