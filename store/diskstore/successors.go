package diskstore

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// successor is a job that follows from an outcome.
type successor struct {
	store.Registration
	passing bool // see job.Successor
}

// followers are the successors of the job with a uid.
func followers(uid string, all []job.Successor) []successor {
	if len(all) == 0 {
		return nil
	}
	list := make([]successor, len(all))
	for i, reg := range successors.Of(uid, all) {
		list[i] = successor{reg, all[i].Passing}
	}
	return list
}

// follow registers successors, and returns what it left out. A callback that the store has already
// was registered when the outcome was stored before.
func (t *txn) follow(next []successor, now job.Instant) (shed job.Shed) {
	for i := range next {
		switch n := &next[i]; {
		case n.passing && t.s.isFull(n.Key.Topic):
			shed = job.ShedPassing
		case !t.has(n.Key):
			j := n.Job(now)
			t.insert(newRecord(&j))
		}
	}
	return shed
}
