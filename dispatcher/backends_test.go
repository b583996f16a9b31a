package dispatcher

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/redisstore"
)

// carryOptions are enough for tests.
var carryOptions = store.CarryOptions{Cap: 1000, Visibility: 2 * time.Second, HalfOpenLimit: 3, By: "test"}

// carrying carries all the time until the test ends.
func carrying(t testing.TB, s store.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for shard := range s.Shards() {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.Carry(ctx, shard, carryOptions) // if it failed, the next may not
				_ = job.Sleep(ctx, job.SystemClock(), time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func register(t testing.TB, s store.Store, id string, spec job.Spec) {
	t.Helper()
	_, err := s.Register(t.Context(), []store.Registration{{
		Key: job.Key{Topic: "orders", ID: id}, UID: ulid.Make().String(), Spec: spec,
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWholeWay takes jobs through real stores, a real network and the receiver
// contract.
func TestWholeWay(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		s := testenv.Store(t, diskstore.Options{Retention: time.Hour})
		wholeWay(t, s)
	})
	t.Run("redis", func(t *testing.T) {
		wholeWay(t, openRedis(t, testenv.StartRedis(t).URL(), 2))
	})
}

func openRedis(t *testing.T, url string, shards int) store.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: url, Shards: shards, Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func wholeWay(t *testing.T, s store.Store) {
	t.Helper()
	var mu sync.Mutex
	calls, uids := map[string]int{}, map[string]string{}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, uid := r.Header.Get("Duehook-Job-Id"), r.Header.Get("Webhook-Id")
		mu.Lock()
		calls[id]++
		n := calls[id]
		if n > 1 && uids[id] != uid || string(body) != "body of "+id {
			t.Errorf("%s: webhook-id %s after %s, body %q", id, uid, uids[id], body)
		}
		uids[id] = uid
		mu.Unlock()
		kind, _, _ := strings.Cut(id, "-")
		switch {
		case kind == "gone":
			w.WriteHeader(http.StatusGone)
		case kind == "down", kind == "second" && n == 1:
			w.WriteHeader(http.StatusInternalServerError)
		case kind == "snooze" && n == 1:
			w.Header().Set("Duehook-Action", "snooze")
			w.Header().Set("Retry-After", "1")
		case kind == "expect" && n == 1:
			_, _ = io.WriteString(w, "busy")
		case kind == "expect":
			_, _ = io.WriteString(w, " SUCCESS\n")
		}
	})
	carrying(t, s)
	d, err := New(Options{
		Store: s, AllowCIDRs: loopback(), Policy: exact(time.Millisecond, time.Millisecond),
		BreakerFailures: 1000, ID: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	launch(t, d)

	const each = 20
	want := map[string]struct {
		state    job.State
		reason   string
		attempts int
		calls    int
	}{
		"plain":   {job.Delivered, job.ReasonDelivered, 1, 1},
		"second":  {job.Delivered, job.ReasonDelivered, 2, 2},
		"expect":  {job.Delivered, job.ReasonDelivered, 2, 2},
		"snooze":  {job.Delivered, job.ReasonDelivered, 1, 2},
		"gone":    {job.Dead, job.ReasonGone, 1, 1},
		"down":    {job.Dead, job.ReasonRetryLimit, 3, 3},
		"blocked": {job.Dead, job.ReasonBlocked, 1, 0},
	}
	for kind := range want {
		for i := range each {
			id := kind + "-" + strconv.Itoa(i)
			spec := job.Spec{Destination: job.Destination(url), Body: []byte("body of " + id)}
			switch kind {
			case "expect":
				spec.ExpectBody = "success"
			case "blocked":
				spec.Destination = "http://10.0.0.1/"
			}
			register(t, s, id, spec)
		}
	}
	for kind, w := range want {
		for i := range each {
			key := job.Key{Topic: "orders", ID: kind + "-" + strconv.Itoa(i)}
			var j job.Job
			testenv.Eventually(t, patience, func() bool {
				j, err = s.Get(t.Context(), key)
				return err == nil && j.State.Final()
			}, "the end of "+key.ID)
			mu.Lock()
			n, uid := calls[key.ID], uids[key.ID]
			mu.Unlock()
			if j.State != w.state || j.Reason != w.reason || j.Attempts != w.attempts || n != w.calls {
				t.Errorf("%s: %v, %s, %d attempts, %d calls; want %+v", key.ID, j.State, j.Reason, j.Attempts, n, w)
			}
			if n > 0 && uid != j.UID {
				t.Errorf("%s: webhook-id %s, want %s", key.ID, uid, j.UID)
			}
		}
	}
}

// TestLostRepliesCauseNoDoubles loses every seventh reply of Redis: of pops,
// claims and settlements. Each job arrives all the same, and once.
func TestLostRepliesCauseNoDoubles(t *testing.T) {
	const jobs = 300
	r := testenv.StartRedis(t)
	proxy := testenv.StartProxy(t, r.Addr())
	var mu sync.Mutex
	calls := map[string]int{}
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls[r.Header.Get("Duehook-Job-Id")]++
	})
	direct := openRedis(t, r.URL(), 1)
	carrying(t, direct)
	d, err := New(Options{Store: openRedis(t, "redis://"+proxy.Addr(), 1), AllowCIDRs: loopback(), Workers: 20})
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	proxy.DropReplies(func([]byte) bool {
		requests++
		return requests%7 == 0
	})
	launch(t, d)
	for i := range jobs {
		register(t, direct, strconv.Itoa(i), job.Spec{Destination: job.Destination(url)})
	}
	for i := range jobs {
		testenv.Eventually(t, patience, func() bool {
			j, err := direct.Get(t.Context(), job.Key{Topic: "orders", ID: strconv.Itoa(i)})
			return err == nil && j.State == job.Delivered
		}, "delivery")
	}
	if n := proxy.Dropped(); n < 10 {
		t.Errorf("only %d replies were lost", n)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range calls {
		if n != 1 {
			t.Errorf("%s arrived %d times", id, n)
		}
	}
	if len(calls) != jobs {
		t.Errorf("%d jobs arrived, want %d", len(calls), jobs)
	}
}
