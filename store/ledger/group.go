package ledger

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// reasonReplaced is why a job ended that a registration replaced.
const reasonReplaced = "replaced"

// maxTargets bounds what is remembered between groups.
const maxTargets = 1 << 16

// Values of the column confirmed.
const (
	unconfirmed int64 = iota // the store may not have it, and its times are not the store's
	confirmed
	superseded // the store is known to have had another registration of its key later
)

// target is a message. It is remembered from the carrying of a job to its
// settlement.
type target struct {
	key   job.Key
	uid   string // empty: not known, so the message of the key that may be restored, or else the latest
	seq   int64  // zero: not looked up yet, or there is none
	token uint64 // of the last claim written, with its worker
	by    string
}

// change is what a group does to a target.
type change struct {
	*target
	put       *message    // everything is written anew
	force     bool        // whatever the journal says
	holds     bool        // the store has it, even if the journal has it as replaced
	whole     bool        // put is all that its version is, so it may overwrite that, unless it undid an end
	adopt     *job.Job    // written if there is no message yet, or none that may be restored
	adopted   job.Instant // when the store had that
	born      *job.Job    // as the store registered it, if the store was first
	log       []flowRow   // written as far as the journal lacks them
	progress  *progress   // what changed after that
	replaced  job.Instant // when another registration took the key; comes last
	settled   bool        // nothing needs to be remembered
	before    []string    // uids of registrations that it is known to have followed
	gaveWay   job.Instant // when a registration took the key that the store has not heard of
	withdrawn job.Instant // when it was given up, if nothing shows that the store took it
	own       *found      // its message, if that was looked up
	beaten    bool        // the store is known to have had another registration after it
	last      job.Instant // when the last one was registered
	// overtaken: put was not written, because another node has written what came
	// after it. That may lack what only put has.
	overtaken bool
}

// insertion is a new registration, of which the store has not heard. It must
// not be added beside a message that may be restored, except one of those named
// in over.
type insertion struct {
	message *message
	of      *target
	at      job.Instant
	over    []predecessor
	after   []string // uids of registrations that the store had before this one came to the journal
	// conflict is set if there is such a message, and this one was not added.
	conflict bool
	// asks: neither is it to be added after a job of its key that has ended since
	// then, but ended is set to the seq of that. Zero: it does not ask.
	asks  job.Instant
	ended int64
}

// group collects the changes of many callers for one transaction. Changes of
// one registration must be added in the order in which the store made them, as
// far as this process made them. An insertion is committed before the store
// hears of it, so no change ever concerns a message that is inserted in the same
// group.
type group struct {
	known   map[job.Key]*target
	nextSeq int64
	host    string
	shared  bool // other nodes change the same jobs
	counted bool // the server counts messages
	looks   bool // what the journal has of a key cannot be known without looking

	changes  map[job.Key]*change // the latest of a key
	order    []*change           // all, for one fixed order of locks and writes
	inserts  []*insertion
	confirms []any
	flows    []flowRow
	repeated []*settlement
	drops    []*target
	purges   []*purge
	probe    bool
}

// settlement is one that may have been written before.
type settlement struct {
	change *change
	next   progress
	flow   flowRow
}

// purge deletes messages whose age counts from before until, at most limit.
type purge struct {
	until   job.Instant
	limit   int
	deleted int
}

func newGroup(known map[job.Key]*target, host string) *group {
	if len(known) > maxTargets {
		clear(known)
	}
	return &group{known: known, host: host, changes: map[job.Key]*change{}}
}

// of gives the change of a registration; uid may be empty.
func (g *group) of(key job.Key, uid string) *change {
	c, ok := g.changes[key]
	if ok && c.matches(uid) {
		return c
	}
	t, ok := g.known[key]
	if !ok || uid != "" && t.uid != uid {
		t = &target{key: key, uid: uid}
	}
	c = &change{target: t}
	g.changes[key] = c
	g.order = append(g.order, c)
	return c
}

// matches reports whether a change is that of uid, and learns the uid if so.
func (c *change) matches(uid string) bool {
	if c.uid == "" && c.seq == 0 {
		c.uid = uid
	}
	return uid == "" || c.uid == uid
}

// insert adds a registration.
func (g *group) insert(in *insertion) {
	in.of = &target{key: in.message.job.Key, uid: in.message.job.UID}
	in.conflict, in.ended = false, 0
	g.inserts = append(g.inserts, in)
	g.registered(in.of, in.at)
}

// registered adds a row for a registration, whose host says which of several
// nodes made it. In the journal of one process the message says all.
func (g *group) registered(of *target, at job.Instant) {
	if g.shared {
		g.flows = append(g.flows, flowRow{of: of, at: at, to: job.Waiting})
	}
}

// taken adds a registration that the store took first.
func (g *group) taken(m *message, old *job.Job) {
	c := g.of(m.job.Key, m.job.UID)
	c.adopt, c.adopted, c.born = &m.job, m.at, &m.job
	if old != nil {
		c.before = []string{old.UID}
	}
	g.registered(c.target, m.at)
}

// replace ends a message whose key a new one takes. old is the job as the
// store had it, or nil if the store had none.
func (g *group) replace(key job.Key, old *job.Job, at job.Instant) {
	uid := ""
	if old != nil {
		uid = old.UID
	}
	c := g.of(key, uid)
	c.replaced, c.settled = at, true
	if old != nil && !old.State.Final() {
		g.flows = append(g.flows, flowRow{
			of: c.target, at: at, from: int64(old.State), to: job.Cancelled, reason: reasonReplaced,
		})
	}
}

