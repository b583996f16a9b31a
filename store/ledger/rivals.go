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
	rows    []*entry  // of the ledger
	changes []*change // that show the store's job, now or earlier
	last    candidate
}

// resolve decides which changes of the group are written. rows[i] are the ledger's messages
// of the key of changes[i]. It sets the seq of each change whose message exists.
func (g *group) resolve(rows map[int][]*entry) {
	var all []*rivalry
	byKey := map[job.Key]*rivalry{}
	for i, c := range g.changes {
		switch c.own = pickOwn(rows[i], c.uid); {
		case c.own != nil:
			c.seq, c.uid = c.own.seq, c.own.uid
		case c.looks:
			c.seq = 0 // it is purged
		}
		if c.job == nil || !c.looks {
			continue
		}
		r := byKey[c.key]
		if r == nil {
			r = &rivalry{}
			byKey[c.key], all = r, append(all, r)
		}
		r.changes, r.rows = append(r.changes, c), append(r.rows, rows[i]...)
	}
	for _, r := range all {
		r.decide()
		for _, c := range r.changes {
			c.resolve()
			if c.beaten && c.replaced == 0 && c.adds() {
				c.replaced = r.last.created
			}
		}
		for _, f := range r.rows {
			if f.uid != r.last.uid && f.confirmed != superseded && !r.rewrites(f) {
				g.ends[f.seq] = r.last.created
			}
		}
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
		me := candidate{c.uid, c.job.job.CreatedAt, c.before}
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
	}
}

// rewrites reports whether a message is rewritten.
func (r *rivalry) rewrites(f *entry) bool {
	return slices.ContainsFunc(r.changes, func(c *change) bool { return c.uid == f.uid && c.rewrites })
}

// adds reports whether the change writes the whole message.
func (c *change) adds() bool { return c.job != nil && (c.rewrites || c.seq == 0) }

// resolve decides which parts of a change are written, given the ledger's version. A job that has
// ended in the ledger is written again if the store has it later: its replay is not written yet.
func (c *change) resolve() {
	if c.own == nil || c.job == nil {
		return
	}
	later := c.own.version < c.job.job.Version
	switch {
	case c.own.confirmed == superseded:
		c.rewrites = !c.beaten
	case c.put:
		again := c.whole && (c.own.open || c.job.job.State.Final()) && c.own.version == c.job.job.Version
		c.rewrites = later || again
		c.overtaken = !c.rewrites && !c.beaten
	default:
		c.rewrites = later && !c.own.open && !c.beaten
	}
}
