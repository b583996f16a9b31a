package diskstore_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store. It fails the test if that fails.
func open(t testing.TB, o diskstore.Options) diskstore.Embedded {
	t.Helper()
	s, err := diskstore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var harness = storetest.Harness{
	Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, diskstore.Options{Retention: o.Retention})
	},
	Bubble:   synctest.Test,
	OneShard: true,
}

// TestConformanceInMemory has one caller: `make test` runs it without the race detector.
func TestConformanceInMemory(t *testing.T) { storetest.Run(t, harness) }

func TestModel(t *testing.T) { storetest.RunModel(t, harness) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, harness) }

// clocks are those of stores whose clocks a test steps.
var clocks sync.Map

// steppedClock is the machine's clock, set wrong by an offset.
type steppedClock struct {
	job.Clock
	by atomic.Int64
}

func (c *steppedClock) Now() time.Time {
	// Without its monotonic reading, as a time that was stored.
	return c.Clock.Now().Round(0).Add(time.Duration(c.by.Load()))
}

func TestClockSteps(t *testing.T) {
	h := harness
	h.Open = func(t testing.TB, o storetest.Options) store.Store {
		clock := &steppedClock{Clock: job.SystemClock()}
		s := open(t, diskstore.Options{Retention: o.Retention, Clock: clock})
		clocks.Store(s, clock)
		return s
	}
	storetest.RunSteps(t, h, func(t testing.TB, s store.Store, by time.Duration) {
		clock, _ := clocks.Load(s)
		clock.(*steppedClock).by.Add(int64(by))
		if err := s.Ping(t.Context()); err != nil { // it sees the time
			t.Error(err)
		}
	})
}
