package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/rules"
)

// TestFullRedis: a Redis without memory takes no new jobs, and everything else
// goes on, or it could not drain.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, testenv.WithMaxMemory("0"))
	s, err := prepare(Options{URL: server.URL(), Retention: time.Hour}, true)
	ok(t, "prepare", err)
	defer s.Close()
	const endpoint = "http://a.example:80"
	ctx := t.Context()
	o := store.CarryOptions{Cap: 10, Visibility: time.Minute, FlightLimits: store.FlightLimits{EndpointLimit: 10, HalfOpenLimit: 3}}
	due := aJob("due")
	due.Spec.When.Delay = 0
	if _, err := s.Register(ctx, []store.Registration{due, aJob("waits")}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutDocument(ctx, s, store.Document{Kind: "k", Name: "n"}); err != nil {
		t.Fatal(err)
	}
	ok(t, "ConfigSet", s.db.ConfigSet(ctx, "maxmemory", "1").Err())

	outcomes(t, s, []store.Registration{aJob("new"), aJob("newer")}, store.StoreFull, store.StoreFull)
	carry := func() int {
		t.Helper()
		r, err := s.Carry(ctx, 0, o)
		ok(t, "carrying", err)
		return len(r.Carried)
	}
	if err := s.SetCircuit(ctx, endpoint, store.CircuitOpen, time.Hour); err != nil {
		t.Error("holding:", err)
	}
	if n := carry(); n != 0 {
		t.Errorf("%d jobs were carried although the circuit is open", n)
	}
	if err := s.SetCircuit(ctx, endpoint, store.CircuitClosed, 0); err != nil {
		t.Error("ending the hold:", err)
	}
	testenv.Eventually(t, testenv.Patience, func() bool { return carry() == 1 }, "the job is carried after the hold")
	hints, err := s.Pop(ctx, 0, 10, time.Second)
	if err != nil || len(hints) != 1 {
		t.Fatalf("popped %v, %v", hints, err)
	}
	claims, err := s.Claim(ctx, 0, hints, store.ClaimOptions{Nonce: "n", Lease: time.Minute})
	if err != nil || len(claims) != 1 {
		t.Fatalf("claimed %v, %v", claims, err)
	}
	settled, err := s.Settle(ctx, []job.Settlement{
		job.Settle(&claims[0].Job, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: 1}}, nil),
	})
	if err != nil || settled[0].Status != store.Applied {
		t.Errorf("settled %v, %v", settled, err)
	}
	_, err = s.Update(ctx, job.Key{Topic: "t", ID: "waits"}, func(j *job.Job, now job.Instant) error {
		_, err := j.Cancel(now)
		return err
	})
	if err != nil {
		t.Error("cancelling:", err)
	}
	if _, err := store.PutDocument(ctx, s, store.Document{Kind: "k", Name: "n", Version: 1}); err != nil {
		t.Error("writing a document:", err)
	}
	if _, err := s.Purge(ctx, 10); err != nil {
		t.Error("purging:", err)
	}
}

// outcomes registers jobs and checks what becomes of each.
func outcomes(t *testing.T, s *Store, regs []store.Registration, want ...store.RegisterOutcome) {
	t.Helper()
	registered, err := s.Register(t.Context(), regs)
	ok(t, "registering", err)
	for i := range registered {
		must.Equal(t, fmt.Sprintf("registering %s: outcome", regs[i].Key), registered[i].Outcome, want[i])
	}
}

