package memstore

import (
	"cmp"
	"strings"

	"github.com/tidwall/btree"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/listing"
)

// score orders entries by a time and then a state: four times the
// milliseconds, plus the state's code. In a bucket, inFlightShift puts jobs in flight
// before waiting ones, so that counting them, and finding expired leases, is cheap. Scores
// stay below 2^53, so that a float64 holds them exactly.
type score int64

const inFlightShift = score(1) << 51

// bucketScore is the score of an unfinished job that next needs attention at at.
func bucketScore(at job.Instant, s job.State) score {
	sc := score(at)<<2 | score(s)
	if isInFlight(s) {
		sc -= inFlightShift
	}
	return sc
}

// endedScore is the score of an ended job in its topic's list.
func endedScore(at job.Instant, s job.State) score { return score(at)<<2 | score(s-job.Delivered) }

// code is the state of an unfinished job.
func (s score) code() job.State { return job.State(s & 3) }

// at is the time of a bucket's entry.
func (s score) at() job.Instant {
	if s < 0 {
		s += inFlightShift
	}
	return job.Instant(s >> 2)
}

// isInFlight reports whether a job is carried or claimed.
func isInFlight(s job.State) bool { return s == job.Ready || s == job.Running }

// entry is one entry of a bucket or list. It repeats the record's score, so that searches
// seldom read records.
type entry struct {
	score score
	rec   *record
}

type index = btree.BTreeG[entry]

func newIndex() *index {
	return btree.NewBTreeGOptions(func(a, b entry) bool {
		if a.score != b.score {
			return a.score < b.score
		}
		return a.rec.id < b.rec.id
	}, btree.Options{NoLocks: true})
}

// byBizKey orders the index of biz_keys.
func byBizKey(a, b *record) bool {
	return cmp.Or(
		strings.Compare(a.bizKey, b.bizKey), strings.Compare(a.topic.name, b.topic.name), strings.Compare(a.id, b.id),
	) < 0
}

// byGroupID orders the index of the jobs of groups, in which the jobs of a group id
// follow each other in each topic.
func byGroupID(a, b *record) bool {
	return cmp.Or(
		strings.Compare(job.GroupIDOf(a.id), job.GroupIDOf(b.id)), strings.Compare(a.topic.name, b.topic.name), strings.Compare(a.id, b.id),
	) < 0
}

// byUID orders the index of uids. Those that BindUID made are all different.
func byUID(a, b *record) bool {
	return cmp.Or(
		strings.Compare(a.uid, b.uid), strings.Compare(a.topic.name, b.topic.name), strings.Compare(a.id, b.id),
	) < 0
}

// counts holds how many jobs there are, by state.
type counts [8]int64

func (c *counts) byState() map[job.State]int64 {
	m := make(map[job.State]int64, len(c))
	for s, n := range c {
		m[job.State(s)] = n
	}
	return m
}

// topic holds the jobs of a topic. It lives as long as it has one.
type topic struct {
	name   string
	jobs   map[string]*record
	counts counts
	ended  *index      // ended jobs except dead letters, by their end
	ending job.Instant // its place in Store.endings: the first of them ended no earlier
}

// byEnding orders topics by when their first job may have ended.
func byEnding(a, b *topic) bool {
	return cmp.Or(cmp.Compare(a.ending, b.ending), strings.Compare(a.name, b.name)) < 0
}

// deadGroup holds the dead letters of a lane that ended for one reason. It
// lives as long as it has one.
type deadGroup struct {
	name string
	jobs *index // by their end
}

// deadGroupOf finds or makes a group.
func (s *Store) deadGroupOf(name string) *deadGroup {
	if g, ok := s.dead.Get(name); ok {
		return g
	}
	g := &deadGroup{name: name, jobs: newIndex()}
	s.dead.Set(name, g)
	return g
}

