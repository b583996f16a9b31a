package redisstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// A node that stops puts the hints that it has popped back on the ready list, and another node takes their
// jobs at once.
func TestPoppedHintsGoToAnotherNode(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	want := []string{sc.hint.ID, sc.waiting.ID}
	for _, name := range []string{"one", "two", "three"} {
		reg := sc.reg(0, name)
		sc.register(t, reg)
		want = append(want, reg.Key.ID)
	}
	_, err := sc.sure.Carry(t.Context(), 0, carryAll)
	ok(t, "Carry", err)

	o := store.TakeOptions{Max: 10, Lease: time.Minute, Workers: &store.Workers{Free: 1, Has: map[string]int{sc.hint.Lane.Topic: 8}}}
	taken, err := sc.s.Take(t.Context(), 0, o)
	ok(t, "Take", err)
	if len(taken.Claims) > 0 || taken.Wait != 0 {
		t.Errorf("%d jobs taken of a topic that has its share of workers, wait %v", len(taken.Claims), taken.Wait)
	}
	other := store.TakeOptions{Max: 10, Lease: time.Minute}
	taken, err = sc.sure.Take(t.Context(), 0, other)
	ok(t, "Take", err)
	if len(taken.Claims) > 0 {
		t.Errorf("%d jobs taken whose hints another node has", len(taken.Claims))
	}

	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := sc.s.Take(stopped, 0, o); !errors.Is(err, context.Canceled) {
		t.Errorf("the last call: %v", err)
	}
	taken, err = sc.sure.Take(t.Context(), 0, other)
	ok(t, "Take", err)
	var got []string
	for i := range taken.Claims {
		c := &taken.Claims[i]
		if got = append(got, c.Job.ID); c.From != job.Ready || c.Job.Attempts != 0 || c.Job.ExpiredLeases != 0 {
			t.Errorf("%s: from %v, %d attempts, %d expired leases", c.Job.ID, c.From, c.Job.Attempts, c.Job.ExpiredLeases)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}
