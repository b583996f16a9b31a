package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// TestRaceReplacingWhatChanges lets somebody else get in between the steps of
// replacing a job.
func TestRaceReplacingWhatChanges(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	change := func(t *testing.T, sc *scene) {
		_, err := sc.sure.Update(t.Context(), sc.waiting, func(j *job.Job, now job.Instant) error {
			return j.Reschedule(job.When{Delay: time.Hour}, now)
		})
		ok(t, "Update", err)
	}
	forget := func(t *testing.T, sc *scene) {
		sh := sc.sure.shards[0]
		r, err := sc.sure.load(t.Context(), sh, sc.waiting)
		ok(t, "load", err)
		ok(t, "HDEL", sc.sure.db.HDel(t.Context(), sh.page(sc.waiting), fieldsOf(sc.waiting)...).Err())
		ok(t, "ZREM", sc.sure.db.ZRem(t.Context(), sh.bucket(r.Lane().String()), sc.waiting.ID).Err())
	}
	once, always := 1, store.MaxTries+1
	for _, c := range []struct {
		name   string
		before *redis.Script
		do     func(*testing.T, *scene)
		times  int
		want   store.RegisterOutcome
	}{
		{"it changes before it is read", readScript, change, once, store.Created},
		{"it changes before it is replaced", takeScript, change, once, store.Created},
		{"it is forgotten before it is read", readScript, forget, once, store.Created},
		{"it is forgotten before it is replaced", takeScript, forget, once, store.Created},
		{"it changes all the time", takeScript, change, always, store.Busy},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := startLiar(t, r)
			sc := newScene(t, r, l.url())
			done := 0
			l.tell(func(cmd []string) string {
				if runs(cmd, c.before) && done < c.times {
					done++
					c.do(t, sc)
				}
				return truth
			})
			reg := sc.regs[1]
			out, err := sc.s.Register(t.Context(), []store.Registration{reg})
			if done == 0 {
				t.Fatal("nothing got in between")
			}
			ok(t, "Register", err)
			if out[0].Outcome != c.want {
				t.Fatalf("the outcome is %v, want %v", out[0].Outcome, c.want)
			}
			if c.want == store.Busy {
				return
			}
			j, err := sc.sure.Get(t.Context(), reg.Key)
			ok(t, "Get", err)
			if j.UID != reg.UID {
				t.Errorf("the job is %s, want %s", j.UID, reg.UID)
			}
		})
	}
}

// TestRaceBrokenOffBatch: when one shard fails, the caller knows nothing of the
// others. Calling again gives every answer, and does nothing twice.
func TestRaceBrokenOffBatch(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := startLiar(t, r)
	sc := newScene(t, r, l.url())
	ctx := t.Context()
	failing := func(script *redis.Script) {
		l.tell(func(cmd []string) string {
			if runs(cmd, script) && slices.Contains(cmd, sc.s.shards[1].lanes) {
				return refusal("BUSY Redis is busy running a script.")
			}
			return truth
		})
	}
	stats := func() store.TopicStats {
		t.Helper()
		return topicStats(t, sc.sure)
	}

	regs := []store.Registration{sc.reg(1, "batch"), sc.reg(0, "batch")}
	before := stats().States[job.Waiting]
	failing(registerScript)
	if _, err := sc.s.Register(ctx, regs); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Register: %v", err)
	}
	l.tell(nil)
	out, err := sc.s.Register(ctx, regs)
	ok(t, "Register", err)
	if out[0].Outcome != store.Created || out[1].Outcome != store.Created || stats().States[job.Waiting] != before+2 {
		t.Errorf("registered %v, %v", out, stats())
	}

	settlements := []job.Settlement{outcome(sc.claims[1], job.OutcomeFailed), outcome(sc.claims[0], job.OutcomeFailed)}
	before = stats().States[job.Dead]
	// The shards are asked at the same time, so a failure may keep the other one from being
	// asked at all. Here it has been.
	_, err = sc.s.Settle(ctx, settlements[1:])
	ok(t, "Settle", err)
	failing(settleScript)
	if _, err := sc.s.Settle(ctx, settlements); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Settle: %v", err)
	}
	l.tell(nil)
	settled, err := sc.s.Settle(ctx, settlements)
	ok(t, "Settle", err)
	var repeated []bool
	for i, s := range settled {
		repeated = append(repeated, s.Repeated)
		if log, err := store.Attempts(ctx, sc.sure, settlements[i].Key); err != nil || s.Status != store.Applied || len(log) != 1 {
			t.Errorf("%s: status %d, log %v, %v", settlements[i].Key, s.Status, log, err)
		}
	}
	if diff := cmp.Diff([]bool{false, true}, repeated); diff != "" || stats().States[job.Dead] != before+2 {
		t.Errorf("repeated (-want +got):\n%s%v", diff, stats())
	}
}