// placeEnded puts a record into the list of the ended jobs of its kind.
func (s *Store) placeEnded(rec *record, l job.Lane) {
	if rec.state != job.Dead {
		rec.topic.ended.Set(entry{rec.score, rec})
		if rec.topic.ended.Len() == 1 || rec.score.at() < rec.topic.ending {
			s.noteEnding(rec.topic)
		}
		return
	}
	x := rec.more()
	x.dead = s.deadGroupOf(listing.DeadName(l, x.reason))
	x.dead.jobs.Set(entry{rec.score, rec})
}

// unplaceEnded removes a record from that list.
func (s *Store) unplaceEnded(rec *record) {
	if rec.state != job.Dead {
		rec.topic.ended.Delete(entry{rec.score, rec})
		if rec.topic.ended.Len() == 0 {
			s.endings.Delete(rec.topic)
		}
		return
	}
	g := rec.extra.dead
	rec.extra.dead = nil
	g.jobs.Delete(entry{rec.score, rec})
	if g.jobs.Len() == 0 {
		s.dead.Delete(g.name)
	}
}

func (s *Store) find(key job.Key) *record {
	t, ok := s.topics.Get(key.Topic)
	if !ok {
		return nil
	}
	return t.jobs[key.ID]
}

// insert adds a record to the store and its topic; l is the lane of its job.
func (s *Store) insert(rec *record, name string, l job.Lane, now job.Instant) {
	t, ok := s.topics.Get(name)
	if !ok {
		t = &topic{name: strings.Clone(name), jobs: map[string]*record{}, ended: newIndex()}
		s.topics.Set(t.name, t)
	}
	rec.topic = t
	t.jobs[rec.id] = rec
	s.uids.Set(rec)
	s.indexByNames(rec)
	s.place(rec, l, now)
}

// remove forgets a record.
func (s *Store) remove(rec *record, now job.Instant) {
	s.unplace(rec, now)
	s.promote(rec.turns, now)
	s.unindexByNames(rec)
	s.uids.Delete(rec)
	t := rec.topic
	delete(t.jobs, rec.id)
	if len(t.jobs) == 0 {
		s.topics.Delete(t.name)
	}
}

func (s *Store) indexByNames(rec *record) {
	if rec.bizKey != "" {
		s.bizKeys.Set(rec)
	}
	if rec.grouped {
		s.groupIDs.Set(rec)
	}
}

func (s *Store) unindexByNames(rec *record) {
	if rec.bizKey != "" {
		s.bizKeys.Delete(rec)
	}
	if rec.grouped {
		s.groupIDs.Delete(rec)
	}
}

// place puts a record where its state and score say: into the bucket of lane
// l, or into a list of ended jobs.
func (s *Store) place(rec *record, l job.Lane, now job.Instant) {
	if rec.state.Final() {
		rec.lane = nil
		s.placeEnded(rec, l)
		s.stopTurns(rec)
		s.count(rec, 1)
		return
	}
	s.enterTurns(rec)
	rec.lane = s.laneOf(l)
	rec.lane.add(rec)
	s.count(rec, 1)
	s.look(rec.lane, now)
}

// unplace removes a record from its bucket or list.
func (s *Store) unplace(rec *record, now job.Instant) {
	s.count(rec, -1)
	s.leaveTurns(rec)
	if rec.lane == nil {
		s.unplaceEnded(rec)
		return
	}
	l := rec.lane
	l.take(rec)
	s.look(l, now)
	rec.lane = nil
	if isInFlight(rec.score.code()) {
		s.placeFree(l, now)
	}
}

// rescore moves a record within its bucket.
func (s *Store) rescore(rec *record, sc score) {
	s.count(rec, -1)
	rec.lane.take(rec)
	rec.score = sc
	rec.lane.add(rec)
	s.count(rec, 1)
}

func (s *Store) count(rec *record, n int64) {
	state := rec.shown()
	rec.topic.counts[state] += n
	s.counts[state] += n
}
