package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// A take is one transaction under the take lock: it folds deltas, reads facts, makes a plan in Go, claims jobs, and
// writes when to look again. Its cost depends on what goes, not on what waits: a topic that is held is one row, however
// many lanes it has, and of other lanes a bounded number is read.

// Bounds of one take.
const (
	topicsAtOnce = 64 // of one plan
	lanesAtOnce  = 512
	takeRounds   = 8
	maxTake      = 1_000
)

// Looks at what a take could not have, and at lanes without a time of their own.
const (
	lockedLook = 20 * time.Millisecond // a row was locked
	turnLook   = time.Second           // an expired lease waits for another job of its order key
)

// taking is one take.
type taking struct {
	*txn
	o         *store.TakeOptions
	now       job.Instant
	seen      job.Instant // when an earlier take wrote when to look again
	wakes     job.Instant // no topic has an earlier wake
	room      int
	bytes     int
	chosen    int
	shares    *rules.Shares           // nil: the caller's workers are not divided
	weights   map[string]store.Limits // of topics that have workers
	shared    bool                    // jobs wait for workers
	topics    map[string]*topicRow
	endpoints map[string]*endpointRow
	lanes     []*laneRow
	known     map[job.Lane]*laneRow
	own       map[job.Lane]*int // jobs in flight of plain lanes and their siblings
	claims    []claimed
	next      job.Instant // when there may be more; 0: nothing waits
	more      bool        // there may be more at once
}

// claimed is a claim with the row as it was written.
type claimed struct {
	record *record
	nth    int
	store.Claimed
}

// topicRow is a topic with what a round changes.
type topicRow struct {
	name    string
	due     bool
	running int
	letters []string
	limits  rules.Topic
	counts
	first   job.Instant // none of its lanes has an earlier wake
	held    job.Instant
	full    bool
	visited bool
	paced   bool
}

// counts are changes of counts.
type counts struct{ waiting, retrying, running, parked int }

// claim counts n claims of jobs in a state. A job whose lease has expired is in flight already.
func (c *counts) claim(from job.State, n int) {
	switch from {
	case job.Waiting:
		c.waiting -= n
		c.running += n
	case job.Retrying:
		c.retrying -= n
		c.running += n
	}
}

type endpointRow struct {
	name    string
	running int
	circuit store.Circuit
	counts
}

// laneRow is a lane with its candidates and what a round changes.
type laneRow struct {
	id       laneID
	lane     job.Lane
	topic    *topicRow
	endpoint *endpointRow
	running  int
	own      *int        // jobs in flight, with those of its siblings
	head     job.Instant // 0: none waits
	headID   string
	held     job.Instant
	full     bool
	wake     job.Instant // 0: none
	lease    job.Instant // 0: none
	counts

	waits, flies reading
	visited      bool
	turn         bool // it goes to the end of the line
}

// reading is the first jobs of a bucket of a lane.
type reading struct {
	most int // that were asked for; 0: it was not read
	jobs []*candidate
}

// left is the first job that stays, nil if there is none. If all that were read go, there may be others behind the last one.
func (r *reading) left() *candidate {
	for _, c := range r.jobs {
		if !c.gone && !c.chosen {
			return c
		}
	}
	if len(r.jobs) > 0 && len(r.jobs) == r.most {
		return r.jobs[len(r.jobs)-1]
	}
	return nil
}

// suffices reports whether the first so many jobs were read.
func (r *reading) suffices(most int) bool { return r.most >= most || r.most > len(r.jobs) }

// isDue reports whether a job is due that may go and stays.
func (r *reading) isDue(now job.Instant) bool {
	return slices.ContainsFunc(r.jobs, func(c *candidate) bool { return !c.gone && !c.chosen && !c.behind && c.wake <= now })
}

// candidate is a job that may be claimed.
type candidate struct {
	lane    *laneRow
	place   pgtype.TID // of the row as it was read
	id      string
	wake    job.Instant
	state   job.State
	version uint64
	token   uint64
	created job.Instant
	timeout time.Duration
	order   string
	expired int // leases
	size    int
	behind  bool // not the head of its order key: it cannot be claimed
	locked  bool // a row is locked
	until   job.Instant
	chosen  bool
	nth     int  // of those that were chosen
	gone    bool // claimed or parked
}

// takeOnce takes what is due.
func (s *Store) takeOnce(ctx context.Context, o *store.TakeOptions) (taken store.Taken, shared bool, err error) {
	ctx, cancel, err := s.bounded(ctx)
	if err != nil {
		return taken, false, err
	}
	defer cancel()
	var t *taking
	var rings int
	err = s.again(ctx, func() error {
		rings = s.alarm.now()
		t = &taking{o: o, room: min(o.Max, maxTake)}
		return s.runTaking(ctx, t)
	})
	if err != nil {
		return taken, false, err
	}
	taken = t.taken()
	taken.Age = job.SystemClock().Now().Sub(t.began)
	if o.Pull == nil && !t.shared {
		s.alarm.expect(rings, t.began.Add(min(taken.Wait, pollTime())))
	}
	return taken, t.shared, nil
}

