package storetest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// RunModel drives a store with random calls and holds it against a model: maps
// and slices that follow the rules in the plainest way. Time comes in two
// kinds only, so that the model knows it without a clock: what is long never
// ends, and what is a moment has ended before the next call. It always runs in
// real time, since rapid does not run in a bubble.
func RunModel(t *testing.T, h Harness) {
	rapid.Check(t, func(rt *rapid.T) {
		retention := time.Duration(0)
		if rapid.Bool().Draw(rt, "keep finished jobs") {
			retention = long
		}
		f := h.open(t, Options{Retention: retention}, true)
		f.reporter = rt
		m := &model{
			fixture: f, t: rt, keeps: retention > 0,
			jobs: map[job.Key]*modelJob{}, open: map[string]bool{}, tokens: map[job.Key]uint64{},
		}
		defer func() {
			if err := f.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		rt.Repeat(m.actions())
		m.drain()
	})
}

func (m *model) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"":            m.check,
		"Register":    m.register,
		"Backlog":     m.backlog,
		"Settle":      m.settle,
		"Update":      m.update,
		"OpenCircuit": m.circuit,
		"Purge":       m.purge,
	}
	if !m.carries {
		actions["Take"], actions["TakeAgain"] = m.take, m.take
		return actions
	}
	actions["Carry"], actions["CarryShort"] = m.carry, m.carryShort
	actions["Pop"], actions["Lose"], actions["Claim"] = m.pop, m.lose, m.claim
	return actions
}

const moment = time.Millisecond

// model is what should be in the store.
type model struct {
	*fixture
	t     *rapid.T
	keeps bool

	jobs   map[job.Key]*modelJob
	open   map[string]bool // endpoints with an open circuit
	ready  []store.Hint    // in any order
	hand   []popped        // hints popped and not lost; some are stale
	claims []store.Claimed // every claim ever made; most are stale
	tokens map[job.Key]uint64
}

// modelJob is a job as the model knows it.
type modelJob struct {
	uid  string
	spec job.Spec
	// state is the one shown.
	state job.State
	// due: it waits and its time has come, or it was carried and nobody came,
	// or its lease has expired.
	due bool
	// open: the last claim may still settle.
	open bool
	// token is that of the last claim; settled reports that it settled.
	token   uint64
	settled bool

	attempts, expiredLeases, logged int
	expired, cancel                 bool
	version                         uint64
}

func (j *modelJob) lane(key job.Key) job.Lane {
	lane := laneOf(key.Topic, string(j.spec.Destination))
	lane.Priority = j.spec.Priority
	return lane
}

func (j *modelJob) pending() job.State {
	if j.attempts > 0 {
		return job.Retrying
	}
	return job.Waiting
}

// wait makes the job wait for its time; a TTL that has passed has it due.
func (j *modelJob) wait(due bool) {
	j.state, j.open, j.due = j.pending(), false, due || j.expired
}

// finish ends the job.
func (m *model) finish(key job.Key, to job.State) {
	j := m.jobs[key]
	j.state, j.open, j.due = to, false, false
	if !m.keeps && to != job.Dead {
		delete(m.jobs, key)
	}
}

// claimable reports whether a hint leads to a claim.
func (m *model) claimable(h store.Hint) bool {
	j, ok := m.jobs[h.Key()]
	return ok && !j.state.Final() && j.lane(h.Key()) == h.Lane && (j.state == job.Ready || j.due)
}

// load is what is out of a lane or an endpoint, and what is due besides.
type load struct{ out, due int }

// toGo is how many jobs go under the limits of o, if there is
// room, and which of them may be among those. A topic's limit must not be
// above the endpoint's: then it would depend on whose turn comes first.
func (m *model) toGo(o store.FlightLimits) (n int, candidates map[job.Key]bool) {
	lanes, endpoints := map[job.Lane]load{}, map[string]load{}
	candidates = map[job.Key]bool{}
	for key, j := range m.jobs {
		lane := j.lane(key).Plain()
		l, e := lanes[lane], endpoints[lane.Endpoint]
		isOut := j.state == job.Ready || j.state == job.Running
		if isOut {
			l.out++
			e.out++
		}
		if j.due && !j.state.Final() && !m.open[lane.Endpoint] {
			candidates[key] = true
			if isOut {
				n++ // again: it keeps its place
			} else {
				l.due++
			}
		}
		lanes[lane], endpoints[lane.Endpoint] = l, e
	}
	for lane, l := range lanes {
		e := endpoints[lane.Endpoint]
		e.due += within(o.TopicLimits[lane.Topic], l)
		endpoints[lane.Endpoint] = e
	}
	for _, e := range endpoints {
		n += within(o.EndpointLimit, e)
	}
	return n, candidates
}

// within is how many due jobs may go out under a limit.
func within(limit int, l load) int {
	if limit == 0 {
		return l.due
	}
	return min(l.due, max(0, limit-l.out))
}

