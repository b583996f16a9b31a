package ledger

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// reasonReplaced is the reason of a job that another registration replaced.
const reasonReplaced = "replaced"

// maxTargets bounds the targets remembered between groups.
const maxTargets = 1 << 16

// Values of the column confirmed.
const (
	unconfirmed int64 = iota // the store may lack the job; its times are the node's
	confirmed
	superseded // the store had another registration of the key later
)

// target is a message that a group changes. The committer remembers it from the carrying
// of a job to its settlement.
type target struct {
	key   job.Key
	uid   string // empty: unknown; the open message of the key is meant, or else the latest
	seq   int64  // zero: not looked up yet, or there is no message
	token uint64 // fencing token of the last claim written, by worker by
	by    string
}

// change describes the changes of a target in a group.
type change struct {
	*target
	put       *message    // the whole message is written
	adopt     *job.Job    // written if the ledger lacks the job
	adopted   job.Instant // when the store had adopt
	progress  *progress   // what changed after put or adopt
	log       []flowRow   // entries missing in the ledger are written
	countKeys []string    // that were counted of put
	tally     *tally      // what was counted; nil: nothing
	repeated  []settlement
	replaced  job.Instant // when another registration replaced the job
	gaveWay   job.Instant // when an unconfirmed registration replaced the job
	settled   bool        // later groups need not remember the target

	// Facts that order the registrations of its key:
	before    []string    // uids of registrations known to be earlier
	whole     bool        // put is all that its version is, so it may overwrite that, unless it undid an end
	holds     bool        // the store has it, even if the ledger has it as replaced
	withdrawn job.Instant // when it was withdrawn; the store may still show it

	// The outcome of resolve:
	own       *entry      // its message, if looked up
	beaten    bool        // the store is known to have had another registration after it
	last      job.Instant // when the last one was registered
	overtaken bool        // put is not written because the ledger is ahead
}

// group collects the changes of many callers for one transaction. Changes of one
// registration are added in the order in which the store made them. An insertion is
// committed before the store has the job, so no change concerns a message that the
// same group inserts.
type group struct {
	changes []*change // in the order in which keys were first named
	inserts []*intake // new registrations that the store does not have yet

	known    map[job.Key]*target
	nextSeq  int64
	host     string
	latest   map[job.Key]*change
	ends     []ending
	confirms []any
	flows    []flowRow
	drops    []*target
	purges   []*purge
	probe    bool
}

// ending is the end of a message.
type ending struct {
	seq       int64
	at        job.Instant
	confirmed int64
}

// settlement is a settlement that may have been written before.
type settlement struct {
	next progress
	flow flowRow
}

// purge deletes up to limit messages whose age counts from before until.
type purge struct {
	until   job.Instant
	limit   int
	deleted int
}

func newGroup(known map[job.Key]*target, host string) *group {
	if len(known) > maxTargets {
		clear(known)
	}
	return &group{known: known, host: host, latest: map[job.Key]*change{}}
}

// of returns the change of a registration; uid may be empty.
func (g *group) of(key job.Key, uid string) *change {
	c, ok := g.latest[key]
	if ok && c.matches(uid) {
		return c
	}
	t, ok := g.known[key]
	if !ok || uid != "" && t.uid != uid {
		t = &target{key: key, uid: uid}
	}
	c = &change{target: t}
	g.latest[key] = c
	g.changes = append(g.changes, c)
	return c
}

// matches reports whether a change belongs to uid, and if so stores the uid in it.
func (c *change) matches(uid string) bool {
	if c.uid == "" && c.seq == 0 {
		c.uid = uid
	}
	return uid == "" || c.uid == uid
}

// insert adds a registration that the store does not have yet. Its row of flow names the
// node.
func (g *group) insert(in *intake) {
	in.of, in.refused = &target{key: in.reg.Key, uid: in.reg.UID}, false
	g.inserts = append(g.inserts, in)
	g.registered(in.of, in.message.at)
}

func (g *group) registered(of *target, at job.Instant) {
	g.flows = append(g.flows, flowRow{of: of, fact: "registered", at: at, to: job.Waiting})
}

// taken adds a registration that the store made first. old is the job whose place it took,
// or nil.
func (g *group) taken(m *message, old *job.Job) {
	c := g.of(m.job.Key, m.job.UID)
	c.adopt, c.adopted = &m.job, m.at
	c.settled = true // other nodes may change the job
	if old != nil {
		c.before = []string{old.UID}
	}
	g.registered(c.target, m.at)
}

// took writes the times that the store gave to a registration. Other nodes may have ended
// it or its predecessor meanwhile.
func (g *group) took(j *job.Job, at job.Instant, before []string) {
	c := g.of(j.Key, j.UID)
	c.adopt, c.adopted, c.before, c.settled = j, at, before, true // as in taken
}

