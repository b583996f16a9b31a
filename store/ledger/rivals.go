package ledger

import (
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/journal"
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
	rows    []*journal.Entry
	changes []*change // that show the store's job, now or earlier
	last    candidate
	winner  *change // the change of the last registration; nil: only the journal has it
}

// Resolve decides which changes of the group are written.
func (g *group) Resolve(rows map[int][]*journal.Entry) {
	all := make([]*change, len(g.Changes))
	for i, c := range g.Changes {
		all[i] = g.change(c)
		all[i].own = journal.PickOwn(rows[i], c.UID)
	}
	rivalries := rivalriesOf(all, rows)
	for _, c := range all {
		g.resolve(c)
	}
	for i, in := range g.inserts {
		in.resolve(g, rows[len(all)+i], rivalries[in.Reg.Key])
	}
	for _, c := range all {
		if r := rivalries[c.Key]; r != nil && r.changes[0] == c { // once, in a fixed order
			g.endLosers(r)
		}
	}
	for _, c := range all {
		if c.beaten && c.Replaced == 0 && (c.Put != nil || c.Adopt != nil && c.Seq == 0) {
			c.Replaced = c.last
		}
	}
}

// rivalriesOf sorts changes by key; rows[i] are the journal's messages of the key of
// all[i].
func rivalriesOf(all []*change, rows map[int][]*journal.Entry) map[job.Key]*rivalry {
	rivalries := map[job.Key]*rivalry{}
	for i, c := range all {
		if c.shows() == nil {
			continue
		}
		r := rivalries[c.Key]
		if r == nil {
			r = &rivalry{}
			rivalries[c.Key] = r
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

func (r *rivalry) know(f *journal.Entry) {
	if !slices.ContainsFunc(r.rows, func(o *journal.Entry) bool { return o.Seq == f.Seq }) {
		r.rows = append(r.rows, f)
	}
}

// decide finds the last registration.
func (r *rivalry) decide() {
	for _, f := range r.rows {
		c := candidate{uid: f.UID, created: f.Created}
		if f.Confirmed == journal.Confirmed && (r.last.uid == "" || c.follows(&r.last)) {
			r.last = c
		}
	}
	for _, c := range r.changes {
		me := candidate{c.UID, c.shows().CreatedAt, c.before}
		overtaken := r.last.uid != "" && !me.follows(&r.last)
		if c.own != nil && c.own.Confirmed == journal.Superseded && !c.holds && !slices.Contains(c.before, r.last.uid) {
			overtaken = true
		}
		if me.uid == r.last.uid || c.Force || !overtaken {
			r.last, r.winner = me, c
		}
	}
	for _, c := range r.changes {
		c.beaten = c.UID != r.last.uid
		c.last = r.last.created
	}
}

// endLosers ends the other messages of the key. An unconfirmed one is only withdrawn: the
// store may still accept it, and a later change then shows it.
func (g *group) endLosers(r *rivalry) {
	for _, f := range r.rows {
		if f.UID == r.last.uid || f.Confirmed == journal.Superseded || r.rewrites(f) {
			continue
		}
		to := journal.Superseded
		if f.Confirmed == journal.Unconfirmed {
			if to = journal.Unconfirmed; !f.Open || r.winner == nil || !r.winner.opens() {
				continue
			}
		}
		g.End(f.Seq, r.last.created, to)
	}
}

// ends reports whether a message belongs to an earlier registration.
func (r *rivalry) ends(f *journal.Entry) bool {
	return r.winner != nil && f.Confirmed == journal.Confirmed && f.UID != r.last.uid
}

// rewrites reports whether a message is rewritten.
func (r *rivalry) rewrites(f *journal.Entry) bool {
	return slices.ContainsFunc(r.changes, func(c *change) bool { return c.UID == f.UID && c.Put != nil })
}

// shows returns the job as the store had it, or nil if the change has none.
func (c *change) shows() *job.Job {
	if c.Put != nil {
		return &c.Put.Job
	}
	return c.Adopt
}

// opens reports whether the change writes a message that may be restored.
func (c *change) opens() bool {
	if c.beaten || c.Replaced != 0 || c.GaveWay != 0 || c.Put == nil && c.Seq != 0 {
		return false
	}
	state, ended := c.shows().State, c.shows().EndedAt
	if p := c.Progress; p != nil && p.Version > c.shows().Version {
		state, ended = p.State, p.EndedAt
	}
	return journal.DoneAt(state, ended) == nil
}

// resolve decides which parts of a change are written, given the journal's version.
func (g *group) resolve(c *change) {
	own := c.own
	if own == nil {
		return
	}
	c.Seq, c.UID = own.Seq, own.UID
	if c.withdrawn != 0 && own.Confirmed == journal.Unconfirmed && own.Open {
		g.End(own.Seq, c.withdrawn, journal.Unconfirmed)
	}
	if c.Put != nil && c.late() {
		c.Put, c.Overtaken = nil, !c.beaten
	}
	switch {
	case c.Put != nil || c.Adopt == nil:
	case c.reopens():
		m := journal.NewMessage(*c.Adopt, c.Adopted)
		c.Put = &m
	case own.Confirmed == journal.Unconfirmed: // its node died, or got no answer to its commit
		g.Confirm(own.Seq, c.Adopt)
	}
}

// reopens reports whether a job of the store is written again because it has ended in the
// journal: its replay is not journaled yet, or it was withdrawn.
func (c *change) reopens() bool {
	switch c.own.Confirmed {
	case journal.Unconfirmed:
		return !c.own.Open || c.beaten
	case journal.Superseded:
		return !c.beaten
	}
	return !c.own.Open && !c.beaten && c.own.Version < c.Adopt.Version
}

// late reports whether the journal is ahead of Put.
func (c *change) late() bool {
	version := c.Put.Job.Version
	switch {
	case c.Force:
		return false
	case c.own.Confirmed == journal.Superseded:
		return c.beaten
	case c.own.Confirmed == journal.Unconfirmed, c.whole && (c.own.Open || c.Put.Job.State.Final()):
		return c.own.Version > version
	}
	return c.own.Version >= version
}

// resolve decides whether the registration may be added. It is refused if the key has an
// open message, unless it replaces that job and the job has not changed since.
func (in *intake) resolve(g *group, rows []*journal.Entry, r *rivalry) {
	in.before, in.lost = nil, 0
	for _, f := range rows {
		if f.UID == in.Of.UID {
			in.Of.Seq = f.Seq // another node's claim wrote it first
			continue
		}
		if f.Confirmed != journal.Unconfirmed {
			in.before = append(in.before, f.UID)
		}
	}
	if in.Of.Seq != 0 {
		return
	}
	undo := g.Ends()
	for _, f := range rows {
		switch {
		case !f.Open || r != nil && (r.rewrites(f) || r.ends(f)):
		case in.mayFollow(f.UID, f.Version): // the store may still change that job
			g.End(f.Seq, in.Message.At, f.Confirmed)
		default:
			in.Refused = true
		}
	}
	if r != nil && r.winner != nil && r.winner.opens() {
		j := r.winner.shows()
		in.Refused = in.Refused || !in.mayFollow(j.UID, j.Version)
		if !in.Refused {
			r.winner.GaveWay = in.Message.At
		}
	}
	if in.asks != 0 && in.Old == nil && !in.Refused {
		in.lost = lastEnded(rows, in.asks)
		in.Refused = in.lost != 0
	}
	if in.Refused {
		undo()
	}
}

// lastEnded is the seq of the job that the store is known to have had last, if that has
// ended since then.
func lastEnded(rows []*journal.Entry, since job.Instant) (seq int64) {
	var last *journal.Entry
	for _, f := range rows {
		if f.Confirmed == journal.Confirmed && !f.Open && (last == nil || f.Created > last.Created) {
			last = f
		}
	}
	if last == nil || last.Done < since {
		return 0
	}
	return last.Seq
}
