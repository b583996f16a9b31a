package redisstore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/storetest"
)

// trips counts round trips to Redis.
type trips struct{ n atomic.Int64 }

func (*trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(1); return next(ctx, cmds) }
}

// commands is how many commands Redis has run since the last call, those of scripts included.
func commands(t testing.TB, s *Store) (n int) {
	t.Helper()
	stats, err := s.db.Info(t.Context(), "commandstats").Result()
	ok(t, "INFO", err)
	for line := range strings.Lines(stats) {
		var of int
		if _, figures, found := strings.Cut(line, ":calls="); found {
			_, err := fmt.Sscanf(figures, "%d,", &of)
			ok(t, line, err)
			n += of
		}
	}
	ok(t, "CONFIG RESETSTAT", s.db.ConfigResetStat(t.Context()).Err())
	return n
}

// withTopics is a store with so many topics, each with a job of its own that is due
// within a day or, if ended, has been delivered.
func withTopics(t testing.TB, r *testenv.Redis, topics int, ended bool) (*Store, *trips) {
	t.Helper()
	s := open(t, r.URL(), storetest.Options{Retention: time.Millisecond})
	t.Cleanup(func() { _ = s.Close() })
	regs := make([]store.Registration, topics)
	for n := range regs {
		regs[n] = waitingJob(n)
		regs[n].Key.Topic = fmt.Sprintf("topic-%06d", n)
		regs[n].Spec.When.Delay = time.Duration(n*8_641%86_400_000) * time.Millisecond
		if ended {
			regs[n].Spec.When.Delay = 0
		}
	}
	_, err := s.Register(t.Context(), regs)
	ok(t, "Register", err)
	for done := 0; ended && done < topics; {
		_, err := s.Carry(t.Context(), 0, store.CarryOptions{Cap: maxBatch, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}})
		ok(t, "Carry", err)
		hints, err := s.Pop(t.Context(), 0, maxBatch, 0)
		ok(t, "Pop", err)
		claims, err := s.Claim(t.Context(), 0, hints, terms())
		ok(t, "Claim", err)
		settlements := make([]job.Settlement, len(claims))
		for i, c := range claims {
			settlements[i] = outcome(c, job.OutcomeDelivered)
		}
		_, err = s.Settle(t.Context(), settlements)
		ok(t, "Settle", err)
		done += len(claims)
	}
	c := &trips{}
	s.db.AddHook(c)
	commands(t, s)
	c.n.Store(0)
	return s, c
}

// What is asked for often takes as much with many topics as with few.
func TestManyTopicsAreNoMoreWork(t *testing.T) {
	t.Parallel()
	questions := map[string]struct {
		most int // commands
		ask  func(ctx context.Context, s *Store) error
	}{
		"Depth": {10, func(ctx context.Context, s *Store) error { return second(listing.Depth(ctx, s)) }},
		"Busiest topics": {10, func(ctx context.Context, s *Store) error {
			return second(listing.Topics(ctx, s, store.TopicQuery{Busiest: true, Limit: 10}))
		}},
		"Topics": {10, func(ctx context.Context, s *Store) error {
			return second(listing.Topics(ctx, s, store.TopicQuery{Limit: 100}))
		}},
		"Topics by a part": {20, func(ctx context.Context, s *Store) error {
			return second(listing.Topics(ctx, s, store.TopicQuery{Part: "c-00", Limit: 100}))
		}},
		"Topic": {10, func(ctx context.Context, s *Store) error {
			return second(listing.Topics(ctx, s, store.TopicQuery{Topic: "topic-000007", Limit: 1}))
		}},
		"DueCounts of a topic": {20, func(ctx context.Context, s *Store) error {
			return second(listing.DueCounts(ctx, s, store.DueOf{Topic: "topic-000007"}, []job.Instant{1, 2}))
		}},
		"Endpoints": {10, func(ctx context.Context, s *Store) error {
			return second(listing.Endpoints(ctx, s, store.EndpointQuery{Limit: 100}))
		}},
		"Backlogs": {20, func(ctx context.Context, s *Store) error { return second(listing.Backlogs(ctx, s)) }},
		"Outlook": {20, func(ctx context.Context, s *Store) error {
			return second(listing.Outlook(ctx, s, job.Key{Topic: "topic-000007", ID: waitingJob(7).Key.ID}))
		}},
		"List of a topic": {20, func(ctx context.Context, s *Store) error {
			return second(listing.List(ctx, s, store.Query{Topic: "topic-000007", Limit: 100}))
		}},
		"SetLimits": {20, func(ctx context.Context, s *Store) error {
			return s.SetLimits(ctx, "topic-000007", store.Limits{Paused: true})
		}},
		"CloseCircuit": {20, func(ctx context.Context, s *Store) error { return s.SetCircuit(ctx, endpointB, store.CircuitClosed, 0) }},
		"Purge":        {10, func(ctx context.Context, s *Store) error { return second(s.Purge(ctx, 500)) }},
		// The budget is cut to that. The last lanes may overstep it.
		"DueCounts": {1_000 + 100 + 30, func(ctx context.Context, s *Store) error {
			return second(listing.DueCounts(ctx, s, store.DueOf{Most: 2_000}, []job.Instant{1, 2})) // one command and one entry of each lane
		}},
	}
	s, _ := withTopics(t, testenv.StartRedis(t), 5_000, false)
	for name, q := range questions {
		ok(t, name, q.ask(t.Context(), s))
		commands(t, s)
		ok(t, name, q.ask(t.Context(), s))
		if n := commands(t, s); n > q.most {
			t.Errorf("%s: %d commands with 5,000 topics, want %d at most", name, n, q.most)
		}
	}
}

