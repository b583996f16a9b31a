package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// nodes opens stores of one namespace.
type nodes struct {
	testing.TB
	Options
}

func newNodes(t testing.TB, url string, shards int) nodes {
	return nodes{t, Options{URL: url, Namespace: fmt.Sprintf("nodes%d", namespaces.Add(1)), Shards: shards, Retention: 24 * time.Hour}}
}

func (n nodes) with(shards int) nodes {
	n.Shards = shards
	return n
}

func (n nodes) open() *Store {
	n.Helper()
	s, err := prepare(n.Options, true)
	n.ok(err)
	n.Cleanup(func() { _ = s.Close() })
	return s
}

func (n nodes) ok(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// refuses expects that s serves nothing, and what it says of that.
func (n nodes) refuses(s *Store, words ...string) {
	n.Helper()
	var wrong *LayoutError
	err := s.Ping(n.Context())
	if !errors.As(err, &wrong) || !errors.Is(err, store.ErrUnavailable) {
		n.Fatalf("error %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			n.Errorf("%q does not say %q", err, w)
		}
	}
	if _, err := s.Register(n.Context(), []store.Registration{someJob("t", "refused")}); !errors.As(err, &wrong) {
		n.Errorf("a job was taken: %v", err)
	}
}

func someJob(topic, id string) store.Registration {
	return store.Registration{
		Key: job.Key{Topic: topic, ID: id}, UID: fmt.Sprintf("%026d", namespaces.Add(1)),
		Spec: job.Spec{Destination: "http://a.example/hook", Body: []byte(`{"id":"` + id + `"}`), BodyForm: job.BodyJSON},
	}
}

func (n nodes) register(s *Store, jobs int) {
	n.Helper()
	for i := range jobs {
		_, err := s.Register(n.Context(), []store.Registration{someJob("t", fmt.Sprint("j", i))})
		n.ok(err)
	}
}

func TestAnotherNumberOfShardsIsRefused(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	n := newNodes(t, r.URL(), 4)
	first := n.open()
	n.ok(first.Ping(t.Context()))
	n.refuses(n.with(8).open(), "4 shards", "--shards is 8", "start all nodes with --shards 4", "duehook reshard --shards 8")
	n.ok(n.open().Ping(t.Context()))
	// A newer version wrote it.
	n.ok(first.db.Set(t.Context(), layoutKey(n.Namespace), `{"layout":99,"shards":4}`, 0).Err())
	n.refuses(n.open(), "layout 99", "start the version that wrote it")
	if old := (&LayoutError{Namespace: "n", stored: layout{Version: layoutVersion - 1}}).Error(); !strings.Contains(old, "of an earlier version") {
		t.Errorf("an earlier version's is refused with %q", old)
	}
	n.ok(first.db.Set(t.Context(), layoutKey(n.Namespace), fmt.Sprintf(`{"layout":%d,"shards":4,"to":8}`, layoutVersion), 0).Err())
	n.refuses(n.open(), "from 4 to 8 shards", "duehook reshard --shards 8")
	n.ok(first.db.Set(t.Context(), layoutKey(n.Namespace), `?`, 0).Err())
	if err := n.open().Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a layout") {
		t.Errorf("error %v", err)
	}
}

// A node at work notices, at a new connection at once, that it would lose sight of jobs.
func TestANodeAtWorkStopsServing(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	n := newNodes(t, r.URL(), 2)
	s := n.open()
	n.register(s, 3)
	put := func(text string) {
		t.Helper()
		ctx := context.WithValue(t.Context(), unguarded{}, true)
		n.ok(s.db.Set(ctx, layoutKey(n.Namespace), text, 0).Err())
		s.guard.met.Add(1) // as each new connection does
	}
	put(fmt.Sprintf(`{"layout":%d,"shards":3}`, layoutVersion))
	n.refuses(s, "3 shards")
	if _, err := s.Carry(t.Context(), 0, store.CarryOptions{Cap: 10, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}}); err == nil {
		t.Error("it carried")
	}
	put(fmt.Sprintf(`{"layout":%d,"shards":2}`, layoutVersion))
	n.ok(s.Ping(t.Context()))
}

// After everything was deleted the layout is written anew, and after a restart.
func TestTheLayoutIsWrittenAnew(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	n := newNodes(t, r.URL(), 2)
	s := n.open()
	n.register(s, 3)
	n.ok(s.db.FlushAll(t.Context()).Err())
	s.guard.met.Add(1)
	n.ok(s.Ping(t.Context()))
	n.refuses(n.with(3).open(), "2 shards")
	r.Kill()
	r.Start()
	testenv.Eventually(t, testenv.Patience, func() bool { return s.Ping(t.Context()) == nil }, "it serves again")
	n.refuses(n.with(3).open(), "2 shards")
}

// What cannot be looked at stays as it was known, and calls do not wait for a Redis that
// is silent beyond their own time.
func TestALookThatFails(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	n := newNodes(t, r.URL(), 2)
	s, fresh := n.open(), n.open()
	n.ok(s.Ping(t.Context()))
	r.Pause()
	s.guard.met.Add(1)
	n.ok(s.guard.check(t.Context()))
	s.guard.mu.Lock()
	if s.guard.current == nil {
		t.Error("the look has ended, though Redis is silent")
	}
	s.guard.mu.Unlock()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fresh.guard.check(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := fresh.guard.check(t.Context()); err == nil {
		t.Error("a node that knows nothing goes on")
	}
	r.Resume()
	testenv.Eventually(t, testenv.Patience, func() bool { return fresh.Ping(t.Context()) == nil }, "it serves")
}
