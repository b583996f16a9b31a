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
// last one known to have been in the store, unless its job has ended. An unconfirmed one
// counts as the last until the store shows another.
type rivalry struct {
	rows    []*entry
	changes []*change // that show the store's job, now or earlier
	last    candidate
	winner  *change // the change of the last registration; nil: only the ledger has it
}

// resolve decides which changes of the group are written. rows[i] are the ledger's messages
// of the key of changes[i], and rows[len(changes)+i] those of the key of inserts[i]. It sets
// the seq of each change whose message exists.
func (g *group) resolve(rows map[int][]*entry) {
	for i, c := range g.changes {
		c.own = pickOwn(rows[i], c.uid)
		g.repeat(c)
	}
	rivalries := rivalriesOf(g.changes, rows)
	for _, c := range g.changes {
		g.resolveChange(c)
	}
	for i, in := range g.inserts {
		in.resolve(g, rows[len(g.changes)+i], rivalries[in.reg.Key])
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
		if f.confirmed == confirmed && (r.last.uid == "" || c.follows(&r.last)) {
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
			r.last, r.winner = me, c
		}
	}
	for _, c := range r.changes {
		c.beaten = c.uid != r.last.uid
		c.last = r.last.created
	}
}

// endLosers ends the other messages of the key. An unconfirmed one is only withdrawn: the
// store may still accept it, and a later change then shows it.
func (g *group) endLosers(r *rivalry) {
	for _, f := range r.rows {
		if f.uid == r.last.uid || f.confirmed == superseded || r.rewrites(f) {
			continue
		}
		to := superseded
		if f.confirmed == unconfirmed {
			if to = unconfirmed; !f.open || r.winner == nil || !r.winner.opens() {
				continue
			}
		}
		g.end(f.seq, r.last.created, to)
	}
}

// ends reports whether a message belongs to an earlier registration.
func (r *rivalry) ends(f *entry) bool {
	return r.winner != nil && f.confirmed == confirmed && f.uid != r.last.uid
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

// opens reports whether the change writes a message that may be restored.
func (c *change) opens() bool {
	if c.beaten || c.replaced != 0 || c.gaveWay != 0 || c.put == nil && c.seq != 0 {
		return false
	}
	state, ended := c.shows().State, c.shows().EndedAt
	if p := c.progress; p != nil && p.version > c.shows().Version {
		state, ended = p.state, p.endedAt
	}
	return doneAt(state, ended) == nil
}

// resolveChange decides which parts of a change are written, given the ledger's version.
func (g *group) resolveChange(c *change) {
	own := c.own
	if own == nil {
		return
	}
	c.seq, c.uid = own.seq, own.uid
	if c.withdrawn != 0 && own.confirmed == unconfirmed && own.open {
		g.end(own.seq, c.withdrawn, unconfirmed)
	}
	if c.put != nil && c.late() {
		c.put, c.overtaken = nil, !c.beaten
	}
	switch {
	case c.put != nil || c.adopt == nil:
	case c.reopens():
		m := newMessage(*c.adopt, c.adopted)
		c.put = &m
	case own.confirmed == unconfirmed: // its node died, or got no answer to its commit
		g.confirm(own.seq, c.adopt)
	}
}

// reopens reports whether a job of the store is written again because it has ended in the
// ledger: its replay is not written to the ledger yet, or it was withdrawn.
func (c *change) reopens() bool {
	switch c.own.confirmed {
	case unconfirmed:
		return !c.own.open || c.beaten
	case superseded:
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
	case c.own.confirmed == unconfirmed, c.whole && (c.own.open || c.put.job.State.Final()):
		return c.own.version > version
	}
	return c.own.version >= version
}

// resolve decides whether the registration may be added. It is refused if the key has an
// open message, unless it replaces that job and the job has not changed since.
func (in *intake) resolve(g *group, rows []*entry, r *rivalry) {
	in.before, in.lost = nil, 0
	for _, f := range rows {
		if f.uid == in.of.uid {
			in.of.seq = f.seq // another node's claim wrote it first
			continue
		}
		if f.confirmed != unconfirmed {
			in.before = append(in.before, f.uid)
		}
	}
	if in.of.seq != 0 {
		return
	}
	ends := len(g.ends)
	for _, f := range rows {
		switch {
		case !f.open || r != nil && (r.rewrites(f) || r.ends(f)):
		case in.mayFollow(f.uid, f.version): // the store may still change that job
			g.end(f.seq, in.message.at, f.confirmed)
		default:
			in.refused = true
		}
	}
	if r != nil && r.winner != nil && r.winner.opens() {
		j := r.winner.shows()
		in.refused = in.refused || !in.mayFollow(j.UID, j.Version)
		if !in.refused {
			r.winner.gaveWay = in.message.at
		}
	}
	if in.asks != 0 && in.old == nil && !in.refused {
		in.lost = lastEnded(rows, in.asks)
		in.refused = in.lost != 0
	}
	if in.refused {
		g.ends = g.ends[:ends]
	}
}

// lastEnded is the seq of the job that the store is known to have had last, if that has
// ended since then.
func lastEnded(rows []*entry, since job.Instant) (seq int64) {
	var last *entry
	for _, f := range rows {
		if f.confirmed == confirmed && !f.open && (last == nil || f.created > last.created) {
			last = f
		}
	}
	if last == nil || last.done < since {
		return 0
	}
	return last.seq
}
