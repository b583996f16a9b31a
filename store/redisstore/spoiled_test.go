package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// TestUnreadableRecords spoils what is stored of some jobs. The others must
// not suffer, and what is left of the spoiled ones goes its way.
func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	ctx := t.Context()
	var log bytes.Buffer
	sc.s.log = slog.New(slog.NewTextHandler(&log, nil))
	logged := func(what string) {
		t.Helper()
		if !strings.Contains(log.String(), what) {
			t.Errorf("the log does not tell that %s:\n%s", what, &log)
		}
		log.Reset()
	}
	const registration, progress = 0, 1
	spoil := func(key job.Key, part int, change func(text string) string) {
		t.Helper()
		page, field := sc.s.shards[sc.s.shardOf(key)].page(key), fieldsOf(key)[part]
		text, err := sc.s.db.HGet(ctx, page, field).Result()
		ok(t, "HGET", err)
		ok(t, "HSET", sc.s.db.HSet(ctx, page, field, change(text)).Err())
	}
	garble := func(raw string) string {
		head, rest, _ := strings.Cut(raw, "\n")
		return head + "\n" + rest[:uidLen] + strings.Repeat("\xc1", len(rest)-uidLen)
	}
	count := func() int {
		page, err := listing.List(ctx, sc.s, store.Query{Limit: 1000})
		ok(t, "List", err)
		return len(page.Jobs)
	}
	all := count()

	spoil(sc.waiting, registration, garble)
	if n := count(); n != all-1 {
		t.Errorf("%d jobs are listed, want %d", n, all-1)
	}
	logged("a job's record cannot be read")
	if _, err := sc.s.Get(ctx, sc.waiting); !errors.Is(err, errRecord) {
		t.Errorf("Get: %v", err)
	}
	if _, err := listing.Outlook(ctx, sc.s, sc.waiting); !errors.Is(err, errRecord) {
		t.Errorf("Outlook: %v", err)
	}

	spoil(sc.dead, progress, func(raw string) string { return raw[:len(raw)-1] })
	if n := count(); n != all-1 {
		t.Errorf("%d jobs are listed, want %d: only the log is cut short", n, all-1)
	}
	logged("a job's log cannot be read")
	if _, err := store.Attempts(ctx, sc.s, sc.dead); !errors.Is(err, errRecord) {
		t.Errorf("Attempts: %v", err)
	}

	_, err := sc.s.Carry(ctx, 0, carryAll)
	ok(t, "Carry", err)
	hints, err := sc.s.Pop(ctx, 0, 10, 0)
	ok(t, "Pop", err)
	claims, err := sc.s.Claim(ctx, 0, hints, terms())
	ok(t, "Claim", err)
	if len(hints) != 2 || len(claims) != 1 || claims[0].Job.Key != sc.hint.Key() {
		t.Errorf("of %v were claimed %v", hints, claims)
	}
	logged("a job's record cannot be read")

	_, err = sc.s.Update(ctx, sc.waiting, func(*job.Job, job.Instant) error { return nil })
	if !errors.Is(err, store.ErrUnreadable) || !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Update: %v", err)
	}
	if j, err := sc.s.Get(ctx, sc.dead); err != nil || j.State != job.Dead {
		t.Errorf("%+v, %v; the job is there, only its log is not", j, err)
	}

	topic := topicStats(t, sc.s)
	done := topic.States[job.Delivered]
	for shard := range 2 {
		ids, err := sc.s.db.ZRange(ctx, sc.s.shards[shard].ended("t"), 0, -1).Result()
		ok(t, "ZRANGE", err)
		for _, id := range ids {
			spoil(job.Key{Topic: "t", ID: id}, registration, garble)
		}
	}
	if n, err := sc.s.Purge(ctx, 100); err != nil || int64(n) != done || done == 0 {
		t.Errorf("purged %d of %d, %v", n, done, err)
	}
}

