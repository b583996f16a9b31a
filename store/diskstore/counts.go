package diskstore

import (
	"github.com/duehook/duehook/internal/job"
)

// counts holds how many jobs there are, by state.
type counts [8]int64

func (c *counts) byState() map[job.State]int64 {
	m := make(map[job.State]int64, len(c))
	for s, n := range c {
		m[job.State(s)] = n
	}
	return m
}

func (c *counts) unfinished() (n int64) {
	for _, held := range c[:job.Delivered] {
		n += held
	}
	return n
}

func (c *counts) inFlight() int { return int(c[job.Running]) }

// topic has the counts of a topic. It lives as long as it has a job.
type topic struct {
	name   string
	counts counts
}

// meta are figures of the whole store.
type meta struct {
	seq       uint64 // of the last place
	orderKeys int64
	behind    int64 // jobs that wait for another one of their order key
}

// Rows of the figures.
var (
	rowForm = row(famMeta, "form")
	rowSeq  = row(famMeta, "seq")
	rowTurn = row(famMeta, "turns")
)

// seqStep is how many places are taken at a time.
const seqStep = 1 << 40

func (t *txn) topicOf(name string) *topic {
	top, ok := t.s.topics.Get(name)
	if !ok {
		top = &topic{name: name}
		t.s.topics.Set(name, top)
	}
	return top
}

// count counts jobs of a topic as callers see them; l is the lane of unfinished ones.
func (t *txn) count(name string, l *lane, state job.State, n int64) {
	t.changed = true
	top := t.topicOf(name)
	top.counts[state] += n
	t.s.counts[state] += n
	if !state.Final() {
		l.endpoint.jobs[state] += n
	}
	if t.topics == nil {
		t.topics = map[*topic]bool{}
	}
	t.topics[top] = t.topics[top] || state.Final()
}

// countDead counts the dead letters of a group.
func (t *txn) countDead(group string, n int64) {
	held, _ := t.s.dead.Get(group)
	if held += n; held == 0 {
		t.s.dead.Delete(group)
	} else {
		t.s.dead.Set(group, held)
	}
	if t.groups == nil {
		t.groups = map[string]struct{}{}
	}
	t.groups[group] = struct{}{}
}

// countRow counts rows of a lane.
func (t *txn) countRow(l *lane, state job.State, parked bool, n int64) {
	l.rows[state] += n
	if parked {
		l.parked += n
	}
	t.touch(l)
}

func (t *txn) touch(l *lane) {
	t.changed = true
	if t.lanes == nil {
		t.lanes = map[*lane]struct{}{}
	}
	t.lanes[l] = struct{}{}
}

// writeCounts writes the counts that changed, and forgets what is empty.
func (t *txn) writeCounts() {
	for l := range t.lanes {
		if l.held() == 0 {
			t.s.dropLane(l, t.now)
		}
		var w writer
		for _, n := range []int64{l.rows[job.Waiting], l.rows[job.Retrying], l.parked} {
			w.uint(uint64(n))
		}
		t.setUnless(l.held() == 0, row(famLaneCounts, l.name), w.b)
	}
	for top, ended := range t.topics {
		if top.counts == (counts{}) {
			t.s.topics.Delete(top.name)
		}
		if !ended {
			continue
		}
		var w writer
		var sum int64
		for _, n := range top.counts[job.Delivered:] {
			w.uint(uint64(n))
			sum += n
		}
		t.setUnless(sum == 0, row(famTopicCounts, top.name), w.b)
	}
	for name := range t.groups {
		var w writer
		n, _ := t.s.dead.Get(name)
		w.uint(uint64(n))
		t.setUnless(n == 0, row(famGroupCount, name), w.b)
	}
	if t.figure {
		var w writer
		w.uint(uint64(t.s.meta.orderKeys))
		w.uint(uint64(t.s.meta.behind))
		t.set(rowTurn, w.b)
	}
}

// setUnless writes a row, or deletes it if it is empty.
func (t *txn) setUnless(empty bool, key, value []byte) {
	if empty {
		t.delete(key)
		return
	}
	t.set(key, value)
}
