package ledger

import (
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// reasonReplaced is the reason of a job that another registration replaced.
const reasonReplaced = "replaced"

// maxTargets bounds the targets remembered between groups.
const maxTargets = 1 << 16

// Values of the column confirmed.
const (
	confirmed  int64 = 1
	superseded int64 = 2 // the store had another registration of the key later
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

// change is what a group writes of a registration.
type change struct {
	*target
	job       *message    // as the store had it last; nil: only rows of flow are written
	put       bool        // the ledger gets all of job; otherwise what calls of workers change, if it has the job
	whole     bool        // job is all that its version is, so it may overwrite that, unless it undid an end
	looks     bool        // what the ledger has of the key decides
	log       []flowRow   // entries missing in the ledger are written
	countKeys []string    // that were counted of job
	tally     *tally      // what was counted; nil: nothing
	replaced  job.Instant // when another registration replaced the job
	settled   bool        // later groups need not remember the target
	listed    bool        // the group has the row of flow of its registration

	// Facts that order the registrations of its key:
	before []string // uids of registrations known to be earlier
	holds  bool     // the job is in the store, even if it is replaced in the ledger

	// The outcome of resolve:
	own       *entry // its message, if looked up
	beaten    bool   // the store is known to have had another registration after it
	rewrites  bool   // its message is written as a whole
	overtaken bool   // it is not, because the ledger is ahead
}

// group collects the changes of many callers for one transaction. They come in any order;
// the version of the job decides.
type group struct {
	changes []*change // in the order in which keys were first named

	known   map[job.Key]*target
	nextSeq int64
	host    string
	byKey   map[job.Key][]*change
	ends    map[int64]job.Instant // when messages ended that another registration replaced, by seq
	flows   []flowRow
	purges  []*purge
	probe   bool
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
	return &group{known: known, host: host, byKey: map[job.Key][]*change{}, ends: map[int64]job.Instant{}}
}

// of returns the change of a registration; uid may be empty.
func (g *group) of(key job.Key, uid string) *change {
	for _, c := range slices.Backward(g.byKey[key]) {
		if c.matches(uid) {
			return c
		}
	}
	t, ok := g.known[key]
	if !ok || uid != "" && t.uid != uid {
		t = &target{key: key, uid: uid}
	}
	c := &change{target: t}
	g.byKey[key] = append(g.byKey[key], c)
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

// shows notes a job as the store had it. With put, the ledger gets all of it.
func (g *group) shows(m *message, put bool) *change {
	c := g.of(m.job.Key, m.job.UID)
	if c.job == nil || c.job.job.Version < m.job.Version || put && c.job.job.Version == m.job.Version {
		c.job, c.whole = m, false
	}
	c.put = c.put || put
	c.looks = c.looks || put || c.seq == 0 // another node may have written the job
	return c
}

// taken adds a registration that the store made. before are the uids of registrations of the key
// that the store had earlier.
func (g *group) taken(m *message, before []string) {
	c := g.shows(m, false)
	c.before, c.looks, c.settled, c.listed = before, true, true, true // other nodes may change the job
	g.flows = append(g.flows, registered(c.target, m.at))
}

// replace ends a message that a new one replaces. old is the store's job.
func (g *group) replace(key job.Key, old *store.Standing, at job.Instant) {
	c := g.of(key, old.UID)
	c.replaced, c.settled = at, true
	g.flows = append(g.flows, flowRow{
		of: c.target, fact: reasonReplaced, at: at, from: int64(old.State), to: job.Cancelled, reason: reasonReplaced,
	})
}

// updated writes a job after an update.
func (g *group) updated(m *message, from job.State, reason string) *change {
	c := g.shows(m, true)
	g.flows = append(g.flows, flowRow{of: c.target, fact: versionFact(m.job.Version), at: m.at, from: int64(from), to: m.job.State, reason: reason})
	return c
}

// rewritten writes a job as the store has it, unless the ledger is further.
func (g *group) rewritten(m *message) *change {
	c := g.shows(m, true)
	if c.job == m {
		c.whole = true
	}
	return c
}

// carried writes that a job was carried. fact is that of the call.
func (g *group) carried(c *store.Carried, fact, by string, at job.Instant) {
	g.flows = append(g.flows, flowRow{
		of: g.of(c.Hint.Key(), "").target, fact: fact, at: at, from: int64(c.From), to: job.Ready, actor: by,
	})
}

// claimed writes a claim, but not the same claim twice.
func (g *group) claimed(claim *store.Claimed, by string) {
	j := &claim.Job
	c := g.of(j.Key, j.UID)
	if c.token == j.Token {
		return
	}
	c.token, c.by, c.settled, c.looks = j.Token, by, false, true
	g.shows(&message{job: *j, at: claim.Now}, false)
	g.flows = append(g.flows, flowRow{
		of: c.target, fact: versionFact(j.Version), at: claim.Now, from: int64(claim.From), to: job.Running, attempt: j.Attempts + 1, actor: by,
	})
}

// settle writes the outcome of a claim. The store's first answer may have been lost, so it may be
// written already.
func (g *group) settle(s *job.Settlement, r *store.Settled, log []byte) {
	c := g.shows(&message{job: outcomeOf(s, r), at: r.Now}, false)
	c.settled = true
	flow := flowRow{of: c.target, fact: versionFact(r.Version), at: r.Now, from: int64(job.Running), to: r.To, reason: r.Reason}
	if c.token == s.Token {
		flow.actor = c.by
	}
	if s.Attempt != nil {
		flow.fact, flow.attempt, flow.log = attemptFact(s.Attempt), s.Attempt.Number, log
	}
	g.flows = append(g.flows, flow)
}

// outcomeOf is the job after an applied settlement.
func outcomeOf(s *job.Settlement, r *store.Settled) job.Job {
	j := *s.Claimed
	j.UID, j.Version, j.State, j.NextAt, j.EndedAt, j.UpdatedAt = r.UID, r.Version, r.To, r.NextAt, r.EndedAt, r.Now
	j.Attempts, j.Snoozes, j.ExpiredLeases = s.Attempts, s.Snoozes, s.ExpiredLeases
	if j.Reason = ""; r.To.Final() {
		j.Reason = r.Reason
	}
	return j
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
}
