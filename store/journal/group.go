package journal

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
	Unconfirmed int64 = iota // the store may lack the job; its times are the node's
	Confirmed
	Superseded // the store had another registration of the key later
)

// Target is a message that a group changes. The committer remembers it from the carrying
// of a job to its settlement.
type Target struct {
	Key   job.Key
	UID   string // empty: unknown; the open message of the key is meant, or else the latest
	Seq   int64  // zero: not looked up yet, or there is no message
	Token uint64 // fencing token of the last claim written, by worker by
	by    string
}

// Change describes the changes of a target in a group.
type Change struct {
	*Target
	Put      *Message    // the whole message is written
	Force    bool        // Put is written even over a later version
	Adopt    *job.Job    // written if the journal lacks the job
	Adopted  job.Instant // when the store had Adopt
	Progress *Progress   // what changed after Put or Adopt
	Log      []FlowRow   // entries missing in the journal are written
	// CountKeys are keys that were counted of Put.
	CountKeys []string
	tally     *tally      // what was counted; nil: nothing
	Replaced  job.Instant // when another registration replaced the job
	GaveWay   job.Instant // when an unconfirmed registration replaced the job
	Settled   bool        // later groups need not remember the target
	repeated  []settlement
	// Overtaken is set by the rules: Put is not written because the journal is ahead.
	Overtaken bool
}

// Rules decide, within the transaction, what a group writes.
type Rules interface {
	// Resolve gets the messages of the journal: rows[i] of the key of Changes[i], and
	// rows[len(Changes)+i] of the key of Inserts[i]. It sets the Seq of each change whose
	// message exists.
	Resolve(rows map[int][]*Entry)
}

// Group collects the changes of many callers for one transaction. Changes of one
// registration are added in the order in which the store made them. An insertion is
// committed before the store has the job, so no change concerns a message that the
// same group inserts.
type Group struct {
	Changes []*Change // in the order in which keys were first named
	Inserts []*Intake // new registrations that the store does not have yet

	known   map[job.Key]*Target
	nextSeq int64
	host    string
	shared  bool // other nodes change the same jobs
	counted bool // the server counts messages
	rules   Rules

	latest   map[job.Key]*Change
	ends     []ending
	confirms []any
	flows    []FlowRow
	drops    []*Target
	purges   []*purge
	probe    bool
	tried    bool // an earlier commit of some of it failed, or its reply was lost
}

// ending is the end of a message.
type ending struct {
	seq       int64
	at        job.Instant
	confirmed int64
}

// settlement is a settlement that may have been written before.
type settlement struct {
	next Progress
	flow FlowRow
}

// purge deletes up to limit messages whose age counts from before until.
type purge struct {
	until   job.Instant
	limit   int
	deleted int
}

// newGroup makes an empty group. A nil rules selects the rules of a store with one
// process.
func newGroup(known map[job.Key]*Target, host string, rules func(*Group) Rules) *Group {
	if len(known) > maxTargets {
		clear(known)
	}
	g := &Group{known: known, host: host, latest: map[job.Key]*Change{}, shared: rules != nil}
	if g.rules = Rules(inOrder{g}); rules != nil {
		g.rules = rules(g)
	}
	return g
}

// Rules returns the rules that the group was made with.
func (g *Group) Rules() Rules { return g.rules }

// looks reports whether the journal may have messages unknown to this process: other
// nodes write it, or a commit had no answer.
func (g *Group) looks() bool { return g.shared || g.counted }

// Of returns the change of a registration; uid may be empty.
func (g *Group) Of(key job.Key, uid string) *Change {
	c, ok := g.latest[key]
	if ok && c.matches(uid) {
		return c
	}
	t, ok := g.known[key]
	if !ok || uid != "" && t.UID != uid {
		t = &Target{Key: key, UID: uid}
	}
	c = &Change{Target: t}
	g.latest[key] = c
	g.Changes = append(g.Changes, c)
	return c
}

// matches reports whether a change belongs to uid, and if so stores the uid in it.
func (c *Change) matches(uid string) bool {
	if c.UID == "" && c.Seq == 0 {
		c.UID = uid
	}
	return uid == "" || c.UID == uid
}

// Insert adds a registration.
func (g *Group) Insert(in *Intake) {
	in.Of, in.Refused = &Target{Key: in.Reg.Key, UID: in.Reg.UID}, false
	g.Inserts = append(g.Inserts, in)
}

// Registered adds a row of flow for a registration. A journal of one process has none,
// because the message has the same facts.
func (g *Group) Registered(of *Target, at job.Instant) {
	g.flows = append(g.flows, FlowRow{of: of, at: at, to: job.Waiting})
}

// Replace ends a message that a new one replaces. old is the store's job, or nil if the
// store had none.
func (g *Group) Replace(key job.Key, old *job.Job, at job.Instant) {
	uid := ""
	if old != nil {
		uid = old.UID
	}
	c := g.replaceUID(key, uid, at)
	if old != nil && !old.State.Final() {
		g.flows = append(g.flows, FlowRow{
			of: c.Target, at: at, from: int64(old.State), to: job.Cancelled, reason: reasonReplaced,
		})
	}
}

