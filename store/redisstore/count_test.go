package redisstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// countedJob fires at a count that no test reaches.
func countedJob(id string) store.Registration {
	r := someJob("t", id)
	r.Spec.When.Delay = time.Hour
	r.Spec.Count = &job.Count{Target: job.MaxTarget, AtDeadline: job.DeadlineFires}
	return r
}

// hashesOfCounts are the keys in Redis that belong to counted jobs.
func (n nodes) hashesOfCounts(s *Store) []string {
	n.Helper()
	keys, err := s.db.Keys(n.Context(), "*"+n.Namespace+"*counted:*").Result()
	n.ok(err)
	return keys
}

func (n nodes) count(s *Store, key job.Key, keys ...string) store.Counted {
	n.Helper()
	c := store.Count{Key: key}
	for _, k := range keys {
		c.Adds = append(c.Adds, job.Add{N: 1, Key: k})
	}
	done, err := s.Count(n.Context(), c)
	n.ok(err)
	return done
}

// What a counted job leaves in Redis goes with it.
func TestCountsAreForgottenWithTheirJobs(t *testing.T) {
	t.Parallel()
	n := newNodes(t, testenv.StartRedis(t).URL(), 1)
	n.Retention = time.Millisecond
	s := n.open()
	ctx := t.Context()
	replaced, cancelled := countedJob("replaced"), countedJob("cancelled")
	_, err := s.Register(ctx, []store.Registration{replaced, cancelled})
	n.ok(err)
	n.count(s, replaced.Key, "x", "")
	n.count(s, cancelled.Key, "y")
	if keys := n.hashesOfCounts(s); len(keys) != 2 {
		t.Fatalf("keys of counted jobs: %v", keys)
	}

	plain := someJob("t", "replaced")
	plain.OnConflict = job.ConflictReplace
	_, err = s.Register(ctx, []store.Registration{plain})
	n.ok(err)
	n.ended(s, cancelled.Key)
	_, err = s.Purge(ctx, 10)
	n.ok(err)
	if _, err := s.Get(ctx, cancelled.Key); err == nil {
		t.Error("the ended job is there")
	}
	if keys := n.hashesOfCounts(s); len(keys) != 0 {
		t.Errorf("keys of counted jobs that are gone: %v", keys)
	}
}

// ended puts the end of a job further back than counted jobs are kept.
func (n nodes) ended(s *Store, key job.Key) {
	n.Helper()
	_, err := s.Update(n.Context(), key, func(j *job.Job, now job.Instant) error {
		_, err := j.Cancel(now)
		j.EndedAt = now.Add(-2 * job.KeepOccurrence)
		return err
	})
	n.ok(err)
}

// Counts and keys move with their jobs to other shards.
func TestReshardCounted(t *testing.T) {
	t.Parallel()
	n := newNodes(t, testenv.StartRedis(t).URL(), 1)
	s := n.open()
	var jobs []store.Registration
	for i := range 8 {
		jobs = append(jobs, countedJob(fmt.Sprint("j", i)))
	}
	_, err := s.Register(t.Context(), jobs)
	n.ok(err)
	for i := range jobs {
		n.count(s, jobs[i].Key, "x", "y", "")
	}
	n.ok(s.Close())
	_, err = (&filled{nodes: n}).reshard(3)
	n.ok(err)

	s = n.with(3).open()
	for i := range jobs {
		added := n.count(s, jobs[i].Key, "y", "z").Tally.Added
		if want := []job.Added{{Count: 3, Repeated: true}, {Count: 4}}; !slices.Equal(added, want) {
			t.Errorf("%s: %+v, want %+v", jobs[i].Key, added, want)
		}
	}
	if keys := n.hashesOfCounts(s); len(keys) != len(jobs) {
		t.Errorf("%d keys of %d counted jobs: %v", len(keys), len(jobs), keys)
	}
	for _, key := range n.hashesOfCounts(s) {
		if life := s.db.TTL(context.Background(), key).Val(); life != -1 {
			t.Errorf("%s expires in %v", key, life)
		}
	}
}

// Processes that ended leave no more than some slots with a counted job.
func TestSlotsOfEndedProcessesGo(t *testing.T) {
	t.Parallel()
	n := newNodes(t, testenv.StartRedis(t).URL(), 1)
	s := n.open()
	r := countedJob("j")
	_, err := s.Register(t.Context(), []store.Registration{r})
	n.ok(err)
	n.count(s, r.Key, "x", "y", "")
	hash := n.hashesOfCounts(s)[0]
	for i := range 200 { // a half of them made their call at the beginning of time
		at := int64(1)
		if i%2 == 0 {
			at = time.Now().UnixMilli()
		}
		n.ok(s.db.HSet(t.Context(), hash, fmt.Sprint("#ended.", i), fmt.Sprint("1 ", at, " 0 2 \nhead")).Err())
	}
	slots := func() int64 { return s.db.HLen(t.Context(), hash).Val() - 3 } // keys, and their number
	n.count(s, r.Key, "")
	if slots() != 201 {
		t.Errorf("%d slots after a call of a known one", slots())
	}
	next := n.open() // a process with slots of its own
	if added := n.count(next, r.Key, "x", "z").Tally.Added; !slices.Equal(added, []job.Added{{Count: 4, Repeated: true}, {Count: 5}}) {
		t.Errorf("added %+v", added)
	}
	if left := s.db.HLen(t.Context(), hash).Val() - 4; left != 102 {
		t.Errorf("%d slots are left, want those of the last ten minutes", left)
	}
}
