package ledger

import (
	"cmp"
	"slices"

	"github.com/duehook/duehook/job"
)

// place orders the registrations of a key, of which at most the last may be restored. It is when the
// store registered the job, or later: a registration follows those that its node knew, also if the
// store had forgotten them and its clock went back.
type place struct {
	at  job.Instant
	uid string
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.at, o.at), cmp.Compare(p.uid, o.uid))
}

// resolve decides what is written. rows[i] are the ledger's messages of changes[i]: its own, and the
// last of its key. It returns the messages, by seq, that a registration of the group replaces.
func (g *group) resolve(rows map[int][]*entry) (replaced map[int64]*entry) {
	for i, c := range g.changes {
		if c.own = pickOwn(rows[i], c.uid); c.own != nil {
			c.seq = c.own.seq
		}
		c.findPlace(rows[i])
		g.raise(c.key, c.place)
		for _, e := range rows[i] {
			if !e.replaced {
				g.raise(c.key, e.place)
			}
		}
	}
	replaced = map[int64]*entry{}
	for i, c := range g.changes {
		last := g.lasts[c.key]
		c.last = c.uid == last.uid
		c.resolve()
		for _, e := range rows[i] {
			if !e.replaced && e.uid != last.uid {
				replaced[e.seq] = e
			}
		}
	}
	return replaced
}

// raise notes the place of a registration that may be the last of its key.
func (g *group) raise(key job.Key, p place) {
	if p.compare(g.lasts[key]) > 0 {
		g.lasts[key] = p
	}
}

// findPlace finds the place of a registration among the ledger's messages of its key.
func (c *change) findPlace(rows []*entry) {
	if c.job == nil {
		return
	}
	c.place = place{c.job.job.CreatedAt, c.uid}
	for _, e := range rows {
		switch {
		case e.uid == c.uid:
			c.place.at = max(c.place.at, e.place.at)
		case slices.Contains(c.before, e.uid):
			c.place.at = max(c.place.at, e.place.at+1)
		}
	}
}

// resolve decides whether the message of a change is written, given the ledger's version. A replaced one
// gets only how the job ended.
func (c *change) resolve() {
	if c.job == nil {
		return
	}
	final := c.job.job.State.Final()
	switch own := c.own; {
	case own == nil:
		c.writes = true
	case own.replaced:
		c.writes = c.last || final && own.version < c.job.job.Version
	case c.whole && own.version == c.job.job.Version:
		c.writes = own.open || final
	default:
		c.writes = own.version < c.job.job.Version
		c.overtaken = !c.writes && c.last
		// One life of a job has each version once. The store went back during the attempt, and made this one of its
		// outcome. With another token it is late, and of a life that has ended.
		c.parted = own.version == c.job.job.Version && own.token == c.job.job.Token &&
			own.open && !final && int64(own.state) != c.job.state()
	}
}
