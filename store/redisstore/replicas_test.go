package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

func aJob(id string) store.Registration {
	return store.Registration{
		Key: job.Key{Topic: "t", ID: id}, UID: ulid.Make().String(),
		Spec: job.Spec{Destination: "http://a.example/", When: job.When{Delay: time.Hour}, Content: 1},
	}
}

// confirmed is a store on a master that wants its replica's word, and one on
// the same that does not.
func confirmed(t *testing.T, master *testenv.Redis) (safe, plain *Store) {
	t.Helper()
	o := Options{URL: master.URL(), Retention: time.Hour, MinReplicas: 1, ReplicaWait: 2 * time.Second}
	stores := [2]*Store{}
	for i := range stores {
		s, err := prepare(o, true)
		ok(t, "prepare", err)
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
		o.MinReplicas = 0
	}
	return stores[0], stores[1]
}

// TestWaitsForReplicas freezes the only replica. What a client would be told of
// is refused, also when asked for again, and all else goes on.
func TestWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master := testenv.StartRedis(t)
	replica := testenv.StartReplica(t, master)
	safe, plain := confirmed(t, master)
	register := func(s *Store, id string) (store.RegisterOutcome, error) {
		out, err := s.Register(t.Context(), []store.Registration{aJob(id)})
		if err != nil {
			return 0, err
		}
		return out[0].Outcome, nil
	}
	cancel := func(j *job.Job, now job.Instant) error { _, err := j.Cancel(now); return err }
	unavailable := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s while the replica is frozen: %v", what, err)
		}
	}
	if _, err := register(safe, "early"); err != nil {
		t.Fatal(err)
	}

	replica.Pause()
	_, err := register(safe, "a")
	unavailable("registering", err)
	_, err = register(safe, "a")
	unavailable("registering again what is there", err)
	_, err = safe.Update(t.Context(), job.Key{Topic: "t", ID: "early"}, cancel)
	unavailable("cancelling", err)
	_, err = store.PutDocument(t.Context(), safe, store.Document{Kind: "k", Name: "n"})
	unavailable("writing a document", err)
	if got, err := register(plain, "b"); err != nil || got != store.Created {
		t.Errorf("without the setting: %v, %v", got, err)
	}
	failed := deliver(t, safe)
	_, err = safe.Update(t.Context(), failed, cancel)
	unavailable("cancelling the callback of a failed attempt", err)

	replica.Resume()
	for _, id := range []string{"a", "b"} {
		if got, err := register(safe, id); err != nil || got != store.Same {
			t.Errorf("%s is registered again with outcome %v, %v", id, got, err)
		}
	}
	if j, err := safe.Get(t.Context(), job.Key{Topic: "t", ID: "early"}); err != nil || j.State != job.Cancelled {
		t.Errorf("the job that was cancelled is %v, %v", j.State, err)
	}
}

// deliver takes a job through the hands of carrier and dispatcher. Two attempts fail, each with a
// callback, of which the second takes the place of the first. It returns the second callback.
func deliver(t *testing.T, s *Store) (failed job.Key) {
	t.Helper()
	reg := aJob("due")
	reg.Spec.When.Delay = 0
	reg.Spec.Callbacks = &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{
		job.CallbackAttemptFailed: {Destination: "http://a.example/failed"},
	}}
	plant(t, s, reg.Job(1), nil)
	withdrawn := job.Key{Topic: "t", ID: reg.UID + ".attempt_failed.1"}
	for n := range 2 {
		if _, err := s.Carry(t.Context(), 0, store.CarryOptions{Cap: 10, Visibility: time.Minute, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}}); err != nil {
			t.Fatal(err)
		}
		hints, err := s.Pop(t.Context(), 0, 10, time.Second)
		ok(t, "Pop", err)
		hints = slices.DeleteFunc(hints, func(h store.Hint) bool { return h.ID != "due" })
		claims, err := s.Claim(t.Context(), 0, hints, store.ClaimOptions{Nonce: fmt.Sprint(n), Lease: time.Minute})
		if err != nil || len(claims) != 1 {
			t.Fatalf("claimed %v, %v", claims, err)
		}
		j := &claims[0].Job
		outcome := job.Outcome{Kind: job.OutcomeFailed, Attempt: &job.Attempt{Number: j.Attempts + 1}}
		failed = job.Key{Topic: "t", ID: j.CallbackID(job.CallbackAttemptFailed, j.Attempts+1)}
		settled, err := successors.Settle(t.Context(), s, []job.Settlement{
			job.Settle(j, outcome, func(int) (time.Duration, bool) { return 0, true }),
		})
		if err != nil || settled[0].Status != store.Applied {
			t.Fatalf("settled %v, %v", settled, err)
		}
	}
	if c, err := s.Get(t.Context(), withdrawn); err != nil || !c.CancelRequested && c.Reason != job.ReasonSuperseded {
		t.Errorf("the callback %s is %v (%s), %v", withdrawn, c.State, c.Reason, err)
	}
	return failed
}

