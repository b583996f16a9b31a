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

// follow registers the successors of the job of rec, and returns what it left out. A callback
// that the store has already was registered when the outcome was stored before.
func (t *txn) follow(next []successor, rec *record, now job.Instant) (shed job.Shed) {
	for i := range next {
		switch n := &next[i]; {
		case n.Key == rec.Key:
			t.replaceBy(&n.Registration, rec, now)
		case n.passing && t.s.isFull(n.Key.Topic):
			shed = job.ShedPassing
		case !t.has(n.Key):
			j := n.Job(now)
			t.insert(newRecord(&j))
		}
	}
	return shed
}

// replaceBy registers a successor in the place of its predecessor. Its record answers
// repetitions of the predecessor's settlement.
func (t *txn) replaceBy(n *store.Registration, rec *record, now job.Instant) {
	before := job.Job{CreatedAt: rec.CreatedAt}
	j := n.Over(&before, now)
	j.Token = rec.Token // so that no worker of the old job can settle the new one
	fresh := newRecord(&j)
	fresh.settled, fresh.settledBy = rec.settled, rec.settledBy
	if old := t.load(rec.Key); old != nil && old.UID == rec.UID {
		t.forget(old)
	}
	t.insert(fresh)
}
