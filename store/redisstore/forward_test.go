package redisstore

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// ordered is a registration with an order key.
func ordered(id, orderKey string) store.Registration {
	r := aJob(id)
	r.UID = store.OrderUID(r.UID, r.Key.Topic, orderKey)
	r.Spec.OrderKey = orderKey
	r.Spec.Content = job.Fingerprint(crc32.ChecksumIEEE([]byte(orderKey))) + 1
	return r
}

// strayed is such a registration whose shard is not its home, and whose order key is none of
// those given.
func strayed(s *Store, id string, but ...string) store.Registration {
	for n := 0; ; n++ {
		key := fmt.Sprint("k", n)
		if r := ordered(id, key); s.away(r.Key, key) && !slices.Contains(but, key) {
			return r
		}
	}
}

// signsIn are the forwards and fences of a store.
func signsIn(t *testing.T, s *Store) (names []string) {
	t.Helper()
	for n, sh := range s.shards {
		for _, page := range sh.jobs {
			fields, err := s.db.HGetAll(t.Context(), page).Result()
			ok(t, "HGetAll", err)
			for name, text := range fields {
				if key, ok := forwardedTo(text); ok {
					names = append(names, fmt.Sprintf("%d %s %s", n, name, key))
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func mustRegister(t *testing.T, s *Store, r store.Registration) store.Registered {
	t.Helper()
	done, err := s.Register(t.Context(), []store.Registration{r})
	ok(t, "Register", err)
	return done[0]
}

func noRetry(int) (time.Duration, bool) { return 0, false }

// takeFrom carries and claims all that is due.
func takeFrom(t *testing.T, s *Store) (claims []store.Claimed) {
	t.Helper()
	for n := range s.shards {
		_, err := s.Carry(t.Context(), n, carryAll)
		ok(t, "Carry", err)
		hints, err := s.Pop(t.Context(), n, 100, 0)
		ok(t, "Pop", err)
		some, err := s.Claim(t.Context(), n, hints, terms())
		ok(t, "Claim", err)
		claims = append(claims, some...)
	}
	return claims
}

func settleWith(t *testing.T, s *Store, settlements ...job.Settlement) {
	t.Helper()
	_, err := s.Settle(t.Context(), settlements)
	ok(t, "Settle", err)
}

// atRandom makes random calls on jobs of few ids and order keys, and ends all jobs.
func atRandom(t *testing.T, s *Store, random *rand.Rand) {
	t.Helper()
	update := func(id int, change func(*job.Job, job.Instant) error) {
		_, _ = s.Update(t.Context(), job.Key{Topic: "t", ID: fmt.Sprint(id)}, change)
	}
	cancel := func(j *job.Job, now job.Instant) error {
		_, err := j.Cancel(now)
		return err
	}
	discard := func(j *job.Job, now job.Instant) error { return j.Discard(now) }
	const ids = 4
	for range 60 {
		id := random.IntN(ids)
		switch random.IntN(6) {
		case 0, 1, 2:
			r := aJob(fmt.Sprint(id))
			if key := random.IntN(4); key > 0 {
				r = ordered(fmt.Sprint(id), fmt.Sprint("k", key))
			}
			r.Spec.When = job.When{}
			r.OnConflict = []job.OnConflict{job.ConflictReplace, job.ConflictIgnore}[random.IntN(2)]
			_, err := s.Register(t.Context(), []store.Registration{r})
			ok(t, "Register", err)
		case 3:
			update(id, cancel)
		case 4:
			for _, c := range takeFrom(t, s) {
				kind := []job.OutcomeKind{job.OutcomeDelivered, job.OutcomeFailed}[random.IntN(2)]
				o := job.Outcome{Kind: kind, Attempt: &job.Attempt{Number: 1}}
				if random.IntN(3) == 0 {
					update(random.IntN(ids), cancel)
				}
				settleWith(t, s, job.Settle(&c.Job, o, noRetry))
			}
		case 5:
			update(id, []func(*job.Job, job.Instant) error{discard, func(j *job.Job, now job.Instant) error { return j.Replay(now) }}[random.IntN(2)])
		}
	}
	for id := range ids {
		update(id, cancel)
		update(id, discard)
	}
	_, err := s.Purge(t.Context(), 1000)
	ok(t, "Purge", err)
}

func TestForwards(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	open := func(t *testing.T, retention time.Duration) *Store {
		s := openAs(t, Options{URL: redis.URL(), Shards: 5, Retention: retention})
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	outcome := func(t *testing.T, s *Store, r store.Registration, want store.RegisterOutcome) {
		t.Helper()
		if got := mustRegister(t, s, r); got.Outcome != want {
			t.Fatalf("outcome %d of order key %q, want %d", got.Outcome, r.Spec.OrderKey, want)
		}
	}
	is := func(t *testing.T, s *Store, r store.Registration) {
		t.Helper()
		j, err := s.Get(t.Context(), r.Key)
		if err != nil || j.UID != r.UID || j.Spec.OrderKey != r.Spec.OrderKey {
			t.Fatalf("%s with the order key %q: %v", j.UID, j.Spec.OrderKey, err)
		}
	}
	end := func(t *testing.T, s *Store, key job.Key) {
		t.Helper()
		_, err := s.Update(t.Context(), key, func(j *job.Job, now job.Instant) error {
			_, err := j.Cancel(now)
			return err
		})
		ok(t, "Update", err)
	}

	t.Run("one id is one job whatever its order key", func(t *testing.T) {
		t.Parallel()
		s := open(t, time.Hour)
		first := strayed(s, "a")
		outcome(t, s, first, store.Created)
		is(t, s, first)
		again := ordered("a", first.Spec.OrderKey)
		outcome(t, s, again, store.Same)
		other := strayed(s, "a", first.Spec.OrderKey)
		outcome(t, s, other, store.Exists)
		outcome(t, s, aJob("a"), store.Exists)
		is(t, s, first)
		end(t, s, first.Key)
		outcome(t, s, other, store.Created) // an ended job gives way, across shards
		is(t, s, other)
		end(t, s, first.Key)
		plain := aJob("a")
		outcome(t, s, plain, store.Created)
		is(t, s, plain)
		end(t, s, first.Key)
		outcome(t, s, again, store.Created)
		is(t, s, again)
	})
	t.Run("a registration that was broken off leads nowhere", func(t *testing.T) {
		t.Parallel()
		s := open(t, time.Hour)
		lost := strayed(s, "a")
		if _, _, err := s.reserve(t.Context(), []store.Registration{lost}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), lost.Key); err == nil || !strings.Contains(err.Error(), store.ErrNotFound.Error()) {
			t.Fatalf("a forward without a job: %v", err)
		}
		other := strayed(s, "a", lost.Spec.OrderKey)
		outcome(t, s, other, store.Created)
		is(t, s, other)
		// The first registration goes on now: it must not make a second job.
		done := make([]store.Registered, 1)
		if _, err := s.registerBatch(t.Context(), s.shards[s.shardFor(lost.Key, lost.Spec.OrderKey)], []store.Registration{lost}, []int{0}, done); err != nil {
			t.Fatal(err)
		}
		if done[0].Outcome != store.Exists || done[0].Job.UID != other.UID {
			t.Fatalf("outcome %d of %s", done[0].Outcome, done[0].Job.UID)
		}
		same := strayed(s, "b")
		if _, _, err := s.reserve(t.Context(), []store.Registration{same}); err != nil {
			t.Fatal(err)
		}
		retried := ordered("b", same.Spec.OrderKey)
		retried.UID = store.OrderUID(strings.Replace(retried.UID, "0", "1", 1), same.Key.Topic, same.Spec.OrderKey)
		outcome(t, s, retried, store.Created)
		is(t, s, retried)
		plain := strayed(s, "c")
		if _, _, err := s.reserve(t.Context(), []store.Registration{plain}); err != nil {
			t.Fatal(err)
		}
		outcome(t, s, aJob("c"), store.Created)
	})
	t.Run("a forward goes with its job", func(t *testing.T) {
		t.Parallel()
		s := open(t, 0)
		for n := range 30 {
			r := strayed(s, fmt.Sprint(n))
			outcome(t, s, r, store.Created)
			end(t, s, r.Key)
		}
		if signs := signsIn(t, s); len(signs) > 0 {
			t.Fatalf("left behind: %q", signs)
		}
	})
	t.Run("none is left behind at random", func(t *testing.T) {
		t.Parallel()
		s := open(t, 0)
		for seed := range uint64(20) {
			atRandom(t, s, rand.New(rand.NewPCG(seed, 0)))
			if signs := signsIn(t, s); len(signs) > 0 {
				t.Fatalf("seed %d: left behind: %q", seed, signs)
			}
		}
	})
	t.Run("resharding", func(t *testing.T) {
		t.Parallel()
		o := Options{URL: redis.URL(), Namespace: "ordered", Shards: 5, Retention: time.Hour}
		s, err := prepare(o, true)
		ok(t, "prepare", err)
		var all []store.Registration
		for n := range 60 {
			all = append(all, ordered(fmt.Sprint(n), fmt.Sprint("k", n%7)))
		}
		if _, err := s.Register(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		for _, shards := range []int{3, 1, 4} {
			o.Shards = shards
			report, err := Reshard(t.Context(), ReshardOptions{Options: o, Quiet: time.Millisecond, Patience: time.Minute})
			if err != nil || report.After.Unfinished != 60 {
				t.Fatalf("to %d shards: %+v, %v", shards, report, err)
			}
			s, err := prepare(o, true)
			ok(t, "prepare", err)
			for _, r := range all {
				is(t, s, r)
				outcome(t, s, r, store.Created) // itself
			}
			_ = s.Close()
		}
	})
}