// replace ends a message that a new one replaces. old is the store's job.
func (g *group) replace(old *job.Job, at job.Instant) {
	c := g.of(old.Key, old.UID)
	c.replaced, c.settled = at, true
	if !old.State.Final() {
		g.flows = append(g.flows, flowRow{
			of: c.target, fact: reasonReplaced, at: at, from: int64(old.State), to: job.Cancelled, reason: reasonReplaced,
		})
	}
}

// withdraw ends a registration in doubt, until the store shows that it accepted it.
func (g *group) withdraw(key job.Key, uid string, at job.Instant) {
	c := g.of(key, uid)
	c.withdrawn, c.settled = at, true
}

// updated writes a job after an update.
func (g *group) updated(m *message, from job.State, reason string) *change {
	c := g.showed(m)
	c.progress = nil
	g.flows = append(g.flows, flowRow{of: c.target, fact: versionFact(m.job.Version), at: m.at, from: int64(from), to: m.job.State, reason: reason})
	return c
}

// rewritten writes a job as the store has it, unless the ledger is further.
func (g *group) rewritten(m *message) *change {
	c := g.showed(m)
	c.progress, c.whole = nil, true
	return c
}

// showed writes a job as the store had it a moment ago, unless the ledger has this
// version.
func (g *group) showed(m *message) *change {
	c := g.of(m.job.Key, m.job.UID)
	c.put = m
	return c
}

// end closes a message, with a new value of confirmed.
func (g *group) end(seq int64, at job.Instant, confirmed int64) {
	g.ends = append(g.ends, ending{seq, at, confirmed})
}

// confirm writes the store's times of a registration.
func (g *group) confirm(seq int64, j *job.Job) {
	g.confirms = append(g.confirms, seq, int64(j.CreatedAt), int64(j.DueAt), int64(j.ExpiresAt),
		int64(j.NextAt), int64(j.Token), int64(j.Version), int64(j.CreatedAt))
}

// carried writes that a job was carried. fact is that of the call.
func (g *group) carried(c *store.Carried, fact, by string, at job.Instant) {
	g.flows = append(g.flows, flowRow{
		of: g.of(c.Hint.Key(), "").target, fact: fact, at: at, from: int64(c.From), to: job.Ready, actor: by,
	})
}

// claimed writes a claim, but not the same claim twice.
func (g *group) claimed(c *store.Claimed, by string) {
	j := &c.Job
	ch := g.of(j.Key, j.UID)
	if ch.token == j.Token {
		return
	}
	ch.token, ch.by, ch.settled = j.Token, by, false
	ch.adopt, ch.adopted = j, c.Now
	ch.progress = progressOf(j, job.Running, c.Now)
	g.flows = append(g.flows, flowRow{
		of: ch.target, fact: versionFact(j.Version), at: c.Now, from: int64(c.From), to: job.Running, attempt: j.Attempts + 1, actor: by,
	})
}

// settle writes the outcome of a claim.
func (g *group) settle(s *job.Settlement, r *store.Settled, log []byte) {
	c := g.of(s.Key, r.UID)
	next := progress{
		state: r.To, attempts: s.Attempts, snoozes: s.Snoozes, expiredLeases: s.ExpiredLeases, token: s.Token,
		version: r.Version, nextAt: r.NextAt, endedAt: r.EndedAt, updated: r.Now,
	}
	if r.To.Final() {
		next.reason = r.Reason
	}
	flow := flowRow{of: c.target, fact: versionFact(r.Version), at: r.Now, from: int64(job.Running), to: r.To, reason: r.Reason}
	if c.token == s.Token {
		flow.actor = c.by
	}
	if s.Attempt != nil {
		flow.fact, flow.attempt, flow.log = attemptFact(s.Attempt), s.Attempt.Number, log
	}
	switch {
	case !r.Repeated:
		c.progress, c.settled = &next, true
		g.flows = append(g.flows, flow)
	case c.progress == nil || c.progress.version < next.version: // otherwise the group has its first run
		c.repeated = append(c.repeated, settlement{next, flow})
	}
}

// repeat adds the repeated settlements of a change that its message lacks; nil: there is no
// message. The store's first answer may have been lost.
func (g *group) repeat(c *change) {
	for i := range c.repeated {
		s := &c.repeated[i]
		if c.own != nil && c.own.version >= s.next.version {
			continue
		}
		if c.progress == nil || c.progress.version < s.next.version {
			c.progress = &s.next
		}
		g.flows = append(g.flows, s.flow)
	}
}

// committed remembers targets for the next groups.
func (g *group) committed() {
	for _, c := range g.changes {
		if c.settled || c.seq == 0 {
			delete(g.known, c.key)
		} else {
			g.known[c.key] = c.target
		}
	}
	for _, in := range g.inserts {
		delete(g.known, in.of.key)
	}
}
