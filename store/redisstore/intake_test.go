package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// intakeScene is an intake whose calls last until they are let go.
type intakeScene struct {
	*intake
	letGo chan struct{}

	mu    sync.Mutex
	calls [][]string // the ids in each
	left  sync.WaitGroup
}

func newIntakeScene() *intakeScene {
	sc := &intakeScene{letGo: make(chan struct{})}
	sc.intake = newIntake(func(ctx context.Context, batch []*arrival) {
		var ids []string
		for _, a := range batch {
			for _, j := range a.jobs {
				ids = append(ids, j.key.ID)
			}
			a.err = ctx.Err()
		}
		sc.mu.Lock()
		sc.calls = append(sc.calls, ids)
		sc.mu.Unlock()
		<-sc.letGo
	})
	return sc
}

// come registers a job for each id by one caller, once the others have done
// what they can, and gives where its error will be.
func (sc *intakeScene) come(ctx context.Context, ids ...string) *error {
	jobs := make([]newJob, len(ids))
	for i, id := range ids {
		jobs[i].key.ID = id
	}
	result := new(error)
	sc.left.Go(func() { _, *result = sc.register(ctx, jobs) })
	synctest.Wait()
	return result
}

// fill makes as many calls as there may be under way. Their callers have ctx.
func (sc *intakeScene) fill(ctx context.Context) {
	for range intakeCalls {
		sc.come(ctx, "first")
	}
}

func TestRegistrationsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newIntakeScene()
		ctx, cancel := context.WithCancel(t.Context())
		sc.fill(ctx) // these calls go on when their callers leave
		sc.come(t.Context(), "a")
		gone := sc.come(ctx, "b") // leaves before it is taken
		sc.come(t.Context(), "c", "d")
		cancel()
		synctest.Wait()
		close(sc.letGo)
		sc.left.Wait()
		if len(sc.calls) != intakeCalls+1 {
			t.Fatalf("calls with %v, want one more than %d", sc.calls, intakeCalls)
		}
		if last := slices.Sorted(slices.Values(sc.calls[intakeCalls])); !cmp.Equal([]string{"a", "c", "d"}, last) {
			t.Errorf("what came meanwhile went in a call with %v", last)
		}
		if !errors.Is(*gone, context.Canceled) {
			t.Errorf("who left got %v", *gone)
		}
	})
}

func TestRegistrationsThatDoNotFitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newIntakeScene()
		sc.fill(t.Context())
		const callers = 1 + maxBatch/(goesAlone-1) // one too many
		for i := range callers {
			sc.come(t.Context(), slices.Repeat([]string{fmt.Sprint(i)}, goesAlone-1)...)
		}
		close(sc.letGo)
		sc.left.Wait()
		if len(sc.calls) != intakeCalls+2 {
			t.Fatalf("%d calls, want %d", len(sc.calls), intakeCalls+2)
		}
		sizes := []int{len(sc.calls[intakeCalls]), len(sc.calls[intakeCalls+1])}
		slices.Sort(sizes)
		if want := []int{goesAlone - 1, (callers - 1) * (goesAlone - 1)}; !cmp.Equal(want, sizes) {
			t.Errorf("calls with %v jobs, want %v", sizes, want)
		}
	})
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