// fullRedis is a store that holds what fill registers, and then takes no more.
func fullRedis(t *testing.T, fill func(s *Store)) *Store {
	t.Helper()
	server := testenv.StartRedis(t, testenv.WithMaxMemory("0"))
	s, err := prepare(Options{URL: server.URL(), Retention: time.Hour}, true)
	ok(t, "prepare", err)
	t.Cleanup(func() { _ = s.Close() })
	fill(s)
	ok(t, "ConfigSet", s.db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	return s
}

// TestFullRedisDoesNotGrow: a client cannot make it keep more by changing its jobs. What needs no room goes on.
func TestFullRedisDoesNotGrow(t *testing.T) {
	t.Parallel()
	plain, counted, dead := aJob("plain"), aJob("counted"), aJob("dead")
	counted.Spec.Count = &job.Count{Target: 100, AtDeadline: job.DeadlineFires}
	dead.Spec.Callbacks = &job.Callbacks{}
	dead.Spec.Callbacks.Set(job.CallbackDead, &job.Callback{Destination: "https://b.example/"})
	update := func(s *Store, key job.Key, change func(j *job.Job, now job.Instant) error) error {
		_, err := s.Update(t.Context(), key, change)
		return err
	}
	count := func(s *Store, key string) error {
		_, err := s.Count(t.Context(), store.Count{Key: counted.Key, Adds: []job.Add{{N: 1, Key: key}}})
		return err
	}
	s := fullRedis(t, func(s *Store) {
		outcomes(t, s, []store.Registration{plain, counted, dead}, store.Created, store.Created, store.Created)
		ok(t, "bring the jobs there", errors.Join(count(s, "first"), update(s, dead.Key, (*job.Job).Finish)))
	})
	for name, err := range map[string]error{
		"a larger body": update(s, plain.Key, func(j *job.Job, _ job.Instant) error {
			j.Spec.Body = append(j.Spec.Body, "more"...)
			return nil
		}),
		"another round of callbacks": update(s, dead.Key, (*job.Job).Replay),
		"a key of a count":           count(s, "second"),
	} {
		if !errors.Is(err, store.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"a count without a key": count(s, ""),
		"a smaller body":        update(s, plain.Key, func(j *job.Job, _ job.Instant) error { j.Spec.Body = nil; return nil }),
		"running a job":         update(s, plain.Key, (*job.Job).Run),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFullRedisKnowsWhatItHas: what a full Redis refuses is not there, whatever
// has the key otherwise, and what is there it does not refuse. An earlier try of
// the client library may have taken a job in and lost its reply.
func TestFullRedisKnowsWhatItHas(t *testing.T) {
	t.Parallel()
	there, ended := aJob("there"), aJob("ended")
	s := fullRedis(t, func(s *Store) {
		outcomes(t, s, []store.Registration{there, ended}, store.Created, store.Created)
		_, err := s.Update(t.Context(), ended.Key, func(j *job.Job, now job.Instant) error {
			_, err := j.Cancel(now)
			return err
		})
		ok(t, "Update", err)
	})
	outcomes(t, s, []store.Registration{there}, store.Created) // the same call, sent again
	again := aJob("there")
	again.Spec = there.Spec
	other := aJob("there")
	other.Spec.Body, other.Spec.Content = []byte("other"), 2
	outcomes(t, s, []store.Registration{again, aJob("new")}, store.Same, store.StoreFull)
	outcomes(t, s, []store.Registration{other}, store.Exists)
	replacing := other
	replacing.OnConflict = job.ConflictReplace
	outcomes(t, s, []store.Registration{replacing}, store.StoreFull)
	outcomes(t, s, []store.Registration{aJob("ended")}, store.StoreFull)
	if _, err := s.Get(t.Context(), job.Key{Topic: "t", ID: "new"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was refused: %v", err)
	}
	if j, err := s.Get(t.Context(), ended.Key); err != nil || j.UID != ended.UID {
		t.Errorf("the job whose place another would have taken: %+v, %v", j, err)
	}
}

// TestFullRedisSheds: outcomes add little to a full Redis, though their jobs are larger.
func TestFullRedisSheds(t *testing.T) {
	t.Parallel()
	const large = 200 << 10
	var claims []store.Claimed
	s := fullRedis(t, func(s *Store) {
		var regs []store.Registration
		for _, id := range []string{"fails", "dies", "succeeds", "waits"} {
			r := aJob(id)
			r.Spec.Body, r.Spec.BodyForm = make([]byte, large), job.BodyText
			c := &job.Callbacks{IncludeRequest: true}
			for _, e := range job.CallbackEvents {
				c.Set(e, &job.Callback{Destination: "https://callbacks.example/"})
			}
			if r.Spec.Callbacks = c; id != "waits" {
				r.Spec.When.Delay = 0
			}
			regs = append(regs, r)
		}
		outcomes(t, s, regs, store.Created, store.Created, store.Created, store.Created)
		claims = claimAll(t, s, 3)
	})
	before := usedMemory(t, s)
	for _, c := range claims {
		o := job.Outcome{Kind: job.OutcomeFailed, Attempt: &job.Attempt{Number: 1}, Response: &job.Response{Body: make([]byte, large)}}
		switch c.Job.ID {
		case "dies":
			o.Kind = job.OutcomeRefused
		case "succeeds":
			o.Kind = job.OutcomeDelivered
		}
		settlement := job.Settle(&c.Job, o, func(int) (time.Duration, bool) { return time.Hour, true })
		settled, err := s.Settle(t.Context(), []job.Settlement{settlement})
		if err != nil || settled[0].Status != store.Applied || settled[0].Shed != job.ShedContent {
			t.Errorf("settled %s: %+v, %v", c.Job.ID, settled, err)
		}
	}
	if _, err := s.Update(t.Context(), job.Key{Topic: "t", ID: "waits"}, func(j *job.Job, now job.Instant) error {
		_, err := j.Cancel(now)
		return err
	}); err != nil {
		t.Error("cancelling:", err)
	}
	if grown := usedMemory(t, s) - before; grown > large/4 {
		t.Errorf("the full Redis has %d bytes more", grown)
	}
	page, err := listing.List(t.Context(), s, store.Query{Topic: "t", Limit: 100})
	ok(t, "List", err)
	found := map[string]int{}
	for i := range page.Jobs {
		j := &page.Jobs[i]
		found[cmp.Or(string(j.Spec.Reports), j.ID)] = len(j.Spec.Body)
	}
	if len(found) != 7 || found["dead"] > 1<<10 || found["delivered"] > 1<<10 || found["cancelled"] > 1<<10 {
		t.Errorf("the store has %v", found)
	}
}

// TestFullRedisShortensLogs: the attempts that follow on a full Redis make its logs shorter, with and without callbacks.
func TestFullRedisShortensLogs(t *testing.T) {
	t.Parallel()
	attempt := func(n int) *job.Attempt {
		return &job.Attempt{Number: n, StartedAt: 1, Status: 500, ResponseBody: strings.Repeat("x", 1<<10)}
	}
	const before = 50
	var claims []store.Claimed
	s := fullRedis(t, func(s *Store) {
		for _, id := range []string{"plain", "reported"} {
			j := aJob(id).Job(1)
			if id == "reported" {
				j.Spec.Callbacks = &job.Callbacks{}
				j.Spec.Callbacks.Set(job.CallbackDead, &job.Callback{Destination: "https://b.example/"})
			}
			j.State, j.Attempts, j.NextAt, j.LastAttempt = job.Retrying, before, 1, attempt(before)
			var log []job.Attempt
			for n := range before {
				log = append(log, *attempt(n + 1))
			}
			plant(t, s, j, log)
		}
		claims = claimAll(t, s, 2)
	})
	used := usedMemory(t, s)
	for _, c := range claims {
		settlement := job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeRefused, Attempt: attempt(before + 1)}, nil)
		settled, err := s.Settle(t.Context(), []job.Settlement{settlement})
		if err != nil || settled[0].Status != store.Applied {
			t.Errorf("settled %s: %+v, %v", c.Job.ID, settled, err)
		}
		log, err := store.Attempts(t.Context(), s, c.Job.Key)
		if n := len(log); err != nil || n == 0 || n > rules.LogBytes(true)>>10 || log[n-1].Number != before+1 {
			t.Errorf("%s has %d attempts, %v", c.Job.ID, n, err)
		}
	}
	if now := usedMemory(t, s); now > used/2 {
		t.Errorf("%d bytes of %d are left", now, used)
	}
}

// claimAll carries and claims the due jobs, of which there are n.
func claimAll(t *testing.T, s *Store, n int) []store.Claimed {
	t.Helper()
	var hints []store.Hint
	testenv.Eventually(t, testenv.Patience, func() bool {
		_, err := s.Carry(t.Context(), 0, store.CarryOptions{Cap: 10, Visibility: time.Minute, FlightLimits: store.FlightLimits{EndpointLimit: 10, HalfOpenLimit: 3}})
		ok(t, "Carry", err)
		more, err := s.Pop(t.Context(), 0, 10, time.Millisecond)
		ok(t, "Pop", err)
		hints = append(hints, more...)
		return len(hints) == n
	}, "the jobs are carried")
	claims, err := s.Claim(t.Context(), 0, hints, store.ClaimOptions{Nonce: "n", Lease: time.Minute})
	if err != nil || len(claims) != n {
		t.Fatalf("claimed %d jobs, %v", len(claims), err)
	}
	return claims
}

// usedMemory is what the keys of Redis take.
func usedMemory(t *testing.T, s *Store) (bytes int64) {
	t.Helper()
	keys, err := s.db.Keys(t.Context(), "*").Result()
	ok(t, "Keys", err)
	for _, key := range keys {
		n, err := s.db.MemoryUsage(t.Context(), key, 0).Result()
		ok(t, "MemoryUsage", err)
		bytes += n
	}
	return bytes
}
