package pulls

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/storetime"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store/diskstore"
)

// stepped is a clock that can be set.
type stepped struct {
	job.Clock
	ahead atomic.Int64
}

func (c *stepped) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

// noticed is within what time a step is noticed.
const noticed = time.Second + 100*time.Millisecond

// Clocks are set: that of the store, and that of a node. The monotonic time of a node on disk goes on when
// its clock, and so the store's, is set; so its clock here is not stepped.
func TestClockSteps(t *testing.T) {
	for name, test := range map[string]struct{ store, node time.Duration }{
		"nothing":                                    {},
		"the store goes ahead by an hour":            {store: time.Hour},
		"the store goes back by an hour":             {store: -time.Hour},
		"the store goes ahead by seconds":            {store: 7 * time.Second},
		"a node beside Redis goes back by minutes":   {node: -10 * time.Minute},
		"a node beside Redis goes back by an hour":   {node: -time.Hour},
		"a node beside Redis goes ahead by an hour":  {node: time.Hour},
		"a node without a monotonic clock is set":    {node: -26 * time.Hour, store: -26 * time.Hour},
		"a machine without a monotonic clock sleeps": {node: 3 * time.Hour, store: 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testSteps(t, test.store, test.node) })
		})
	}
}

func testSteps(t *testing.T, storeBy, nodeBy time.Duration) {
	of, local := &stepped{Clock: job.SystemClock()}, &stepped{Clock: job.SystemClock()}
	s := &counting{Store: testenv.Store(t, diskstore.Options{Clock: of, Retention: time.Hour})}
	n := &node{t: t, store: s}
	at := storetime.New(s, local)
	m, err := New(Options{Store: s, ID: "node", Policy: retrypolicy.Default(), Clock: local, Time: at})
	if err != nil {
		t.Fatal(err)
	}
	n.managers = []*Manager{m}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = at.Run(ctx) })
	running.Go(func() { _ = m.Run(ctx) })
	defer running.Wait()
	defer stop()
	_ = job.Sleep(ctx, job.SystemClock(), 90*time.Second) // between two reads of the store's time

	// A job whose time passes with the step, one that is registered then, and one whose time comes later.
	got := map[string]chan time.Time{}
	wait := func(topic string) {
		got[topic] = make(chan time.Time, 1)
		running.Go(func() {
			jobs, err := m.Pull(ctx, Request{Topics: []string{topic}, Max: 1, Wait: time.Minute, Lease: time.Minute})
			if err != nil || len(jobs) != 1 {
				t.Errorf("%s: %d jobs, %v", topic, len(jobs), err)
			}
			got[topic] <- time.Now()
		})
	}
	arrives := func(topic string, from time.Time, after, late time.Duration) {
		t.Helper()
		if d := (<-got[topic]).Sub(from); d < after || d > after+late {
			t.Errorf("%s came after %v, not after %v", topic, d, after)
		}
	}
	wait("passed")
	wait("new")
	wait("later")
	if storeBy > time.Minute {
		n.register("passed", "a", storeBy-time.Minute)
	}
	synctest.Wait()
	of.ahead.Add(int64(storeBy))
	local.ahead.Add(int64(nodeBy))
	set := time.Now()
	n.register("new", "a", 0)
	n.register("later", "a", 20*time.Second)
	if storeBy <= time.Minute {
		n.register("passed", "a", 30*time.Second)
		arrives("passed", set, 30*time.Second, noticed)
	} else {
		arrives("passed", set, 0, noticed)
	}
	arrives("new", set, 0, noticed)
	arrives("later", set, 20*time.Second, noticed)
	if storeBy == 0 { // what the store's clock does not pass arrives on time
		wait("on time")
		synctest.Wait()
		set = time.Now()
		n.register("on time", "a", 3*time.Second)
		arrives("on time", set, 3*time.Second, 10*time.Millisecond)
	}
	for i := range 3 { // and so does all else, once the step is noticed
		topic := fmt.Sprint("afterwards", i)
		wait(topic)
		synctest.Wait()
		from := time.Now()
		n.register(topic, "a", time.Duration(i)*time.Second)
		arrives(topic, from, time.Duration(i)*time.Second, 10*time.Millisecond)
	}
}
