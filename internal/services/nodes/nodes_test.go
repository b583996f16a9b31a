package nodes

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/diskstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// aheadClock is a clock that is ahead.
type aheadClock struct {
	job.Clock
	by time.Duration
}

func (c aheadClock) Now() time.Time { return c.Clock.Now().Add(c.by) }

func list(t *testing.T, r *Registry) []Node {
	t.Helper()
	all, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := job.Sleep(t.Context(), job.SystemClock(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testenv.Store(t, diskstore.Options{})
		start := func(id string, ahead time.Duration) (*Registry, func()) {
			r := New(Options{
				Facts: Facts{ID: id, Host: "host", Version: "1.0", Store: "redis"},
				Store: mem, Clock: aheadClock{job.SystemClock(), ahead},
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			synctest.Wait()
			return r, func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		begun := job.InstantOf(time.Now())
		a, stopA := start("a", 0)
		b, stopB := start("b", 3*time.Second)
		defer stopB()
		facts := func(id string) Facts {
			return Facts{ID: id, Host: "host", Version: "1.0", Store: "redis"}
		}
		want := []Node{
			{Facts: facts("a"), Started: begun, Seen: begun},
			{Facts: facts("b"), Started: begun, Seen: begun, Ahead: 3 * time.Second},
		}
		for _, r := range []*Registry{a, b} {
			if diff := gocmp.Diff(want, list(t, r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		// A living node is seen again and again, and keeps its start.
		pass(t, 2*time.Hour)
		if all := list(t, a); len(all) != 2 || all[1].Silent || all[1].Started != begun {
			t.Errorf("two hours later: %+v", all)
		}
		// One that stops leaves.
		stopA()
		if all := list(t, b); len(all) != 1 || all[0].ID != "b" {
			t.Errorf("after a has stopped: %+v", all)
		}
		// One that dies is silent, and gone after an hour.
		dead := New(Options{Facts: facts("c"), Store: mem})
		own, err := dead.own(t.Context())
		if err != nil || !dead.docs.Put(t.Context(), own) {
			t.Fatal(err)
		}
		pass(t, silentAfter)
		if all := list(t, b); len(all) != 2 || all[1].Silent {
			t.Errorf("seen %v ago: %+v", silentAfter, all)
		}
		pass(t, time.Second)
		if all := list(t, b); len(all) != 2 || !all[1].Silent || all[0].Silent {
			t.Errorf("seen longer ago: %+v", all)
		}
		pass(t, keptFor+tidyEvery*beatEvery)
		if all := list(t, b); len(all) != 1 {
			t.Errorf("an hour later: %+v", all)
		}
	})
}

func TestAlone(t *testing.T) {
	mem := testenv.Store(t, diskstore.Options{})
	r := New(Options{Facts: Facts{ID: "a", Store: "embedded"}, Store: mem, Alone: true})
	if all := list(t, r); len(all) != 1 || all[0].ID != "a" || all[0].Silent {
		t.Errorf("%+v", all)
	}
}
