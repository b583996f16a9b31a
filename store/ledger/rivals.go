package ledger

import (
	"slices"

	"github.com/duehook/duehook/job"
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

// rivalry is about the registrations of one key. One of them may be restored:
// the last that the store is known to have had, unless its job has ended. Until
// the store shows something else, that may also be one that is not confirmed.
type rivalry struct {
	rows    []*found
	changes []*change // that say what the store has, or had
	last    candidate
	winner  *change // of changes: it is the last one; nil: the journal knows the last one
}

// rivalries sorts changes by key; byIndex is what the journal has, in their order.
func (w *writing) rivalries(byIndex map[int][]found) map[job.Key]*rivalry {
	all := map[job.Key]*rivalry{}
	for i, c := range w.order {
		c.own = pickOwn(byIndex[i], c.uid)
		if c.shows() == nil {
			continue
		}
		r := all[c.key]
		if r == nil {
			r = &rivalry{}
			all[c.key] = r
		}
		r.changes = append(r.changes, c)
		for n := range byIndex[i] {
			r.know(&byIndex[i][n])
		}
	}
	for _, r := range all {
		r.decide(w.shared)
	}
	return all
}

func (r *rivalry) know(f *found) {
	if !slices.ContainsFunc(r.rows, func(o *found) bool { return o.seq == f.seq }) {
		r.rows = append(r.rows, f)
	}
}

// decide finds the last one. In a process of its own that is the last that was
// written down.
func (r *rivalry) decide(shared bool) {
	for _, f := range r.rows {
		c := candidate{uid: f.uid, created: job.Instant(f.created)}
		if f.confirmed == confirmed && (r.last.uid == "" || c.follows(&r.last)) {
			r.last = c
		}
	}
	for _, c := range r.changes {
		j := c.shows()
		me := candidate{c.uid, j.CreatedAt, c.before}
		overtaken := shared && r.last.uid != "" && !me.follows(&r.last)
		if c.own != nil && c.own.confirmed == superseded && !c.holds && !slices.Contains(c.before, r.last.uid) {
			overtaken = true
		}
		if me.uid == r.last.uid || c.force || !overtaken {
			r.last, r.winner = me, c
		}
	}
	for _, c := range r.changes {
		c.beaten = c.uid != r.last.uid
		c.last = r.last.created
	}
}

// endLosers ends the other messages of the key. One that is not confirmed is
// withdrawn only: the store may take it yet, and shows it then.
func (w *writing) endLosers(r *rivalry) {
	for _, f := range r.rows {
		if f.uid == r.last.uid || f.confirmed == superseded || !f.open && !w.shared || r.rewrites(f) {
			continue
		}
		to := superseded
		if w.shared && f.confirmed == unconfirmed {
			if to = unconfirmed; !f.open || r.winner == nil || !r.winner.opens() {
				continue
			}
		}
		w.ends = append(w.ends, ending{f.seq, r.last.created, to})
	}
}

// ends reports whether a message is known to be of an earlier registration.
func (r *rivalry) ends(f *found) bool {
	return r.winner != nil && f.confirmed == confirmed && f.uid != r.last.uid
}

// rewrites reports whether a message is written anew.
func (r *rivalry) rewrites(f *found) bool {
	return slices.ContainsFunc(r.changes, func(c *change) bool { return c.uid == f.uid && c.put != nil })
}

// ending closes a message.
type ending struct {
	seq       int64
	at        job.Instant
	confirmed int64 // what that becomes
}

// shows is the job as the store showed it, if the change has that.
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

// resolve decides what is to be written of a change, now that it is known what
// the journal has.
func (c *change) resolve(w *writing) {
	own := c.own
	if own == nil {
		return
	}
	c.seq, c.uid = own.seq, own.uid
	if c.withdrawn != 0 && own.confirmed == unconfirmed && own.open {
		w.ends = append(w.ends, ending{own.seq, c.withdrawn, unconfirmed})
	}
	if w.looks && c.put != nil && c.late() {
		c.put, c.overtaken = nil, !c.beaten
	}
	switch {
	case c.put != nil || c.adopt == nil:
	case w.shared && c.reopens():
		m := newMessage(*c.adopt, c.adopted)
		c.put = &m
	case own.confirmed == unconfirmed && (w.shared || c.born != nil): // its node died, or got no answer to its commit
		w.confirm(own.seq, c.adopt)
	}
}

// reopens reports whether a job that goes on in the store has to be written
// anew, because the journal has it as ended: what began it anew comes yet, or it
// was withdrawn.
func (c *change) reopens() bool {
	switch c.own.confirmed {
	case unconfirmed:
		return !c.own.open || c.beaten
	case superseded:
		return !c.beaten
	}
	return !c.own.open && !c.beaten && c.own.version < int64(c.adopt.Version)
}

// late reports whether the journal is further than what is to be put anew.
func (c *change) late() bool {
	version := int64(c.put.job.Version)
	switch {
	case c.force:
		return false
	case c.own.confirmed == superseded:
		return c.beaten
	case c.own.confirmed == unconfirmed, c.whole && (c.own.open || c.put.job.State.Final()):
		return c.own.version > version
	}
	return c.own.version >= version
}

// resolve finds out whether the registration may be added. It must not stand
// beside a message that may be restored, except that of a job whose place it
// takes, and which has come no further than was known.
func (in *insertion) resolve(w *writing, messages []found, r *rivalry) {
	in.after = nil
	for i := range messages {
		f := &messages[i]
		if f.uid == in.of.uid {
			in.of.seq = f.seq // a claim by another node was faster with it
			continue
		}
		if f.confirmed != unconfirmed {
			in.after = append(in.after, f.uid)
		}
	}
	if in.of.seq != 0 {
		return
	}
	before := len(w.ends)
	for i := range messages {
		if f := &messages[i]; f.open && (r == nil || !r.rewrites(f) && !r.ends(f)) {
			in.takePlace(w, f)
		}
	}
	if w.shared && r != nil && r.winner != nil && r.winner.opens() {
		in.takePlaceOf(r.winner)
	}
	if in.asks != 0 && w.shared && !in.conflict {
		in.ended = lastEnded(messages, in.asks)
		in.conflict = in.ended != 0
	}
	if in.conflict {
		w.ends = w.ends[:before]
	}
}

// lastEnded is the seq of the job that the store is known to have had last, if
// that has ended since then.
func lastEnded(messages []found, since job.Instant) (seq int64) {
	var last *found
	for i := range messages {
		if f := &messages[i]; f.confirmed == confirmed && !f.open && (last == nil || f.created > last.created) {
			last = f
		}
	}
	if last == nil || job.Instant(last.done) < since {
		return 0
	}
	return last.seq
}

// takePlace ends a message whose place the registration takes, if it may.
func (in *insertion) takePlace(w *writing, f *found) {
	switch {
	case !w.shared:
		c := w.of(in.of.key, f.uid)
		c.seq, c.settled = f.seq, true
		if c.replaced == 0 {
			c.replaced = in.at
		}
	case in.mayFollow(f.uid, uint64(f.version)):
		// The store may go on with it yet.
		w.ends = append(w.ends, ending{f.seq, in.at, f.confirmed})
	default:
		in.conflict = true
	}
}

// takePlaceOf is takePlace for what is being written of a job.
func (in *insertion) takePlaceOf(c *change) {
	j := c.shows()
	in.conflict = in.conflict || !in.mayFollow(j.UID, j.Version)
	if !in.conflict {
		c.gaveWay = in.at
	}
}

func (in *insertion) mayFollow(uid string, version uint64) bool {
	return slices.ContainsFunc(in.over, func(p predecessor) bool { return p.uid == uid && version <= p.version })
}

// predecessor is a job whose place a registration may take.
type predecessor struct {
	uid     string
	version uint64 // that it had at most
}