// Lanes that are not counted are told of.
func TestDueCountsArePartial(t *testing.T) {
	t.Parallel()
	s, _ := withTopics(t, testenv.StartRedis(t), 1_000, false)
	now, err := s.askNow(t.Context(), s.shards[0])
	ok(t, "askNow", err)
	all, err := listing.DueCounts(t.Context(), s, store.DueOf{}, []job.Instant{now.Add(time.Hour)})
	ok(t, "DueCounts", err)
	if all.PartialFrom != 0 || all.Counts[0]+all.Counts[1] != 1_000 {
		t.Errorf("of 1,000 jobs are counted %v", all)
	}
	few := store.DueOf{Most: 800}
	some, err := listing.DueCounts(t.Context(), s, few, []job.Instant{now.Add(time.Hour)})
	ok(t, "DueCounts", err)
	counted := some.Counts[0] + some.Counts[1]
	if counted < 400 || counted > 600 || some.PartialFrom == 0 {
		t.Fatalf("with a budget of 400 are counted %v", some)
	}
	// What is before the first lane that was left out is complete.
	before, err := listing.DueCounts(t.Context(), s, few, []job.Instant{some.PartialFrom})
	ok(t, "DueCounts", err)
	want, err := listing.DueCounts(t.Context(), s, store.DueOf{}, []job.Instant{some.PartialFrom})
	ok(t, "DueCounts", err)
	if before.Counts[0] != want.Counts[0] || want.Counts[0] != counted {
		t.Errorf("before %d are counted %v, then %v, then %v", some.PartialFrom, some, before, want)
	}
}

// Purging goes by batches over topics.
func TestPurgeOfManyTopics(t *testing.T) {
	t.Parallel()
	const topics = 2_000
	s, c := withTopics(t, testenv.StartRedis(t), topics, true)
	since, err := s.askNow(t.Context(), s.shards[0])
	ok(t, "askNow", err)
	for now := since; now < since+3; now, err = s.askNow(t.Context(), s.shards[0]) { // the retention has passed
		ok(t, "askNow", err)
	}
	c.n.Store(0)
	purged := 0
	for {
		n, err := s.Purge(t.Context(), 500)
		ok(t, "Purge", err)
		if purged += n; n == 0 {
			break
		}
	}
	if most := int64(topics / 100 * 10); purged != topics || c.n.Load() > most {
		t.Errorf("purged %d jobs in %d round trips, want %d in %d at most", purged, c.n.Load(), topics, most)
	}
	page, err := listing.Topics(t.Context(), s, store.TopicQuery{Limit: 10})
	ok(t, "Topics", err)
	keys, err := s.db.Keys(t.Context(), "*").Result()
	ok(t, "KEYS", err)
	if len(page.Topics) != 0 || len(keys) != 2 { // those of the layout and of the plan
		t.Errorf("left are %v and %v", page.Topics, keys)
	}
}

// What purging reads at once is bounded by bytes.
func TestPurgeOfLargeJobs(t *testing.T) {
	t.Parallel()
	s := open(t, testenv.StartRedis(t).URL(), storetest.Options{Retention: time.Millisecond})
	t.Cleanup(func() { _ = s.Close() })
	const n = 12
	for i := range n {
		r := waitingJob(i)
		r.Spec.Body, r.Spec.BizKey = make([]byte, 300<<10), fmt.Sprint("biz-", i%2)
		_, err := s.Register(t.Context(), []store.Registration{r})
		ok(t, "Register", err)
		ended, err := s.Update(t.Context(), r.Key, func(j *job.Job, now job.Instant) error {
			_, err := j.Cancel(now)
			return err
		})
		ok(t, "Update", err)
		for now := ended.EndedAt; now <= ended.EndedAt+1; now, err = s.askNow(t.Context(), s.shards[0]) { // the retention has passed
			ok(t, "askNow", err)
		}
	}
	c := &trips{}
	s.db.AddHook(c)
	purged, err := s.Purge(t.Context(), 100)
	ok(t, "Purge", err)
	keys, err := s.db.Keys(t.Context(), "*").Result()
	ok(t, "KEYS", err)
	if purged != n || len(keys) != 1 { // that of the layout
		t.Errorf("purged %d jobs, left are %v", purged, keys)
	}
	// Four registrations at a time are read and forgotten, beside what finds them.
	if trips := c.n.Load(); trips < 2*n/4 || trips >= 2*n {
		t.Errorf("%d round trips", trips)
	}
}
