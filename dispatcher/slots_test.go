package dispatcher

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// fetched are slots of 256 workers of which all had a job and so many came free
// during the second fetch, which brought all it was for or one less; then more jobs may wait
// for their topic's share.
func fetched(t *testing.T, ended int, whole, more bool) *slots {
	t.Helper()
	s := newSlots(256, job.SystemClock())
	wantTaken(t, s, 256)
	s.fetched(256, 256, false)
	for range 128 {
		s.end()
	}
	wantTaken(t, s, 128)
	for range ended {
		s.end()
	}
	jobs := 128
	if !whole {
		jobs--
	}
	s.fetched(128, jobs, more)
	return s
}

// wantTaken takes, and wants n; zero means that there was nothing for an hour.
func wantTaken(t *testing.T, s *slots, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if got := s.take(ctx, maxBatch); got != n {
		t.Fatalf("%d were taken, want %d", got, n)
	}
}

func TestJobsAreTakenAheadWhileWorkersComeFreeQuickly(t *testing.T) {
	for name, tt := range map[string]struct {
		ended int
		whole bool
		more  bool
		taken int // at once, or when the time for gathering is over
		ahead bool
	}{
		"quickly":                       {ended: 64, whole: true, taken: 64 + 128, ahead: true},
		"more quickly":                  {ended: 100, whole: true, taken: 100 + 200, ahead: true},
		"so quickly that most is taken": {ended: 128, whole: true, taken: 128 + 256, ahead: true},
		"not quickly enough":            {ended: 63, whole: true, taken: 63},
		"slowly":                        {ended: 1, whole: true, taken: 1},
		"not at all":                    {ended: 0, whole: true, taken: 0},
		"quickly, with nothing to do":   {ended: 64, whole: false, taken: 65},
		"quickly, with jobs set aside":  {ended: 64, more: true, taken: 65 + 128, ahead: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fetched(t, tt.ended, tt.whole, tt.more)
				wantTaken(t, s, tt.taken)
				if got := s.free < 0; got != tt.ahead {
					t.Errorf("jobs may wait for a worker: %v", got)
				}
			})
		})
	}
}

func TestNothingIsTakenAheadOnceJobsFoundNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fetched(t, 64, true, false)
		wantTaken(t, s, 64+128)
		s.fetched(64+128, 64+128, false)
		for range 128 {
			s.untaken()
		}
		wantTaken(t, s, 0)
		s.end()
		wantTaken(t, s, 1)
	})
}
