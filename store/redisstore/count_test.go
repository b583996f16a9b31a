package redisstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
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
