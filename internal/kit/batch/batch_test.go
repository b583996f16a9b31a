package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
)

// scene is a Batcher of numbers whose handler waits until it is released.
type scene struct {
	*batch.Batcher[int]
	release chan struct{}

	mu       sync.Mutex
	batches  [][]int
	contexts []context.Context
	callers  sync.WaitGroup
}

func newScene(o batch.Options[int]) *scene {
	sc := &scene{release: make(chan struct{})}
	sc.Batcher = batch.New(o, func(ctx context.Context, items []int) {
		sc.mu.Lock()
		sc.batches = append(sc.batches, slices.Clone(items))
		sc.contexts = append(sc.contexts, ctx)
		sc.mu.Unlock()
		<-sc.release
	})
	return sc
}

// do calls Do in a goroutine and returns when everybody waits. The result holds
// the error once the caller has returned.
func (sc *scene) do(ctx context.Context, item int) *error {
	result := new(error)
	sc.callers.Go(func() { *result = sc.Do(ctx, item) })
	synctest.Wait()
	return result
}

// finish releases the handler and waits for callers and workers.
func (sc *scene) finish() {
	close(sc.release)
	sc.callers.Wait()
	sc.Close()
}

func expect(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestItemsThatArriveDuringABatchFormTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(batch.Options[int]{Workers: 2})
		for item := range 6 {
			sc.do(t.Context(), item)
		}
		sc.Add(6)
		sc.finish()
		expect(t, "batches", [][]int{{0}, {1}, {2, 3, 4, 5, 6}}, sc.batches)
	})
}

func TestAnotherWorkerStartsWhenEnoughWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(batch.Options[int]{Workers: 2, Enough: 3})
		for item := range 5 {
			sc.do(t.Context(), item)
		}
		expect(t, "batches that have begun", [][]int{{0}, {1, 2, 3}}, sc.batches)
		sc.finish()
		expect(t, "batches", [][]int{{0}, {1, 2, 3}, {4}}, sc.batches)
	})
}

func TestBatchesAreBounded(t *testing.T) {
	cost := func(item int) (count, bytes int) { return item / 10, item % 10 }
	for name, test := range map[string]struct {
		options batch.Options[int]
		items   []int
		want    [][]int
	}{
		"no bound":           {batch.Options[int]{}, []int{1, 2, 3}, [][]int{{1, 2, 3}}},
		"count":              {batch.Options[int]{MaxCount: 2}, []int{1, 2, 3}, [][]int{{1, 2}, {3}}},
		"cost":               {batch.Options[int]{MaxCount: 3, Cost: cost}, []int{10, 20, 10}, [][]int{{10, 20}, {10}}},
		"bytes":              {batch.Options[int]{MaxBytes: 5, Cost: cost}, []int{3, 2, 1}, [][]int{{3, 2}, {1}}},
		"one item too large": {batch.Options[int]{MaxBytes: 5, Cost: cost}, []int{9, 9, 1}, [][]int{{9}, {9}, {1}}},
		"the order is kept":  {batch.Options[int]{MaxCount: 3, Cost: cost}, []int{20, 20, 10}, [][]int{{20}, {20, 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.options.Workers = 1
				sc := newScene(test.options)
				sc.do(t.Context(), 0)
				for _, item := range test.items {
					sc.Add(item)
				}
				sc.finish()
				expect(t, "batches", test.want, sc.batches[1:])
			})
		})
	}
}

func TestCallersCanLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(batch.Options[int]{Workers: 1, MaxCount: 1})
		ctx, cancel := context.WithCancel(t.Context())
		sc.Add(0)
		handled := sc.do(ctx, 1)
		sc.release <- struct{}{} // a worker handles 1 now
		waiting := sc.do(ctx, 2)
		stays := sc.do(t.Context(), 3)
		cancel()
		synctest.Wait()
		if !errors.Is(*handled, context.Canceled) || !errors.Is(*waiting, context.Canceled) {
			t.Errorf("the callers that left got %v and %v", *handled, *waiting)
		}
		late := sc.do(ctx, 4)
		sc.finish()
		if !errors.Is(*late, context.Canceled) || *stays != nil {
			t.Errorf("a caller with an ended context got %v, and the one that stayed %v", *late, *stays)
		}
		expect(t, "batches", [][]int{{0}, {1}, {3}}, sc.batches)
	})
}

func TestALoneCallerHandlesItsItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(batch.Options[int]{Workers: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		left := false
		var err error
		sc.callers.Go(func() { err = sc.Do(ctx, 1); left = true })
		synctest.Wait()
		next := sc.do(t.Context(), 2)
		cancel()
		synctest.Wait()
		if left {
			t.Error("the caller left while it handled its item")
		}
		if err := sc.contexts[0].Err(); err != nil {
			t.Errorf("the batch ended with its caller's context: %v", err)
		}
		if until, ok := sc.contexts[0].Deadline(); !ok || time.Until(until) != time.Minute {
			t.Errorf("the batch ends in %v, want 1m", time.Until(until))
		}
		sc.finish()
		expect(t, "errors", []error{nil, nil}, []error{err, *next})
		expect(t, "batches", [][]int{{1}, {2}}, sc.batches)
	})
}

// TestAPanicOfACallerEndsNoOther: the caller may recover from it.
func TestAPanicOfACallerEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled []int
		wait := make(chan struct{})
		b := batch.New(batch.Options[int]{Workers: 1}, func(_ context.Context, items []int) {
			handled = append(handled, items...)
			if len(handled) == 1 {
				<-wait
				panic("a defect")
			}
		})
		var callers sync.WaitGroup
		callers.Go(func() {
			defer func() { _ = recover() }()
			_ = b.Do(t.Context(), 1)
		})
		synctest.Wait()
		callers.Go(func() { _ = b.Do(t.Context(), 2) })
		synctest.Wait()
		close(wait)
		callers.Wait()
		b.Close()
		expect(t, "handled", []int{1, 2}, handled)
	})
}

func BenchmarkDo(b *testing.B) {
	none := batch.New(batch.Options[int]{Workers: 4}, func(context.Context, []int) {})
	b.Run("lone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = none.Do(b.Context(), 1)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = none.Do(b.Context(), 1)
			}
		})
	})
}

func TestABatchLastsUntilTheLatestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(batch.Options[int]{Workers: 1})
		start := time.Now()
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithDeadline(t.Context(), start.Add(d))
			t.Cleanup(cancel)
			return ctx
		}
		sc.do(t.Context(), 1)
		sc.do(within(time.Second), 2)
		sc.do(within(time.Minute), 3)
		sc.do(within(2*time.Second), 4)
		sc.finish()
		if until, ok := sc.contexts[0].Deadline(); ok {
			t.Errorf("the batch of a caller without a deadline ends at %v", until)
		}
		if until, _ := sc.contexts[1].Deadline(); !until.Equal(start.Add(time.Minute)) {
			t.Errorf("the batch of the others ends after %v, want 1m", until.Sub(start))
		}
	})
}

func TestAddBlocksWhileTooManyItemsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(batch.Options[int]{Workers: 1, MaxQueued: 2})
		sc.do(t.Context(), 1)
		added := 0
		sc.callers.Go(func() {
			for item := range 4 {
				sc.Add(10 + item)
				added++
			}
		})
		synctest.Wait()
		if added != 2 {
			t.Errorf("%d items were added without room, want 2", added)
		}
		sc.finish()
		if handled := slices.Concat(sc.batches...); len(handled) != 5 {
			t.Errorf("handled %v, want 5 items", handled)
		}
	})
}

func TestABatchLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(batch.Options[int]{
			Workers: 1, Clock: job.SystemClock(),
			Linger: func(queued int) time.Duration {
				if queued < 2 {
					return time.Second
				}
				return 0
			},
		})
		sc.do(t.Context(), 1)
		expect(t, "batches before the second is over", [][]int(nil), sc.batches)
		sc.do(t.Context(), 2)
		expect(t, "error of the sleep", nil, job.Sleep(t.Context(), job.SystemClock(), time.Second))
		synctest.Wait()
		expect(t, "batches after it", [][]int{{1, 2}}, sc.batches)
		sc.finish()
	})
}

func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(batch.Options[int]{Workers: 2, MaxCount: 1})
		for item := range 3 {
			sc.Add(item)
		}
		closed := false
		sc.callers.Go(func() { sc.Close(); closed = true })
		synctest.Wait()
		if closed {
			t.Error("closed while items are handled")
		}
		sc.finish()
		if handled := slices.Concat(sc.batches...); len(handled) != 3 {
			t.Errorf("handled %v, want 3 items", handled)
		}
	})
}
