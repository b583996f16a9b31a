package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// What an update has read is old when another node's update comes to the store
// and to the ledger meanwhile. The store is not to be taken for one that went
// back then.
func TestUpdateOfAJobThatGoesOnChanging(t *testing.T) {
	for name, test := range map[string]struct {
		others int // how many updates of the other node come in between
		want   error
	}{
		"for a while": {8, nil},
		"for good":    {1000, store.ErrConflict},
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			nodes, h := threeNodes(t, b)
			nodes[0].Add(reg("a", time.Hour))
			left := test.others
			h.OnChange = func() {
				if left > 0 {
					left--
					nodes[1].Change("a", runAt(job.When{Delay: time.Duration(left) * time.Minute}))
				}
			}
			_, err := nodes[0].Update(t.Context(), key("a"), cancel)
			if !errors.Is(err, test.want) {
				t.Fatalf("Update: %v, want %v", err, test.want)
			}
		}))
	}
}

// A node dies after it ended a job in the store and before it wrote that. A later call
// reports the end, so it stays, even if the store loses its data.
func TestEndThatAnotherNodeDidNotWrite(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", time.Hour))
		_, err := l.Update(t.Context(), key("a"), cancel) // past the ledger
		noError(t, "cancel in the store", err)
		_, err = r.Store.Update(t.Context(), key("a"), cancel)
		isError(t, "cancel again", err, job.ErrFinished)
		equal(t, "history", r.History("a"), []string{">waiting 0  ", "waiting>cancelled 0  cancelled"})
		l.flush(t)
		r.reconcile()
		_, err = r.Store.Get(t.Context(), key("a"))
		isError(t, "Get", err, store.ErrNotFound)
	})(t)
}
