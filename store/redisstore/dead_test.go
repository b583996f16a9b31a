package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/storetest"
)

// TestNothingIsLeftOfDeadGroups: when the last dead letter of a group is
// replayed, neither its list nor its name stays.
func TestNothingIsLeftOfDeadGroups(t *testing.T) {
	t.Parallel()
	s := open(t, testenv.StartRedis(t).URL(), storetest.Options{Shards: 2, Retention: time.Hour})
	t.Cleanup(func() { _ = s.Close() })
	var jobs []job.Job
	for i := range 40 {
		jobs = append(jobs, job.Job{
			Key: job.Key{Topic: "t", ID: fmt.Sprintf("job-%d", i)}, UID: fmt.Sprintf("%026d", i), Version: 1,
			Spec:  job.Spec{Destination: job.Destination(fmt.Sprintf("http://e%d.example/", i%3))},
			State: job.Dead, Reason: job.ReasonGone, CreatedAt: 1_000, DueAt: 1_000, EndedAt: job.Instant(2_000 + i),
		})
		plant(t, s, jobs[i], nil)
	}
	if n := deadKeys(t, s); n == 0 {
		t.Fatal("no key is about dead letters")
	}
	for _, j := range jobs {
		_, err := s.Update(t.Context(), j.Key, (*job.Job).Replay)
		ok(t, "Update", err)
	}
	if n := deadKeys(t, s); n > 0 {
		t.Errorf("%d keys about dead letters are left", n)
	}
}

// deadKeys is the number of keys that are about dead letters.
func deadKeys(t *testing.T, s *Store) (n int) {
	t.Helper()
	keys, err := s.db.Keys(t.Context(), "*").Result()
	ok(t, "KEYS", err)
	for _, key := range keys {
		if strings.Contains(key, "}:dead") {
			n++
		}
	}
	return n
}