// outcomeOf predicts a registration.
func (m *model) outcomeOf(r store.Registration) store.RegisterOutcome {
	old, ok := m.jobs[r.Key]
	if !ok {
		return store.Created
	}
	same := old.spec.Content == r.Spec.Content
	again := r.OnConflict == job.ConflictReject || r.OnConflict == job.ConflictIgnore
	switch {
	case old.state.Final() && (r.OnConflict == job.ConflictReplace || old.state == job.Cancelled):
		return store.Created
	case old.state.Final() && same && again:
		return store.Same
	case old.state == job.Dead && (r.OnConflict == job.ConflictLater || r.OnConflict == job.ConflictSooner):
		return store.Moves
	case old.state == job.Dead:
		return store.DeadLetter
	case old.state.Final():
		return store.Created
	case same && (again || r.OnConflict == job.ConflictReplace):
		return store.Same
	case r.OnConflict == job.ConflictLater || r.OnConflict == job.ConflictSooner:
		if old.state == job.Running {
			return store.InFlight
		}
		return store.Moves
	case r.OnConflict == job.ConflictIgnore:
		return store.Kept
	case r.OnConflict == job.ConflictReject:
		return store.Exists
	case old.state == job.Running:
		return store.InFlight
	}
	return store.Created
}

// seen is what check compares of a job.
type seen struct {
	UID, URL, BizKey                string
	Priority                        job.Priority
	State                           job.State
	Attempts, ExpiredLeases, Logged int
	Cancel                          bool
}

// check holds the store against the model.
func (m *model) check(*rapid.T) {
	want, got := map[job.Key]seen{}, map[job.Key]seen{}
	counts := map[string]map[job.State]int64{}
	var ofBizKey []job.Job
	for key, j := range m.jobs {
		want[key] = seen{
			j.uid, string(j.spec.Destination), j.spec.BizKey, j.spec.Priority, j.state, j.attempts, j.expiredLeases, min(j.logged, 1), j.cancel,
		}
		if counts[key.Topic] == nil {
			counts[key.Topic] = map[job.State]int64{}
		}
		counts[key.Topic][j.state]++
		if j.spec.BizKey == "b" {
			ofBizKey = append(ofBizKey, job.Job{Key: key})
		}
	}
	listed := m.list(store.Query{Limit: 100})
	equal(m.fixture, "number of jobs listed", len(listed), len(m.jobs))
	for _, j := range listed {
		logged := 0
		if j.LastAttempt != nil {
			logged = 1
		}
		got[j.Key] = seen{
			j.UID, string(j.Spec.Destination), j.Spec.BizKey, j.Spec.Priority, j.State, j.Attempts, j.ExpiredLeases, logged, j.CancelRequested,
		}
		m.checkTimes(j)
	}
	equal(m.fixture, "jobs", got, want)
	equal(m.fixture, "jobs by biz_key", keys(m.list(store.Query{BizKey: "b", Limit: 100})), keys(ofBizKey))
	counted := map[string]map[job.State]int64{}
	for _, t := range m.topics() {
		counted[t.Topic] = nonZero(t.States)
	}
	equal(m.fixture, "counts", counted, counts)
	m.checkSums(counts)
	equal(m.fixture, "hints on the ready list", m.depth().ReadyList, int64(len(m.ready)))
}

// checkSums: what is summed up is the sum of the jobs.
func (m *model) checkSums(counts map[string]map[job.State]int64) {
	all := map[job.State]int64{}
	unfinished := map[string]int64{}
	for topic, states := range counts {
		for state, n := range states {
			all[state] += n
			if !state.Final() {
				unfinished[topic] += n
			}
		}
	}
	equal(m.fixture, "jobs of all topics", nonZero(m.depth().States), all)
	busy := map[string]int64{}
	for _, t := range m.busiest(100) {
		busy[t.Topic] = t.Jobs
	}
	equal(m.fixture, "unfinished jobs by topic", busy, unfinished)
	at := map[string]endpointLine{}
	for _, j := range m.jobs {
		if j.state.Final() {
			continue
		}
		name := laneOf("t", string(j.spec.Destination)).Endpoint
		e := at[name]
		e.Endpoint = name
		switch j.state {
		case job.Ready:
			e.Ready++
		case job.Running:
			e.Running++
		default:
			e.Waiting++
		}
		at[name] = e
	}
	listed := map[string]endpointLine{}
	for _, e := range m.endpoints(store.EndpointQuery{Limit: 100}) {
		if e.State = store.CircuitClosed; e.Waiting+e.Ready+e.Running > 0 {
			listed[e.Endpoint] = e
		}
	}
	equal(m.fixture, "jobs by endpoint", listed, at)
	equal(m.fixture, "jobs that wait", m.dueCounts(0)[0], all[job.Waiting]+all[job.Retrying])
}

// checkTimes: a job ends exactly when it is final, and versions only grow.
func (m *model) checkTimes(j job.Job) {
	equal(m.fixture, "it has an end", j.EndedAt != 0, j.State.Final())
	equal(m.fixture, "it has a next time", j.NextAt != 0, !j.State.Final())
	if known, ok := m.jobs[j.Key]; ok {
		if j.Version < known.version {
			m.Fatalf("version of %s went from %d to %d", j.Key, known.version, j.Version)
		}
		known.version = j.Version
	}
}

// drain: in the end whatever is due can be delivered.
func (m *model) drain() {
	for endpoint := range m.open {
		m.noError("SetCircuit", m.SetCircuit(m.ctx, endpoint, store.CircuitClosed, 0))
		delete(m.open, endpoint)
	}
	var want []string
	for key, j := range m.jobs {
		listed := slices.ContainsFunc(m.ready, func(h store.Hint) bool { return m.claimable(h) && h.Key() == key })
		if !j.state.Final() && (j.due || listed) {
			want = append(want, key.String())
		}
	}
	slices.Sort(want)
	var claims []store.Claimed
	m.eventually("all that is due is claimed", func() bool {
		claims = append(claims, m.fixture.take()...)
		return len(claims) >= len(want)
	})
	equal(m.fixture, "jobs claimed in the end", claimedKeys(claims), want)
}
