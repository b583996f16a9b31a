package ledger

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/journal"
)

// group is a group of changes whose rows other nodes write as well. It is the Rules of a
// journal.Group.
type group struct {
	*journal.Group
	changes map[*journal.Change]*change
	inserts []*intake // those of the journal.Group
}

// change adds to a journal.Change the facts that order the registrations of its key.
type change struct {
	*journal.Change
	before    []string    // uids of registrations known to be earlier
	whole     bool        // Put is all that its version is, so it may overwrite that, unless it undid an end
	holds     bool        // the store has it, even if the journal has it as replaced
	withdrawn job.Instant // when it was withdrawn; the store may still show it
	// The outcome of Resolve:
	own    *journal.Entry // its message, if looked up
	beaten bool           // the store is known to have had another registration after it
	last   job.Instant    // when the last one was registered
}

func newGroup(g *journal.Group) journal.Rules {
	return &group{Group: g, changes: map[*journal.Change]*change{}}
}

// adding is the part of a group that the journal calls to add changes.
func adding(add func(g *group)) func(*journal.Group) {
	return func(g *journal.Group) { add(g.Rules().(*group)) }
}

func (g *group) of(key job.Key, uid string) *change { return g.change(g.Of(key, uid)) }

func (g *group) change(of *journal.Change) *change {
	c := g.changes[of]
	if c == nil {
		c = &change{Change: of}
		g.changes[of] = c
	}
	return c
}

// insert adds a registration. Its row of flow names the node.
func (g *group) insert(in *intake) {
	g.Insert(&in.Intake)
	g.inserts = append(g.inserts, in)
	g.Registered(in.Of, in.Message.At)
}

// taken adds a registration that the store accepted before the journal.
func (g *group) taken(m *journal.Message, old *job.Job) {
	g.PutNew(m)
	c := g.of(m.Job.Key, m.Job.UID)
	c.Settled = true // other nodes may change the job
	if old != nil {
		c.before = []string{old.UID}
	}
	g.Registered(c.Target, m.At)
}

// took writes the times that the store gave to a registration. Other nodes may have ended
// it or its predecessor meanwhile.
func (g *group) took(j *job.Job, at job.Instant, before []string) {
	c := g.of(j.Key, j.UID)
	c.Adopt, c.Adopted, c.before, c.Settled = j, at, before, true // as in taken
}

// withdraw ends a registration in doubt, until the store shows that it accepted it.
func (g *group) withdraw(key job.Key, uid string, at job.Instant) {
	c := g.of(key, uid)
	c.withdrawn, c.Settled = at, true
}

// rewritten writes a job as the store has it, unless the journal is further.
func (g *group) rewritten(m *journal.Message) *change {
	c := g.of(m.Job.Key, m.Job.UID)
	c.Put, c.Progress, c.whole = m, nil, true
	return c
}

// ended writes the end of a job whose key is registered again, unless the journal has it.
func (g *group) ended(m *journal.Message) {
	c := g.of(m.Job.Key, m.Job.UID)
	c.Put, c.Settled = m, true
}

// showed writes a job as the store had it a moment ago, unless the journal has this
// version.
func (g *group) showed(m *journal.Message) { g.of(m.Job.Key, m.Job.UID).Put = m }

// held writes a job that the store has, unless the journal has this version. The journal
// may have marked it as replaced.
func (g *group) held(m *journal.Message) {
	c := g.of(m.Job.Key, m.Job.UID)
	c.Put, c.holds = m, true
}
