package ledger

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// reasonReplaced is the reason of a job that another registration replaced.
const reasonReplaced = "replaced"

// maxWorkers bounds the names of workers remembered between groups.
const maxWorkers = 1 << 16

// registrationID names a registration. Without a uid, it is the last one of the key.
type registrationID struct {
	key job.Key
	uid string
}

// change is what a group writes of a registration.
type change struct {
	registrationID
	seq       int64     // zero until it is looked up or added
	job       *message  // as the store had it last; nil: only rows of flow are written
	put       bool      // what the client gave may have changed
	whole     bool      // job is all that its version is, so it may overwrite that, unless it undid an end
	before    []string  // uids of registrations known to be earlier
	log       []flowRow // entries missing in the ledger are written
	counted   int64     // see countOf; it only grows, in whatever order it comes
	countKeys []string  // that were counted

	// The outcome of resolve:
	own       *entry // its message
	place     place
	last      bool // it is the last registration of its key
	writes    bool // its message is written
	overtaken bool // it is not, because the ledger is ahead
	parted    bool // it is not, because the ledger has the version of another change
}

// group collects the changes of many callers for one transaction. They come in any order;
// the version of the job decides.
type group struct {
	changes []*change // in the order in which they were first named

	workers map[string]string // of claims, by uid
	nextSeq int64
	host    string
	byID    map[registrationID]*change
	lasts   map[job.Key]place // the last registrations
	first   []flowRow         // before the others, of the same instant
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

func newGroup(workers map[string]string, host string) *group {
	if len(workers) > maxWorkers {
		clear(workers)
	}
	return &group{workers: workers, host: host, byID: map[registrationID]*change{}, lasts: map[job.Key]place{}}
}

// of returns the change of a registration.
func (g *group) of(key job.Key, uid string) *change {
	id := registrationID{key, uid}
	c := g.byID[id]
	if c == nil {
		c = &change{registrationID: id}
		g.byID[id], g.changes = c, append(g.changes, c)
	}
	return c
}

// shows notes a job as the store had it. With put, what the client gave is written, too.
func (g *group) shows(m *message, put bool) *change {
	c := g.of(m.job.Key, m.job.UID)
	if c.job == nil || c.job.job.Version < m.job.Version || put && c.job.job.Version == m.job.Version {
		c.job, c.whole = m, false
	}
	c.put = c.put || put
	return c
}

// taken adds a registration that the store made. before are the uids of registrations of the key
// that the store had earlier.
func (g *group) taken(m *message, before []string) { g.shows(m, false).before = before }

// replace adds to the flow that a new registration replaced an unfinished job, which is the store's old.
func (g *group) replace(key job.Key, old *store.Standing, at job.Instant) {
	g.first = append(g.first, flowRow{
		of: g.of(key, old.UID), fact: reasonReplaced, at: at, from: int64(old.State), to: job.Cancelled, reason: reasonReplaced,
	})
}

// updated writes a job after an update.
func (g *group) updated(m *message, from job.State, reason string) *change {
	c := g.shows(m, true)
	g.flows = append(g.flows, flowRow{of: c, fact: versionFact(m.job.Version, m.job.State), at: m.at, from: int64(from), to: m.job.State, reason: reason})
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
		of: g.of(c.Hint.Key(), ""), fact: fact, at: at, from: int64(c.From), to: job.Ready, actor: by,
	})
}

// claimed writes a claim.
func (g *group) claimed(claim *store.Claimed, by string) {
	j := &claim.Job
	c := g.shows(&message{job: *j, at: claim.Now}, false)
	g.workers[j.UID] = by
	g.flows = append(g.flows, flowRow{
		of: c, fact: versionFact(j.Version, job.Running), at: claim.Now, from: int64(claim.From), to: job.Running, attempt: j.Attempts + 1, actor: by,
	})
}

// settle writes the outcome of a claim. The store's first answer may have been lost, so it may be
// written already.
func (g *group) settle(s *job.Settlement, r *store.Settled, log []byte) {
	c := g.shows(&message{job: outcomeOf(s, r), at: r.Now}, false)
	flow := flowRow{
		of: c, fact: versionFact(r.Version, r.To), at: r.Now, from: int64(job.Running), to: r.To, reason: r.Reason, actor: g.workers[r.UID],
	}
	delete(g.workers, r.UID)
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