// TestRacePopOfALeaver lets a hint arrive just when its caller leaves. The pop returns it, so that
// the job is claimed and released.
func TestRacePopOfALeaver(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := startLiar(t, r)
	sc := newScene(t, r, l.url())
	ready := sc.s.shards[1].ready
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.tell(func(cmd []string) string {
		switch {
		case strings.EqualFold(cmd[0], "blpop"):
			cancel()
		case strings.EqualFold(cmd[0], "client") && strings.EqualFold(cmd[1], "unblock"):
			ok(t, "RPUSH", sc.sure.db.RPush(t.Context(), ready, "t|M|http://a.example:80|late").Err())
		}
		return truth
	})
	if hints, err := sc.s.Pop(ctx, 1, 1, maxPopWait); err != nil || len(hints) != 1 || hints[0].ID != "late" {
		t.Errorf("popped %v, %v", hints, err)
	}
}

// TestRacePipelineFailsInPart: an answer of nothing, which is no error, must not
// hide that a later command failed.
func TestRacePipelineFailsInPart(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := startLiar(t, r)
	sc := newScene(t, r, l.url())
	n := 0
	l.tell(func(cmd []string) string {
		if !strings.EqualFold(cmd[0], "zscore") || !strings.HasPrefix(cmd[1], sc.s.shards[0].prefix) {
			return truth
		}
		if n++; n == 1 {
			return nothing
		}
		return refusal("BUSY Redis is busy running a script.")
	})
	page, err := listing.List(t.Context(), sc.s, store.Query{BizKey: "b", Limit: 100})
	if n < 2 || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("after %d scores: %d jobs, %v; want ErrUnavailable", n, len(page.Jobs), err)
	}
}

// TestLostLock: Extend and Unlock report a lock that another node has taken, and
// leave the lock of that node as it is.
func TestLostLock(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	ctx := t.Context()
	name := sc.s.shards[0].lock
	ok(t, "SET", sc.s.db.Set(ctx, name, "another", time.Minute).Err())
	if held, err := sc.locker.Extend(ctx); held || err != nil {
		t.Errorf("Extend: %t, %v", held, err)
	}
	if left, err := sc.s.db.TTL(ctx, name).Result(); left > time.Minute || err != nil {
		t.Errorf("the other's lock lasts %v, %v: it was extended", left, err)
	}
	ok(t, "Unlock", sc.locker.Unlock(ctx))
	if value, err := sc.s.db.Get(ctx, name).Result(); value != "another" || err != nil {
		t.Errorf("the lock is %q, %v", value, err)
	}
	ok(t, "Close", sc.s.Close())
	if err := sc.locker.Unlock(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Unlock after Close: %v", err)
	}
}

// TestBadUID: a job whose uid cannot be kept is refused, and nothing is stored.
func TestBadUID(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	ctx := t.Context()
	reg := sc.reg(0, "bad")
	for _, uid := range []string{"", "short", strings.Repeat("U", ulid.EncodedSize)} {
		reg.UID = uid
		if _, err := sc.s.Register(ctx, []store.Registration{reg}); !errors.Is(err, errUID) {
			t.Errorf("Register with uid %q: %v", uid, err)
		}
	}
	if _, err := sc.s.Get(ctx, reg.Key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
}
