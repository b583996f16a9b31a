package redisstore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// A key that another program has written refuses registrations before anything of them is stored, and the store says that it
// takes none, and which key it is.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	db := redis.NewClient(&redis.Options{Addr: r.Addr()})
	t.Cleanup(func() { must.OK(t, db.Close()) })
	for _, name := range []string{"index", "lanes", "counts", "busy", "ranks"} {
		s := open(t, r.URL(), storetest.Options{})
		must.OK(t, s.Takes(t.Context()))
		key := job.Key{Topic: "t", ID: "a"}
		regs := []store.Registration{{Key: key, UID: store.BindUID("01M8KQXTCMASKQPERGG1TRHNRH", key), Spec: job.Spec{Destination: urlB, When: job.When{Delay: time.Hour}, Priority: job.PriorityOf(9)}}}
		foreign := s.shards[0].prefix + name
		must.OK(t, db.Set(t.Context(), foreign, "x", 0).Err())
		if err := s.Takes(t.Context()); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), foreign) {
			t.Errorf("%s: it takes jobs: %v", name, err)
		}
		if _, err := s.Register(t.Context(), regs); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: registered: %v", name, err)
		}
		must.OK(t, db.Del(t.Context(), foreign).Err())
		must.OK(t, s.Takes(t.Context()))
		if _, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: the job was stored: %v", name, err)
		}
		if out, err := s.Register(t.Context(), regs); err != nil || out[0].Outcome != store.Created {
			t.Errorf("%s: registered again: %v, %v", name, out, err)
		}
		must.OK(t, s.Takes(t.Context()))
		must.OK(t, s.Close())
	}
}

// A Redis that is full, cannot write its disk or follows another one takes no jobs, although it answers.
func TestTakes(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	db := redis.NewClient(&redis.Options{Addr: r.Addr()})
	t.Cleanup(func() { must.OK(t, db.Close()) })
	s := open(t, r.URL(), storetest.Options{Shards: 3})
	must.OK(t, s.Takes(t.Context()))
	for reason, change := range map[string][2][]any{
		"OOM":      {{"config", "set", "maxmemory", "1"}, {"config", "set", "maxmemory", "0"}},
		"READONLY": {{"replicaof", "127.0.0.1", "1"}, {"replicaof", "no", "one"}},
	} {
		must.OK(t, db.Do(t.Context(), change[0]...).Err())
		if err := s.Takes(t.Context()); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
		must.OK(t, s.Ping(t.Context()))
		must.OK(t, db.Do(t.Context(), change[1]...).Err())
		must.OK(t, s.Takes(t.Context()))
	}
	must.OK(t, s.Close())
}

// A memory policy that is changed while a node runs is noticed, once.
func TestPolicyIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	var log bytes.Buffer
	s := openAs(t, Options{URL: r.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must.OK(t, s.Ping(t.Context()))
	for _, policy := range []string{"allkeys-lru", "noeviction", "volatile-ttl"} {
		must.OK(t, s.db.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		for range 2 * policyEvery {
			must.OK(t, s.guard.look(t.Context()))
		}
		if n := strings.Count(log.String(), "maxmemory_policy="+policy); n != 1 {
			t.Errorf("%s is logged %d times: %s", policy, n, &log)
		}
	}
	must.OK(t, s.Close())
}