// taken decodes the claims.
func (t *taking) taken() store.Taken {
	taken := store.Taken{Claims: make([]store.Claimed, 0, len(t.claims)), Wait: -1}
	for i := range t.claims {
		c := &t.claims[i]
		var err error
		if c.Job, err = c.record.job(); err != nil {
			t.s.log.Error("a job cannot be read", "job", c.record.Key.String(), "error", err)
			continue // its lease ends, and it is tried again
		}
		taken.Claims = append(taken.Claims, c.Claimed)
	}
	switch {
	case t.more, t.shared && len(t.claims) > 0:
		taken.Wait = 0
	case t.next != 0:
		taken.Wait = max(0, t.next.Sub(t.now))
	}
	return taken
}

// runTaking runs a take in a transaction.
func (s *Store) runTaking(ctx context.Context, t *taking) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.explain(err)
	}
	defer conn.Release()
	t.txn = s.begin(ctx, conn)
	rest, err := t.run(ctx)
	if err != nil {
		t.rollback(ctx)
		return err
	}
	if t.full() {
		s.alarm.full.Store(int64(t.now.Add(rules.UncalledLook)))
	}
	t.queueCommit(rest)
	if err = t.send(ctx, rest); err == nil {
		return nil
	}
	if t.rollback(ctx); t.committed(ctx) {
		return nil
	}
	return err
}

// run returns what is to be sent with COMMIT.
func (t *taking) run(ctx context.Context) (rest *pgx.Batch, err error) {
	// The take need not wait for the disk. After a crash of the server that takes it back, its jobs are as before, and its fencing
	// tokens settle nothing.
	t.share(func(string) int { return 0 })
	err = t.underLock(ctx, "off", func(b *pgx.Batch) {
		t.readWeights(b)
		t.readDue(b)
	})
	if err != nil {
		return nil, err
	}
	t.share(func(topic string) int {
		if r := t.topics[topic]; r != nil {
			return r.limits.Weight
		}
		return t.weights[topic].Weight
	})
	if t.seen > t.now.Add(clockSlack) {
		if err := t.correct(ctx); err != nil {
			return nil, err
		}
	}
	for n := 1; ; n++ {
		rest = &pgx.Batch{}
		if len(t.topics) == 0 {
			return rest, nil
		}
		before := len(t.claims)
		if err := t.round(ctx, rest); err != nil {
			return nil, err
		}
		if t.more = t.room <= 0 || t.bytes >= store.BatchBytes; t.more || len(t.claims) == before || t.o.Pull != nil || n == takeRounds || !t.mayGoOn() {
			return rest, nil
		}
		t.readDue(rest)
		if err := t.send(ctx, rest); err != nil {
			return nil, err
		}
	}
}

// share divides the caller's workers.
func (t *taking) share(weight func(topic string) int) {
	if t.o.Workers != nil && t.o.Pull == nil {
		t.shares = rules.SharesOf(t.o.Workers, weight)
	}
}

// crowded are the topics that get no more of the caller's workers. Their lanes are not read.
func (t *taking) crowded() []string {
	if t.shares == nil {
		return []string{}
	}
	return t.shares.Crowded()
}

// mayGoOn reports whether another round may find more that is due already.
func (t *taking) mayGoOn() bool {
	crowded := t.crowded()
	return len(t.topics) >= topicsAtOnce || slices.ContainsFunc(t.lanes, func(l *laneRow) bool { return l.turn && !slices.Contains(crowded, l.topic.name) })
}

// round makes a plan and carries it out. It adds the statements that write its rows to rest.
func (t *taking) round(ctx context.Context, rest *pgx.Batch) error {
	for _, name := range t.crowded() {
		r := t.topics[name]
		t.shared = t.shared || r != nil && r.due && r.held == 0
	}
	if t.o.Pull != nil {
		if err := t.readWaiting(ctx); err != nil {
			return err
		}
	}
	due := len(t.lanes)
	if err := t.readRivals(ctx); err != nil {
		return err
	}
	plan := rules.MakePlan(t.facts(due))
	run := plan.Run(t.room)
	if t.o.Pull == nil {
		if err := t.readCandidates(ctx, plan, run); err != nil {
			return err
		}
	}
	if err := t.readHeads(ctx); err != nil {
		return err
	}
	t.visitAll(plan, run)
	if err := t.claim(ctx); err != nil {
		return err
	}
	t.writeRows(rest)
	return nil
}

