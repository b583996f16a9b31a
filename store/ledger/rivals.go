package ledger

import (
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/journal"
)

// candidate is a registration that the store is known to have had.
type candidate struct {
	uid     string
	created job.Instant
	before  []string // the uids of others that it is known to have followed
}

// follows reports whether the store had c after o. Each store dates a
// registration after the one that it takes the place of.
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

// rivalry is about the registrations of one key. One of them may be restored: the last
// that the store is known to have had, unless its job has ended. Until the store shows
// another, that may also be one that is not confirmed.
type rivalry struct {
	rows    []*journal.Found
	changes []*change // that say what the store has, or had
	last    candidate
	winner  *change // of changes: it is the last one; nil: the journal knows the last one
}

// Resolve decides what is written of the group.
func (g *group) Resolve(rows map[int][]journal.Found) {
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
		in.resolve(g, rows[len(all)+i], rivalries[in.Of.Key])
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
		// Other nodes may go on with what this one registered.
		c.Settled = c.Settled || c.born != nil && c.Token == 0
	}
}

// rivalriesOf sorts changes by key; rows[i] is what the journal has of the key of all[i].
func rivalriesOf(all []*change, rows map[int][]journal.Found) map[job.Key]*rivalry {
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
		for n := range rows[i] {
			r.know(&rows[i][n])
		}
	}
	for _, r := range rivalries {
		r.decide()
	}
	return rivalries
}

func (r *rivalry) know(f *journal.Found) {
	if !slices.ContainsFunc(r.rows, func(o *journal.Found) bool { return o.Seq == f.Seq }) {
		r.rows = append(r.rows, f)
	}
}

// decide finds the last one.
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

// endLosers ends the other messages of the key. One that is not confirmed is withdrawn
// only: the store may take it yet, and shows it then.
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

// ends reports whether a message is known to be of an earlier registration.
func (r *rivalry) ends(f *journal.Found) bool {
	return r.winner != nil && f.Confirmed == journal.Confirmed && f.UID != r.last.uid
}

// rewrites reports whether a message is written anew.
func (r *rivalry) rewrites(f *journal.Found) bool {
	return slices.ContainsFunc(r.changes, func(c *change) bool { return c.UID == f.UID && c.Put != nil })
}

// shows is the job as the store showed it, if the change has that.
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

// resolve decides what is written of a change, given what the journal has.
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
		c.Put, c.overtaken = nil, !c.beaten
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

// reopens reports whether a job that goes on in the store is written anew, because the
// journal has it as ended: its replay is not journaled yet, or it was withdrawn.
func (c *change) reopens() bool {
	switch c.own.Confirmed {
	case journal.Unconfirmed:
		return !c.own.Open || c.beaten
	case journal.Superseded:
		return !c.beaten
	}
	return !c.own.Open && !c.beaten && c.own.Version < int64(c.Adopt.Version)
}

// late reports whether the journal is further than Put.
func (c *change) late() bool {
	version := int64(c.Put.Job.Version)
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

// resolve finds out whether the registration may be added. It must not stand beside an
// open message, except that of a job whose place it takes, and which has come no further
// than was known.
func (in *insertion) resolve(g *group, rows []journal.Found, r *rivalry) {
	in.after = nil
	for i := range rows {
		f := &rows[i]
		if f.UID == in.Of.UID {
			in.Of.Seq = f.Seq // a claim by another node was faster with it
			continue
		}
		if f.Confirmed != journal.Unconfirmed {
			in.after = append(in.after, f.UID)
		}
	}
	if in.Of.Seq != 0 {
		return
	}
	undo := g.Ends()
	for i := range rows {
		f := &rows[i]
		switch {
		case !f.Open || r != nil && (r.rewrites(f) || r.ends(f)):
		case in.mayFollow(f.UID, uint64(f.Version)): // the store may go on with it yet
			g.End(f.Seq, in.At, f.Confirmed)
		default:
			in.Refused = true
		}
	}
	if r != nil && r.winner != nil && r.winner.opens() {
		j := r.winner.shows()
		in.Refused = in.Refused || !in.mayFollow(j.UID, j.Version)
		if !in.Refused {
			r.winner.GaveWay = in.At
		}
	}
	if in.asks != 0 && !in.Refused {
		in.ended = lastEnded(rows, in.asks)
		in.Refused = in.ended != 0
	}
	if in.Refused {
		undo()
	}
}

// lastEnded is the seq of the job that the store is known to have had last, if that has
// ended since then.
func lastEnded(rows []journal.Found, since job.Instant) (seq int64) {
	var last *journal.Found
	for i := range rows {
		if f := &rows[i]; f.Confirmed == journal.Confirmed && !f.Open && (last == nil || f.Created > last.Created) {
			last = f
		}
	}
	if last == nil || last.Done < since {
		return 0
	}
	return last.Seq
}

func (in *insertion) mayFollow(uid string, version uint64) bool {
	return slices.ContainsFunc(in.over, func(p predecessor) bool { return p.uid == uid && version <= p.version })
}

// predecessor is a job whose place a registration may take.
type predecessor struct {
	uid     string
	version uint64 // that it had at most
}
