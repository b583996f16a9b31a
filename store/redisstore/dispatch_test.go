package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// TestEndedByTime: whatever jobs end as, their list is in the order of time, or
// one would keep those behind it from being purged.
func TestEndedByTime(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	s := open(t, r.URL(), storetest.Options{Retention: time.Hour})
	t.Cleanup(func() { _ = s.Close() })
	ctx := t.Context()
	ends := []job.State{job.Delivered, job.Cancelled, job.Expired, job.Delivered}
	for _, to := range ends {
		_, err := s.Register(ctx, []store.Registration{{
			Key: job.Key{Topic: "t", ID: to.String()}, UID: ulid.Make().String(), Spec: job.Spec{Destination: urlA}, OnConflict: job.ConflictReplace,
		}})
		ok(t, "Register", err)
		o := outcome(takeFrom(t, s)[0], job.OutcomeDelivered)
		o.To = to
		settleWith(t, s, o)
	}
	now, err := s.serverNow(ctx, s.shards[0])
	ok(t, "time", err)
	entries, err := s.db.ZRangeWithScores(ctx, s.shards[0].ended("t"), 0, -1).Result()
	ok(t, "ZRANGE", err)
	if len(entries) != 3 { // the first delivered job was registered anew
		t.Fatalf("%v, want 3 entries", entries)
	}
	for _, e := range entries {
		if age := now.Sub(job.Instant(e.Score)); age < -time.Minute || age > time.Minute {
			t.Errorf("%v ended %v ago", e.Member, age)
		}
		if state, _ := decodeScore(e.Score); (state + job.Delivered).String() != e.Member {
			t.Errorf("%v is marked %v", e.Member, state+job.Delivered)
		}
	}
}

// A job ends now however old it is: its time of creation may have 12 digits.
func TestOldJobEndsNow(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	s := open(t, r.URL(), storetest.Options{Retention: time.Hour})
	t.Cleanup(func() { _ = s.Close() })
	ctx := t.Context()
	const then = job.Instant(900_000_000_000)
	old := job.Job{
		Key: job.Key{Topic: "t", ID: "old"}, UID: ulid.Make().String(), Spec: job.Spec{Destination: urlA},
		Version: 1, CreatedAt: then, UpdatedAt: then, DueAt: then, NextAt: then,
	}
	plant(t, s, old, nil)
	claims := takeFrom(t, s)
	settled, err := s.Settle(ctx, []job.Settlement{outcome(claims[0], job.OutcomeDelivered)})
	ok(t, "Settle", err)
	j, err := s.Get(ctx, old.Key)
	if ok(t, "Get", err); j.EndedAt != settled[0].EndedAt || j.EndedAt < claims[0].Now {
		t.Errorf("it ended at %d, and the answer says %d", j.EndedAt, settled[0].EndedAt)
	}
}

// A pop whose context ends returns what it has taken. Otherwise the jobs would wait for their
// visibility deadlines.
func TestPopReturnsWhatItTook(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	for command, want := range map[string]int{"lpop": 3, "blpop": 1} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			n := newNodes(t, r.URL(), 1)
			s := n.open()
			n.register(s, 3)
			_, err := s.Carry(t.Context(), 0, carryAll)
			n.ok(err)
			ctx, cancel := context.WithCancel(t.Context())
			s.pops.AddHook(&after{command: command, do: cancel})
			wait := time.Duration(0)
			if command == "blpop" {
				wait = time.Minute
			}
			if hints, err := s.Pop(ctx, 0, 10, wait); err != nil || len(hints) != want {
				t.Errorf("%d hints, %v; want %d", len(hints), err, want)
			}
			if left := s.db.LLen(t.Context(), s.shards[0].ready).Val(); left != int64(3-want) {
				t.Errorf("%d hints are left of 3", left)
			}
		})
	}
}

// after does something after each command of a name.
type after struct {
	breaks
	command string
	do      func()
}

func (a *after) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == a.command {
			a.do()
		}
		return err
	}
}
