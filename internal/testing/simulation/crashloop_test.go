package simulation

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/retrypolicy"
)

// crashLoop is a world of one node, with so many jobs.
func crashLoop(t *testing.T, jobs int, takes time.Duration) *world {
	p := &plan{direct: true, nodes: 1, shards: 1, retention: 1000 * time.Hour, policy: retrypolicy.Default()}
	p.carrier = carrier.Options{Housekeeping: 24 * time.Hour}
	p.dispatch = dispatcher.Options{Policy: p.policy, Timeout: 10 * time.Second, BreakerFailures: -1, Workers: 16}
	w := newWorld(t, p, inMemory(t, p))
	w.isCalm.Store(true)
	w.receivers.always = &answer{takes: takes, status: http.StatusOK}
	w.nodes[0].start()
	c := &client{w: w, name: "c", rand: source(0, "crash loop", 0)}
	for i := range jobs {
		c.due(w, fmt.Sprint(i))
	}
	return w
}

// due registers a job that is due now, again if the node crashed before it answered.
func (c *client) due(w *world, id string) {
	for {
		status, v := c.call(w.nodes[0], http.MethodPost, "/v1/jobs", fmt.Sprintf(`{"topic":"orders","id":%q,"url":"%s/hook","delay":"0s"}`, id, endpoints[0]))
		switch {
		case status == http.StatusCreated, status == http.StatusOK:
			return
		case status != 0 || w.nodes[0].process().up():
			w.Fatalf("registering: %d %s", status, v.Code)
		}
		w.nodes[0].start()
	}
}

// end ends the world, of a failed test as well: a bubble reports goroutines that remain as a
// deadlock, instead of the failure.
func (w *world) end() {
	w.nodes[0].process().stop()
	if err := w.store.Close(); err != nil {
		w.Error(err)
	}
	w.backend.close()
}

func (w *world) stored(id string) job.Job {
	j, err := w.store.Get(w.Context(), job.Key{Topic: "orders", ID: id})
	if err != nil {
		w.Fatal(err)
	}
	return j
}

// TestPlainCrashLoopEndsNoJob kills the node again and again, while it sends jobs that
// take longer than it lives.
func TestPlainCrashLoopEndsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, kills = 10, 300
		w := crashLoop(t, jobs, 5*time.Second)
		defer w.end()
		for range kills {
			w.sleep(2 * time.Second)
			w.nodes[0].process().crash()
			w.nodes[0].start()
		}
		for i := range jobs {
			if j := w.stored(fmt.Sprint(i)); j.State.Final() || j.Attempts != 0 {
				t.Errorf("job %d is %v after the crash loop, with %d attempts and %d expired leases", i, j.State, j.Attempts, j.ExpiredLeases)
			}
		}
		w.sleep(30 * time.Minute)
		for i := range jobs {
			if j := w.stored(fmt.Sprint(i)); j.State != job.Delivered || j.Attempts != 1 || j.ExpiredLeases != 0 {
				t.Errorf("job %d is %v in the end, with %d attempts and %d expired leases", i, j.State, j.Attempts, j.ExpiredLeases)
			}
		}
	})
}

// TestPlainPoisonousJobIsGivenUpAloneAndLate: one job crashes its node each time
// that it is sent.
func TestPlainPoisonousJobIsGivenUpAloneAndLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const poison = "poison"
		w := crashLoop(t, 0, 100*time.Millisecond)
		defer w.end()
		w.receivers.kills = job.Key{Topic: "orders", ID: poison}
		c := &client{w: w, name: "c", rand: source(0, "poison", 0)}
		c.due(w, poison)
		began, neighbours := w.now(), 0
		for ; w.now() < began+12*time.Hour; neighbours++ {
			w.sleep(time.Second)
			if !w.nodes[0].process().up() {
				w.nodes[0].start()
			}
			if w.stored(poison).State == job.Dead {
				break
			}
			w.sleep(29 * time.Second)
			if !w.nodes[0].process().up() {
				w.nodes[0].start()
			}
			c.due(w, fmt.Sprint(neighbours))
		}
		took := w.now() - began
		if j := w.stored(poison); j.State != job.Dead || j.Reason != job.ReasonLeaseExpired || j.Attempts != 0 || took < 6*time.Hour {
			t.Errorf("the job is %v (%s) after %v and %d expired leases", j.State, j.Reason, took, j.ExpiredLeases)
		}
		if n := w.history.counts["crashes"]; n != job.MaxExpiredLeases {
			t.Errorf("%d crashes", n)
		}
		w.sleep(5 * time.Minute)
		for i := range neighbours {
			if j := w.stored(fmt.Sprint(i)); j.State != job.Delivered || j.Attempts != 1 {
				t.Errorf("neighbour %d is %v with %d attempts", i, j.State, j.Attempts)
			}
		}
	})
}
