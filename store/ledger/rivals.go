package ledger

import (
	"slices"

	"github.com/duehook/duehook/job"
)

// candidate is a registration known to have been in the store.
type candidate struct {
	uid     string
	created job.Instant
	before  []string // uids of registrations known to be earlier
}

// follows reports whether the store had c after o. A store dates a registration after the
// one that it replaces.
func (c *candidate) follows(o *candidate) bool {
	switch {
	case slices.Contains(c.before, o.uid):
		return true
	case slices.Contains(o.before, c.uid):
		return false
	case c.created != o.created:
		return c.created > o.created
	}
	return c.uid > o.uid
}

// rivalry holds the registrations of one key. At most one of them may be restored: the
// last one known to have been in the store, unless its job has ended.
type rivalry struct {
	rows    []*entry
	changes []*change // that show the store's job, now or earlier
	last    candidate
}

// resolve decides which changes of the group are written. rows[i] are the ledger's messages
// of the key of changes[i]. It sets the seq of each change whose message exists.
func (g *group) resolve(rows map[int][]*entry) {
	for i, c := range g.changes {
		c.own = pickOwn(rows[i], c.uid)
		g.repeat(c)
	}
	rivalries := rivalriesOf(g.changes, rows)
	for _, c := range g.changes {
		g.resolveChange(c)
	}
	for _, c := range g.changes {
		if r := rivalries[c.key]; r != nil && r.changes[0] == c { // once, in a fixed order
			g.endLosers(r)
		}
	}
	for _, c := range g.changes {
		if c.beaten && c.replaced == 0 && (c.put != nil || c.adopt != nil && c.seq == 0) {
			c.replaced = c.last
		}
	}
}

// rivalriesOf sorts changes by key; rows[i] are the ledger's messages of the key of
// all[i].
func rivalriesOf(all []*change, rows map[int][]*entry) map[job.Key]*rivalry {
	rivalries := map[job.Key]*rivalry{}
	for i, c := range all {
		if c.shows() == nil {
			continue
		}
		r := rivalries[c.key]
		if r == nil {
			r = &rivalry{}
			rivalries[c.key] = r
		}
		r.changes = append(r.changes, c)
		for _, f := range rows[i] {
			r.know(f)
		}
	}
	for _, r := range rivalries {
		r.decide()
	}
	return rivalries
}

func (r *rivalry) know(f *entry) {
	if !slices.ContainsFunc(r.rows, func(o *entry) bool { return o.seq == f.seq }) {
		r.rows = append(r.rows, f)
	}
}

// decide finds the last registration.
func (r *rivalry) decide() {
	for _, f := range r.rows {
		c := candidate{uid: f.uid, created: f.created}
		if f.confirmed != superseded && (r.last.uid == "" || c.follows(&r.last)) {
			r.last = c
		}
	}
	for _, c := range r.changes {
		me := candidate{c.uid, c.shows().CreatedAt, c.before}
		overtaken := r.last.uid != "" && !me.follows(&r.last)
		if c.own != nil && c.own.confirmed == superseded && !c.holds && !slices.Contains(c.before, r.last.uid) {
			overtaken = true
		}
		if me.uid == r.last.uid || !overtaken {
			r.last = me
		}
	}
	for _, c := range r.changes {
		c.beaten = c.uid != r.last.uid
		c.last = r.last.created
	}
}

// endLosers ends the other messages of the key.
func (g *group) endLosers(r *rivalry) {
	for _, f := range r.rows {
		if f.uid != r.last.uid && f.confirmed != superseded && !r.rewrites(f) {
			g.ends = append(g.ends, ending{f.seq, r.last.created})
		}
	}
}

// rewrites reports whether a message is rewritten.
func (r *rivalry) rewrites(f *entry) bool {
	return slices.ContainsFunc(r.changes, func(c *change) bool { return c.uid == f.uid && c.put != nil })
}

// shows returns the job as the store had it, or nil if the change has none.
func (c *change) shows() *job.Job {
	if c.put != nil {
		return &c.put.job
	}
	return c.adopt
}

// resolveChange decides which parts of a change are written, given the ledger's version.
func (g *group) resolveChange(c *change) {
	own := c.own
	if own == nil {
		return
	}
	c.seq, c.uid = own.seq, own.uid
	if c.put != nil && c.late() {
		c.put, c.overtaken = nil, !c.beaten
	}
	if c.put == nil && c.adopt != nil && c.reopens() {
		m := newMessage(*c.adopt, c.adopted)
		c.put = &m
	}
}

// reopens reports whether a job of the store is written again because it has ended in the
// ledger: its replay is not written to the ledger yet.
func (c *change) reopens() bool {
	if c.own.confirmed == superseded {
		return !c.beaten
	}
	return !c.own.open && !c.beaten && c.own.version < c.adopt.Version
}

// late reports whether the ledger is ahead of Put.
func (c *change) late() bool {
	version := c.put.job.Version
	switch {
	case c.own.confirmed == superseded:
		return c.beaten
	case c.whole && (c.own.open || c.put.job.State.Final()):
		return c.own.version > version
	}
	return c.own.version >= version
}