// visitAll chooses the jobs that go.
func (t *taking) visitAll(plan *rules.Plan, run *rules.Run) {
	for i := range plan.Visits {
		v := &plan.Visits[i]
		if run.Room() == 0 {
			t.noteAt(t.now)
			break // the others keep their places in line
		}
		l := t.lanes[v.Lane]
		if v.PutOff == 0 && run.Crowd(v.Topic, t.inFlight(l)).Hint { // another caller may have workers for its topic: it keeps its place in line
			t.shared = true
			continue
		}
		t.visit(run, v, l)
	}
	run.Slots(func(v *rules.Visit, at job.Instant) {
		topic := t.lanes[v.Lane].topic
		if t.noteAt(at); topic.held == 0 || at < topic.held {
			topic.held = at
		}
	}, func(topic string, p rules.Pace) {
		t.topics[topic].limits.Next, t.topics[topic].paced = p.Next, true
	})
}

// noteAt notes when consumers of a pull queue may find more.
func (t *taking) noteAt(at job.Instant) {
	if t.o.Pull != nil && (t.next == 0 || at < t.next) {
		t.next = at
	}
}

// facts are the input of the plan; the first lanes are due.
func (t *taking) facts(due int) *rules.Facts {
	f := &rules.Facts{
		Now: t.now, Lanes: make([]job.Lane, len(t.lanes)), Due: due, Shards: 1,
		Topics: map[string]rules.Topic{}, Circuits: map[string]store.Circuit{},
		Options: store.CarryOptions{FlightLimits: t.o.Limits, Pull: t.o.Pull}, Workers: t.shares,
	}
	for i, l := range t.lanes {
		f.Lanes[i] = l.lane
		if l.topic.limits.Limits != (store.Limits{}) {
			f.Topics[l.lane.Topic] = l.topic.limits
		}
		if l.endpoint.circuit != (store.Circuit{}) {
			f.Circuits[l.lane.Endpoint] = l.endpoint.circuit
		}
	}
	return f
}

// inFlight counts the jobs in flight that may limit a lane.
func (t *taking) inFlight(l *laneRow) rules.InFlight {
	return rules.InFlight{Endpoint: l.endpoint.running + l.endpoint.counts.running, Own: *l.own, Topic: l.topic.running + l.topic.counts.running}
}

// visit chooses jobs of a lane that may go. Expired leases go first: they were due before.
func (t *taking) visit(run *rules.Run, v *rules.Visit, l *laneRow) {
	l.visited, l.topic.visited = true, true
	if v.PutOff != 0 {
		t.noteAt(v.PutOff)
		if l.topic.held == 0 { // its circuit is open
			l.held, l.full = v.PutOff, false
		}
		if l.leaseEnded(t.now) {
			l.lease = v.PutOff
		}
		return
	}
	most := min(run.Most(v), max(run.Share(v), 1))
	again := t.choose(&l.flies, most)
	fresh := t.choose(&l.waits, min(most-again, run.Free(v, t.inFlight(l))))
	run.Took(v, again, fresh)
	t.room -= again + fresh
	l.held, l.full = 0, false
	if !l.flies.isDue(t.now) && !l.waits.isDue(t.now) {
		if c := l.waits.left(); c != nil {
			t.noteAt(c.wake)
		}
		return
	}
	wait := run.Rest(v, again+fresh, t.inFlight(l))
	if t.o.Pull != nil {
		l.topic.full = wait.Called
		if !wait.Paced {
			t.noteAt(wait.Pull(t.now))
		}
		return
	}
	switch {
	case wait.Paced, wait.Cut: // its topic is held, or it keeps its place in line
		l.turn = again+fresh > 0
	case wait.Hint:
		l.turn, t.shared = true, true
	case wait.Limit == 0:
		l.turn = true
	case wait.Called && !wait.Own:
		l.topic.held, l.topic.full = wait.Look, true
	default:
		l.held, l.full = wait.Look, wait.Called
	}
}

// choose chooses up to n candidates, and returns their number. Large jobs are left when the batch is large.
func (t *taking) choose(from *reading, n int) (chosen int) {
	for _, c := range from.jobs {
		if chosen >= n || c.wake > t.now {
			break
		}
		if c.gone || c.behind || c.locked || t.bytes >= store.BatchBytes && c.size > store.SmallRecord {
			continue
		}
		chosen++
		t.chosen++
		c.chosen, c.nth = true, t.chosen
		t.bytes += c.size
		t.count(c, 1)
	}
	return chosen
}

// count counts claims of a candidate.
func (t *taking) count(c *candidate, n int) {
	l := c.lane
	before := l.counts.running
	l.counts.claim(c.state, n)
	l.topic.counts.claim(c.state, n)
	l.endpoint.counts.claim(c.state, n)
	*l.own += l.counts.running - before
}

// full reports whether jobs wait for a place.
func (t *taking) full() bool {
	for _, r := range t.topics {
		if r.full {
			return true
		}
	}
	return slices.ContainsFunc(t.lanes, func(l *laneRow) bool { return l.full })
}
