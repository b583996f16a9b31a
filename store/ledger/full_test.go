package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// limited is a node on a Redis of its own, whose memory limit sets.
func limited(t *testing.T, b *backend) (r *rig, client *goredis.Client, limit func(bytes int64)) {
	t.Helper()
	redis := testenv.StartRedis(t, testenv.WithMaxMemory("0"))
	client = redisClient(t, redis)
	return node(t, b, redis.URL(), newName(), b.Fresh(t), quick), client, func(bytes int64) {
		t.Helper()
		noError(t, "CONFIG SET maxmemory", client.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(bytes)).Err())
	}
}

// heavy is a registration that takes some memory.
func heavy(id string) store.Registration {
	g := reg(id, 100*time.Hour)
	g.UID = fmt.Sprintf("01%024d", rand.Uint64())
	g.Spec.Body = make([]byte, 4<<10)
	return g
}

const openMessages = "SELECT id FROM message WHERE done_at IS NULL ORDER BY id"

// A job that a full Redis refuses leaves nothing in the ledger that a pass would put
// back later, and takes nothing from what was there.
func TestFullRedisRefuses(t *testing.T) {
	onRealServers(t, func(t *testing.T, b *backend) {
		r, client, limit := limited(t, b)
		r.Add(heavy("a"))
		r.Add(reg("dead", 0))
		r.RunOne(job.OutcomeFailed, -1)
		r.Add(heavy("ended"))
		r.Change("ended", cancel)
		want := r.All()
		limit(1)
		over, dead := heavy("a"), heavy("dead")
		over.OnConflict, over.Spec.Destination, dead.OnConflict = job.ConflictReplace, "http://a.example/other", job.ConflictReplace
		for _, g := range []store.Registration{heavy("b"), heavy("c"), dead, heavy("ended"), over} {
			r.RegisterAs(store.StoreFull, g)
		}
		equal(t, "open messages", r.Query(openMessages), []string{"a", "dead"})
		limit(0)
		report, err := r.CompareOnce(t.Context())
		noError(t, "CompareOnce", err)
		equal(t, "restored", report.Restored, int64(0))
		equal(t, "jobs", r.All(), want)
		r.agree()

		// After all has been lost, what was acknowledged comes back, and no more.
		noError(t, "FLUSHALL", client.FlushAll(t.Context()).Err())
		_, err = r.CompareOnce(t.Context())
		noError(t, "CompareOnce", err)
		equal(t, "unfinished", r.unfinished(), 1)
		if _, err := r.Get(t.Context(), key("b")); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("what was refused: %v", err)
		}
		equal(t, "the dead letter", r.Job("dead").State, job.Dead)
	})
}

// What was acknowledged and lost waits in the ledger for room in the store,
// which goes on forgetting what has ended so that there is some.
func TestRaceFullRedisGetsJobsBackWhenThereIsRoom(t *testing.T) {
	onRealServers(t, func(t *testing.T, b *backend) {
		r, client, limit := limited(t, b)
		const jobs = 40
		for n := range jobs {
			r.Add(heavy(fmt.Sprint(n)))
		}
		noError(t, "FLUSHALL", client.FlushAll(t.Context()).Err())
		limit(1)
		report, err := r.CompareOnce(t.Context())
		noError(t, "CompareOnce", err)
		equal(t, "report", report, store.RestoreReport{Checked: jobs, NoRoom: jobs})
		equal(t, "jobs in the store", len(r.All()), 0)
		if _, _, err := r.RestoreJob(t.Context(), key("1")); !errors.Is(err, store.ErrFull) {
			t.Errorf("RestoreJob: %v", err)
		}
		equal(t, "that the store may forget", r.MayForget(), true)

		r.reconciling()
		testenv.Eventually(t, outageLimit, func() bool { return r.status().Reconcile.NoRoom == jobs }, "the report says so")
		equal(t, "lost", r.status().Lost, true)
		limit(0)
		testenv.Eventually(t, outageLimit, func() bool { return r.unfinished() == jobs }, "the jobs are back")
		testenv.Eventually(t, outageLimit, func() bool { s := r.status(); return !s.Lost && s.Reconcile.NoRoom == 0 }, "nothing is missing")
	})
}