// TestReplacingUnreadable: a name whose record cannot be read can be registered
// anew, and nothing is left of what had it.
func TestReplacingUnreadable(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	ctx := t.Context()
	write := func(part int) func(*testing.T, *Store, string, []string) {
		return func(t *testing.T, s *Store, page string, fields []string) {
			ok(t, "HSET", s.db.HSet(t.Context(), page, fields[part], "not a record").Err())
		}
	}
	lose := func(t *testing.T, s *Store, page string, fields []string) {
		ok(t, "HDEL", s.db.HDel(t.Context(), page, fields[0]).Err())
	}
	for _, c := range []struct {
		name  string
		key   job.Key
		spoil func(t *testing.T, s *Store, page string, fields []string)
	}{
		{"in a bucket", sc.waiting, write(0)},
		{"claimed, only its progress", sc.claims[0].Job.Key, write(1)},
		{"carried", sc.hint.Key(), write(0)},
		{"dead, and only its progress is there", sc.dead, lose},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := topicStats(t, sc.s)
			sh := sc.s.shards[sc.s.shardOf(c.key)]
			c.spoil(t, sc.s, sh.page(c.key), fieldsOf(c.key))
			anew := store.Registration{Key: c.key, UID: ulid.Make().String(), Spec: job.Spec{Destination: urlB, When: job.When{Delay: time.Hour}}}
			out, err := sc.s.Register(ctx, []store.Registration{anew})
			ok(t, "Register", err)
			if out[0].Outcome != store.Created {
				t.Fatalf("outcome %v", out[0].Outcome)
			}
			if j, err := sc.s.Get(ctx, c.key); err != nil || j.UID != anew.UID || j.State != job.Waiting {
				t.Errorf("%+v, %v", j, err)
			}
			after := topicStats(t, sc.s)
			var was, is int64
			for _, state := range job.States {
				was, is = was+before.States[state], is+after.States[state]
			}
			if was != is {
				t.Errorf("%v jobs were counted, now %v", before.States, after.States)
			}
			groups, err := sc.s.db.Keys(ctx, sh.dead("*")).Result()
			ok(t, "KEYS", err)
			for _, old := range append(groups, sh.bucket("t|M|http://a.example:80"), sh.ended("t")) {
				if err := sc.s.db.ZScore(ctx, old, c.key.ID).Err(); !isNil(err) {
					t.Errorf("still in %s: %v", old, err)
				}
			}
		})
	}
	for _, sh := range sc.s.shards {
		of, err := sc.s.counts(ctx, sh, ofEndpoint, []string{"http://a.example:80"})
		ok(t, "counts", err)
		if n := sc.s.db.ZCount(ctx, sh.bucket("t|M|http://a.example:80"), "-inf", "(0").Val(); of[0][job.Ready]+of[0][job.Running] != n {
			t.Errorf("%v jobs of the endpoint are counted, %d are in flight", of[0], n)
		}
	}
}

// TestSpoiledHead: a record of which a part has no head is claimed by nobody,
// and holds up no other job of its batch.
func TestSpoiledHead(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	const registration, progress = 0, 1
	spoiledHead(t, r, registration, "not a record")
	spoiledHead(t, r, progress, "not a record")
	spoiledHead(t, r, progress, "0"+strings.Repeat(" ", progressFields-1)+"\nof another's uid")
}

func spoiledHead(t *testing.T, r *testenv.Redis, part int, text string) {
	t.Helper()
	sc := newScene(t, r, r.URL())
	ctx := t.Context()
	_, err := sc.s.Carry(ctx, 0, carryAll)
	ok(t, "Carry", err)
	hints, err := sc.s.Pop(ctx, 0, 10, 0)
	ok(t, "Pop", err)
	if len(hints) != 2 {
		t.Fatalf("popped %v, want two", hints)
	}
	spoiled := hints[0].Key()
	ok(t, "HSET", sc.s.db.HSet(ctx, sc.s.shards[0].page(spoiled), fieldsOf(spoiled)[part], text).Err())
	claims, err := sc.s.Claim(ctx, 0, hints, terms())
	ok(t, "Claim", err)
	if len(claims) != 1 || claims[0].Job.Key != hints[1].Key() {
		t.Errorf("of %v were claimed %v", hints, claims)
	}
}

