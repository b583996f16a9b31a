package memstore

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// successor is a job that follows from an outcome, encoded before the store is locked.
type successor struct {
	reg     store.Registration
	encoded encoded
	passing bool // see job.Successor
}

// following are the successors of a settlement if nothing else changes its job.
type following struct {
	list    []successor
	version uint64 // of the job after the settlement
}

// followingAll returns the successors of settlements, by their index.
func followingAll(settlements []job.Settlement) map[int]*following {
	var all map[int]*following
	for i := range settlements {
		st := &settlements[i]
		if st.Job == nil {
			continue
		}
		if all == nil {
			all = map[int]*following{}
		}
		version := st.Job.Version + 1
		all[i] = &following{encodeSuccessors(st.Job.UID, st.Successors(st.Change(st.Job.CancelRequested), version, job.ShedNothing)), version}
	}
	return all
}

// of returns the successors of the change made to rec.
func (f *following) of(st *job.Settlement, rec *record) []successor {
	if rec.version == f.version {
		return f.list
	}
	// A cancel was recorded during the attempt.
	return encodeSuccessors(rec.uid, st.Successors(st.Change(rec.cancelRequested), rec.version, job.ShedNothing))
}

func encodeSuccessors(uid string, all []job.Successor) []successor {
	regs := successors.Of(uid, all)
	list := make([]successor, len(regs))
	for i := range regs {
		list[i] = successor{regs[i], new(encoder).encode(regs[i].Key, &regs[i].Spec), all[i].Passing}
	}
	return list
}

// follow registers the successors of the job of rec, and returns what it left out. A callback
// that the store has already was registered when the outcome was stored before.
func (s *Store) follow(list []successor, rec *record, now job.Instant) (shed job.Shed) {
	for i := range list {
		n := &list[i]
		switch {
		case n.reg.Key == (job.Key{Topic: rec.topic.name, ID: rec.id}):
			s.replaceBy(n, rec, now)
		case n.passing && s.isFull(n.reg.Key.Topic):
			shed = job.ShedPassing
		case s.find(n.reg.Key) == nil:
			j := n.reg.Job(now)
			s.add(newRecord(&j, n.encoded), &j, n.encoded, now)
		}
	}
	return shed
}

// replaceBy registers a successor in the place of its predecessor. Its record answers
// repetitions of the predecessor's settlement.
func (s *Store) replaceBy(n *successor, rec *record, now job.Instant) {
	before := job.Job{CreatedAt: rec.createdAt}
	j := n.reg.Over(&before, now)
	j.Token = rec.token // so that no worker of the old job can settle the new one
	fresh := newRecord(&j, n.encoded)
	fresh.more().settled, fresh.extra.settledBy = rec.extra.settled, rec.extra.settledBy
	if s.find(n.reg.Key) == rec {
		s.remove(rec, now)
	}
	s.add(fresh, &j, n.encoded, now)
}

func (s *Store) add(rec *record, j *job.Job, e encoded, now job.Instant) {
	rec.score = bucketScore(j.WakeAt(), j.State)
	s.insert(rec, j.Topic, e.lane, now)
}