func (g *Group) replaceUID(key job.Key, uid string, at job.Instant) *Change {
	c := g.Of(key, uid)
	c.Replaced, c.Settled = at, true
	return c
}

// End closes a message, with a new value of confirmed.
func (g *Group) End(seq int64, at job.Instant, confirmed int64) {
	g.ends = append(g.ends, ending{seq, at, confirmed})
}

// Ends returns a function that undoes all later calls of End.
func (g *Group) Ends() (undo func()) {
	n := len(g.ends)
	return func() { g.ends = g.ends[:n] }
}

// Confirm writes the store's times of a registration.
func (g *Group) Confirm(seq int64, j *job.Job) {
	g.confirms = append(g.confirms, seq, int64(j.CreatedAt), int64(j.DueAt), int64(j.ExpiresAt),
		int64(j.NextAt), int64(j.Token), int64(j.Version), int64(j.CreatedAt))
}

// Drop deletes a message that the store did not accept.
func (g *Group) Drop(of *Target) { g.drops = append(g.drops, of) }

// PutNew writes a job that the store registered first.
func (g *Group) PutNew(m *Message) {
	c := g.Of(m.Job.Key, m.Job.UID)
	c.Adopt, c.Adopted = &m.Job, m.At
}

// Put writes a job after an update.
func (g *Group) Put(m *Message, from job.State, reason string) *Change {
	c := g.Of(m.Job.Key, m.Job.UID)
	c.Put, c.Progress = m, nil
	g.flows = append(g.flows, FlowRow{of: c.Target, at: m.At, from: int64(from), to: m.Job.State, reason: reason})
	return c
}

// Restored writes the whole job, and the log entries that the journal lacks.
func (g *Group) Restored(r *Record) {
	c := g.Of(r.Job.Key, r.Job.UID)
	c.Put, c.Progress, c.Log, c.CountKeys, c.Force = &r.Message, nil, r.Log, r.CountKeys, true
}

// Carried writes that a job was carried.
func (g *Group) Carried(c *store.Carried, by string, at job.Instant) {
	g.flows = append(g.flows, FlowRow{
		of: g.Of(c.Hint.Key(), "").Target, at: at, from: int64(c.From), to: job.Ready, actor: by,
	})
}

// Claimed writes a claim, but not the same claim twice.
func (g *Group) Claimed(c *store.Claimed, by string) {
	j := &c.Job
	ch := g.Of(j.Key, j.UID)
	if ch.Token == j.Token {
		return
	}
	ch.Token, ch.by, ch.Settled = j.Token, by, false
	ch.Adopt, ch.Adopted = j, c.Now
	ch.Progress = progressOf(j, job.Running, c.Now)
	g.flows = append(g.flows, FlowRow{
		of: ch.Target, at: c.Now, from: int64(c.From), to: job.Running, attempt: j.Attempts + 1, actor: by,
	})
}

// Settle writes the outcome of a claim.
func (g *Group) Settle(s *job.Settlement, r *store.Settled, log []byte) {
	c := g.Of(s.Key, r.UID)
	next := Progress{
		State: r.To, attempts: s.Attempts, snoozes: s.Snoozes, expiredLeases: s.ExpiredLeases, token: s.Token,
		Version: r.Version, nextAt: r.NextAt, EndedAt: r.EndedAt, updated: r.Now,
	}
	if r.To.Final() {
		next.reason = r.Reason
	}
	flow := FlowRow{of: c.Target, at: r.Now, from: int64(job.Running), to: r.To, reason: r.Reason}
	if c.Token == s.Token {
		flow.actor = c.by
	}
	if s.Attempt != nil {
		flow.attempt, flow.log = s.Attempt.Number, log
	}
	switch {
	case !r.Repeated:
		c.Progress, c.Settled = &next, true
		g.flows = append(g.flows, flow)
	case c.Progress == nil || c.Progress.Version < next.Version: // otherwise the group has its first run
		c.repeated = append(c.repeated, settlement{next, flow})
	}
}

// repeat adds the repeated settlements of a change that its message lacks; nil: there is no
// message. The store's first answer may have been lost.
func (g *Group) repeat(c *Change, own *Entry) {
	for i := range c.repeated {
		s := &c.repeated[i]
		if own != nil && own.Version >= s.next.Version {
			continue
		}
		if c.Progress == nil || c.Progress.Version < s.next.Version {
			c.Progress = &s.next
		}
		g.flows = append(g.flows, s.flow)
	}
}

// committed remembers targets for the next groups.
func (g *Group) committed() {
	for _, c := range g.Changes {
		if c.Settled || c.Seq == 0 {
			delete(g.known, c.Key)
		} else {
			g.known[c.Key] = c.Target
		}
	}
	for _, in := range g.Inserts {
		delete(g.known, in.Of.Key)
	}
}
