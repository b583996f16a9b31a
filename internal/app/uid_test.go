package app

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

func TestConcurrentUIDs(t *testing.T) {
	u := newUIDs(testenv.NewClock(time.Unix(1, 0)))
	const workers, each = 8, 500
	var wg sync.WaitGroup
	made := make([][]string, workers)
	for w := range made {
		wg.Go(func() {
			for range each {
				uid, err := u.next(job.Key{Topic: "t", ID: "a"})
				if err != nil {
					t.Error(err)
				}
				made[w] = append(made[w], uid)
			}
		})
	}
	wg.Wait()
	all := map[string]bool{}
	for _, list := range made {
		if !slices.IsSorted(list) {
			t.Error("uids of one goroutine do not grow")
		}
		for _, uid := range list {
			all[uid] = true
		}
	}
	if len(all) != workers*each {
		t.Errorf("%d uids for %d jobs", len(all), workers*each)
	}
}

// A uid tells where its job is, also if it is the job's id.
func TestUIDsAreBound(t *testing.T) {
	u := newUIDs(testenv.NewClock(time.Unix(1, 0)))
	for _, key := range []job.Key{{Topic: "t", ID: "a"}, {Topic: "t"}} {
		uid, err := u.next(key)
		if err != nil {
			t.Fatal(err)
		}
		if key.ID == "" {
			key.ID = uid
		}
		if hash, ok := store.UIDHash(uid); !ok || hash != store.KeyHash(key) {
			t.Errorf("%s of %s: %d, %v, want %d", uid, key, hash, ok, store.KeyHash(key))
		}
	}
}