// TestForeignEntries: what others left under our names is passed by.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	ctx := t.Context()
	sh := sc.s.shards[0]
	topics, err := listing.Topics(ctx, sc.s, store.TopicQuery{Limit: 10})
	ok(t, "Topics", err)
	ok(t, "HSET", sc.s.db.HSet(ctx, sh.counts, "t|many", 1, "t|300", 1, "other|1", "many", "t|6", "many").Err())
	again, err := listing.Topics(ctx, sc.s, store.TopicQuery{Limit: 10})
	ok(t, "Topics", err)
	if len(topics.Topics) != 1 || len(again.Topics) != 1 || len(again.Topics[0].States) != len(topics.Topics[0].States) {
		t.Errorf("topics %v, then %v", topics, again)
	}
	stats := topicStats(t, sc.s)
	if stats.States[job.Cancelled] != topics.Topics[0].States[job.Cancelled] {
		t.Errorf("topic %v, want %v", stats, topics.Topics[0])
	}

	ok(t, "LPUSH", sc.s.db.LPush(ctx, sh.ready, "no hint", "a|b").Err())
	hints, err := sc.s.Pop(ctx, 0, 10, 0)
	if err != nil || !slices.Equal(hints, []store.Hint{sc.hint}) {
		t.Errorf("popped %v, %v; want %v", hints, err, sc.hint)
	}

	for _, text := range []string{"1", "first\ndata"} {
		ok(t, "HSET", sc.s.db.HSet(ctx, sc.s.docs("kind"), "spoiled", text).Err())
		if _, err := sc.s.ListDocuments(ctx, store.DocumentQuery{Kind: "kind"}); !errors.Is(err, errDocument) {
			t.Errorf("documents with %q: %v", text, err)
		}
	}
}

// TestReplacingUnreadableTurns: a name whose record cannot be read holds its order key until it
// is registered anew.
func TestReplacingUnreadableTurns(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	for _, shards := range []int{1, 5} {
		s := openAs(t, Options{URL: r.URL(), Shards: shards, Retention: time.Hour})
		ok(t, "SetLimits", s.SetLimits(t.Context(), "t", store.Limits{StopOnDead: true}))
		for n, c := range []struct {
			name  string
			spoil string // id
			begin func(claims []store.Claimed)
			part  int
		}{
			{name: "the head", spoil: "a"},
			{name: "the head in flight, only its progress", spoil: "a", begin: func([]store.Claimed) {}, part: 1},
			{name: "a dead letter that stops the key", spoil: "a", begin: func(claims []store.Claimed) {
				settleWith(t, s, outcome(claims[0], job.OutcomeFailed))
			}},
			{name: "a job that waits", spoil: "b"},
		} {
			t.Run(fmt.Sprintf("%s, shards=%d", c.name, shards), func(t *testing.T) {
				orderKey := fmt.Sprint(n)
				if shards > 1 {
					orderKey = strayed(s, fmt.Sprint(n, c.spoil)).Spec.OrderKey
				}
				id := func(name string) string { return fmt.Sprint(n, name) }
				for at, name := range []string{"a", "b", "c"} {
					reg := ordered(id(name), orderKey)
					reg.Spec.When = job.When{Delay: time.Duration(at) * time.Millisecond}
					mustRegister(t, s, reg)
				}
				if c.begin != nil {
					c.begin(takeFrom(t, s))
				}
				key := job.Key{Topic: "t", ID: id(c.spoil)}
				sh := s.shards[s.shardFor(key, orderKey)]
				ok(t, "HSET", s.db.HSet(t.Context(), sh.page(key), fieldsOf(key)[c.part], "not a record").Err())

				anew := aJob(key.ID)
				anew.Spec.When = job.When{Delay: time.Hour}
				if got := mustRegister(t, s, anew); got.Outcome != store.Created {
					t.Fatalf("outcome %d", got.Outcome)
				}
				var delivered []string
				testenv.Eventually(t, testenv.Patience, func() bool {
					for _, claim := range takeFrom(t, s) {
						delivered = append(delivered, claim.Job.ID)
						settleWith(t, s, outcome(claim, job.OutcomeDelivered))
					}
					return len(delivered) >= 2
				}, "the others are delivered")
				want := slices.DeleteFunc([]string{id("a"), id("b"), id("c")}, func(other string) bool { return other == key.ID })
				if diff := cmp.Diff(want, delivered); diff != "" {
					t.Errorf("delivered (-want +got):\n%s", diff)
				}
				for _, sh := range s.shards {
					if heads, waiting := s.db.HLen(t.Context(), sh.prefix+"heads").Val(), s.db.ZCard(t.Context(), sh.prefix+"turns").Val(); heads+waiting > 0 {
						t.Errorf("%d heads and %d others are left", heads, waiting)
					}
				}
			})
		}
	}
}
