package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// TestRaceRegistrationsShareCalls: those that arrive while all calls are in progress go
// together, as many as one call takes.
func TestRaceRegistrationsShareCalls(t *testing.T) {
	small, large := newJob{}, newJob{body: make([]byte, store.BatchBytes/2+1)}
	for name, test := range map[string]struct {
		job    newJob
		jobs   int   // of each caller
		shared []int // jobs of the calls that follow
	}{
		"few":   {small, 1, []int{12}},
		"many":  {small, goesAlone - 1, slices.Repeat([]int{maxRegister / (goesAlone - 1) * (goesAlone - 1)}, 3)},
		"large": {large, 1, slices.Repeat([]int{1}, 12)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				letGo := make(chan struct{})
				var mu sync.Mutex
				var calls []int
				in := newIntake(func(_ context.Context, arrivals []*arrival) {
					jobs := 0
					for _, a := range arrivals {
						jobs += len(a.jobs)
					}
					mu.Lock()
					calls = append(calls, jobs)
					mu.Unlock()
					<-letGo
				})
				var callers sync.WaitGroup
				for range intakeCalls + 12 {
					callers.Go(func() { ok(t, "Do", in.Do(t.Context(), &arrival{jobs: slices.Repeat([]newJob{test.job}, test.jobs)})) })
					synctest.Wait()
				}
				close(letGo)
				callers.Wait()
				in.Close()
				shared := calls[intakeCalls:]
				slices.SortFunc(shared, func(a, b int) int { return b - a }) // calls overlap
				if diff := cmp.Diff(test.shared, shared); diff != "" {
					t.Errorf("calls that follow (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestFanOutsAreCut: a script with all jobs of a fan-out would hold up other clients of Redis.
func TestFanOutsAreCut(t *testing.T) {
	s := open(t, testenv.StartRedis(t).URL(), storetest.Options{})
	t.Cleanup(func() { ok(t, "Close", s.Close()) })
	regs := make([]store.Registration, 1000)
	for i := range regs {
		regs[i] = waitingJob(i)
		regs[i].Spec.Destination = job.Destination(fmt.Sprintf("https://tenant-%d.example/hook", i))
	}
	_, err := s.Register(t.Context(), regs[:1]) // loads the script
	ok(t, "Register", err)
	ok(t, "CONFIG RESETSTAT", s.db.ConfigResetStat(t.Context()).Err())
	registered, err := s.Register(t.Context(), regs)
	ok(t, "Register", err)
	for i := range registered[1:] {
		if registered[1+i].Outcome != store.Created {
			t.Fatalf("outcome of %s: %v", regs[1+i].Key, registered[1+i].Outcome)
		}
	}
	stats, err := s.db.Info(t.Context(), "commandstats").Result()
	ok(t, "INFO", err)
	if !strings.Contains(stats, "cmdstat_evalsha:calls=5,") {
		t.Errorf("scripts for 1,000 jobs, want 5 in\n%s", stats)
	}
}

// TestOneBadRegistrationFailsAlone: the bucket of one job's lane is no bucket.
func TestOneBadRegistrationFailsAlone(t *testing.T) {
	s := open(t, testenv.StartRedis(t).URL(), storetest.Options{})
	t.Cleanup(func() { ok(t, "Close", s.Close()) })
	sh, bad := s.shards[0], waitingJob(2)
	bad.Key.Topic = "bad"
	lane := (&job.Job{Key: bad.Key, Spec: bad.Spec}).Lane()
	ok(t, "Set", s.db.Set(t.Context(), sh.bucket(lane.String()), "spoiled", 0).Err())
	batch := make([]*arrival, 3)
	for i, r := range []store.Registration{waitingJob(1), bad, waitingJob(3)} {
		j, err := newJobOf(&r)
		ok(t, "newJobOf", err)
		batch[i] = &arrival{jobs: []newJob{j}}
	}
	s.sendAll(t.Context(), sh, batch)
	if batch[0].err != nil || batch[2].err != nil || !errors.Is(batch[1].err, store.ErrUnavailable) {
		t.Errorf("errors: %v; %v; %v", batch[0].err, batch[1].err, batch[2].err)
	}
	for _, n := range []int{1, 3} {
		_, err := s.Get(t.Context(), waitingJob(n).Key)
		ok(t, "Get", err)
	}
}