// withdraw ends a registration of which it is not known whether the store took
// it, until the store shows that it did.
func (g *group) withdraw(key job.Key, uid string, at job.Instant) {
	c := g.of(key, uid)
	c.withdrawn, c.settled = at, true
}

// confirm writes the times that the store gave to a registration.
func (g *group) confirm(seq int64, j *job.Job) {
	g.confirms = append(g.confirms, seq, int64(j.CreatedAt), int64(j.DueAt), int64(j.ExpiresAt),
		int64(j.NextAt), int64(j.Token), int64(j.Version), int64(j.CreatedAt))
}

// took writes that the store took a registration, as confirm does, on a journal
// in which other nodes may have ended it meanwhile, or what came before it.
func (g *group) took(j *job.Job, at job.Instant, before []string) {
	c := g.of(j.Key, j.UID)
	c.adopt, c.adopted, c.born, c.before = j, at, j, before
}

// put writes a job anew, after an update.
func (g *group) put(m *message, from job.State, reason string) *change {
	c := g.of(m.job.Key, m.job.UID)
	c.put, c.progress = m, nil
	g.flows = append(g.flows, flowRow{of: c.target, at: m.at, from: int64(from), to: m.job.State, reason: reason})
	return c
}

// rewritten writes a job as the store has it, unless the journal is further.
func (g *group) rewritten(m *message) *change {
	c := g.of(m.job.Key, m.job.UID)
	c.put, c.progress, c.whole = m, nil, true
	return c
}

// ended writes what a job came to whose key is registered anew, unless the
// journal knows.
func (g *group) ended(m *message) {
	c := g.of(m.job.Key, m.job.UID)
	c.put, c.settled = m, true
}

// showed writes a job as the store had it a moment ago, unless the journal is as
// far.
func (g *group) showed(m *message) { g.of(m.job.Key, m.job.UID).put = m }

// holds writes a job that the store has, unless the journal is as far. The
// journal may have taken it for replaced.
func (g *group) holds(m *message) {
	c := g.of(m.job.Key, m.job.UID)
	c.put, c.holds = m, true
}

// restored writes a job as it stands, and of its log what the journal lacks.
func (g *group) restored(m *message, log []flowRow) {
	c := g.of(m.job.Key, m.job.UID)
	c.put, c.progress, c.log, c.force = m, nil, log, true
}

// caughtUp writes a job that the store has, with its log, unless the journal is
// as far.
func (g *group) caughtUp(m *message, log []flowRow) *change {
	c := g.of(m.job.Key, m.job.UID)
	c.put, c.holds, c.log = m, true, log
	if m.job.Version == 1 {
		c.born = &m.job
	}
	return c
}

// carried notes that a job went to the ready list.
func (g *group) carried(c *store.Carried, by string, at job.Instant) {
	g.flows = append(g.flows, flowRow{
		of: g.of(c.Hint.Key(), "").target, at: at, from: int64(c.From), to: job.Ready, actor: by,
	})
}

// claimed writes a claim. A claim that is given again is not written again.
func (g *group) claimed(c *store.Claimed, by string) {
	j := &c.Job
	ch := g.of(j.Key, j.UID)
	if ch.token == j.Token {
		return
	}
	ch.token, ch.by, ch.settled = j.Token, by, false
	ch.adopt, ch.adopted = j, c.Now
	ch.progress = &progress{
		state: job.Running, attempts: j.Attempts, snoozes: j.Snoozes, lapses: j.Lapses,
		token: j.Token, version: j.Version, nextAt: j.NextAt, updated: c.Now,
	}
	g.flows = append(g.flows, flowRow{
		of: ch.target, at: c.Now, from: int64(c.From), to: job.Running, attempt: j.Attempts + 1, actor: by,
	})
}

// settle writes what a claim came to.
func (g *group) settle(s *job.Settlement, r *store.Settled, log []byte) {
	c := g.of(s.Key, r.UID)
	next := progress{
		state: r.To, attempts: s.Attempts, snoozes: s.Snoozes, lapses: s.Lapses, token: s.Token,
		version: r.Version, nextAt: r.NextAt, endedAt: r.EndedAt, updated: r.Now,
	}
	if r.To.Final() {
		next.reason = r.Reason
	}
	flow := flowRow{of: c.target, at: r.Now, from: int64(job.Running), to: r.To, reason: r.Reason}
	if c.token == s.Token {
		flow.actor = c.by
	}
	if s.Attempt != nil {
		flow.attempt, flow.log = s.Attempt.Number, log
	}
	if r.Repeated {
		g.repeated = append(g.repeated, &settlement{change: c, next: next, flow: flow})
		return
	}
	c.progress, c.settled = &next, true
	g.flows = append(g.flows, flow)
}

// committed remembers what the next groups will want to know.
func (g *group) committed() {
	for _, c := range g.order {
		// Other nodes may go on with what this one registered.
		if c.settled || c.seq == 0 || g.shared && c.born != nil && c.token == 0 {
			delete(g.known, c.key)
		} else {
			g.known[c.key] = c.target
		}
	}
	for _, in := range g.inserts {
		delete(g.known, in.of.key)
	}
}