// TestFailoverLosesTheUnconfirmed: a master dies with what it did not pass on.
// With the setting, nobody was told that those jobs are safe.
func TestFailoverLosesTheUnconfirmed(t *testing.T) {
	t.Parallel()
	master := testenv.StartRedis(t)
	replica := testenv.StartReplica(t, master)
	safe, plain := confirmed(t, master)
	told := map[string]bool{}
	register := func(s *Store, ids ...string) {
		for _, id := range ids {
			if _, err := s.Register(t.Context(), []store.Registration{aJob(id)}); err == nil {
				told[id] = true
			}
		}
	}
	register(safe, "safe-1", "safe-2")
	// Frozen, it cannot take up the link again.
	replica.Pause()
	kill(t, master)
	register(safe, "safe-3")
	register(plain, "plain")
	master.Kill()
	replica.Resume()

	if diff := cmp.Diff(map[string]bool{"safe-1": true, "safe-2": true, "plain": true}, told); diff != "" {
		t.Fatal("acknowledged:", diff)
	}
	successor, err := prepare(Options{URL: replica.URL(), Retention: time.Hour}, true)
	ok(t, "prepare", err)
	defer successor.Close()
	ok(t, "Do", successor.db.Do(t.Context(), "replicaof", "no", "one").Err())
	for _, tc := range []struct {
		id   string
		want error
	}{{"safe-1", nil}, {"safe-2", nil}, {"plain", store.ErrNotFound}} {
		if _, err := successor.Get(t.Context(), job.Key{Topic: "t", ID: tc.id}); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.id, err, tc.want)
		}
	}
}

// kill cuts the links of a master's replicas.
func kill(t *testing.T, master *testenv.Redis) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: master.Addr()})
	defer c.Close()
	if n, err := c.ClientKillByFilter(t.Context(), "TYPE", "replica").Result(); err != nil || n != 1 {
		t.Fatalf("killed %d links, %v", n, err)
	}
}

// BenchmarkRegisterConfirmed registers at a master with two replicas, of which
// none, one or both have to confirm: one job after the other, and with 64
// clients.
func BenchmarkRegisterConfirmed(b *testing.B) {
	master := testenv.StartRedis(b)
	for range 2 {
		testenv.StartReplica(b, master)
	}
	register := func(b *testing.B, s *Store) {
		if _, err := s.Register(context.Background(), []store.Registration{aJob(ulid.Make().String())}); err != nil {
			b.Error(err)
		}
	}
	for replicas := range 3 {
		s, err := prepare(Options{
			URL: master.URL(), Namespace: fmt.Sprintf("bench%d", namespaces.Add(1)), MinReplicas: replicas,
		}, true)
		ok(b, "prepare", err)
		b.Run(fmt.Sprintf("replicas=%d/one", replicas), func(b *testing.B) {
			for b.Loop() {
				register(b, s)
			}
		})
		b.Run(fmt.Sprintf("replicas=%d/many", replicas), func(b *testing.B) {
			b.SetParallelism(32) // times GOMAXPROCS
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					register(b, s)
				}
			})
		})
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}
}
