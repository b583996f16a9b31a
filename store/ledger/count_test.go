package ledger_test

import (
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// A store that went back, or lost all it had, gets counts and keys from the ledger
// before it counts on.
func TestCountInAStoreThatLost(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		g := reg("a", time.Hour)
		g.Spec.Count = &job.Count{Target: 100, AtDeadline: job.DeadlineFires}
		r.Add(g)
		count := func(want int64, keys ...string) {
			t.Helper()
			c := store.Count{Key: key("a")}
			for _, k := range keys {
				c.Adds = append(c.Adds, job.Add{N: 1, Key: k})
			}
			done, err := r.Store.Count(t.Context(), c)
			noError(t, "Count", err)
			equal(t, "count", done.Tally.Count, want)
		}
		count(3, "x", "y", "")
		old := l.copied(t)
		count(5, "z", "")
		noError(t, "Close", l.Close())
		l.become(old)
		count(5, "x", "z") // both were counted
		count(6, "w")
		l.flush(t)
		count(6, "w", "z", "y", "x")
		count(7, "v")
	})(t)
}
