package storetest

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// The model's calls: each draws its arguments, predicts what becomes of them
// by the model, and makes the call. Some are made twice.

var modelKeys = []job.Key{
	{Topic: "t", ID: "a"},
	{Topic: "t", ID: "b"},
	{Topic: "t", ID: "c"},
	{Topic: "u", ID: "a"},
	{Topic: "u", ID: "b"},
	{Topic: "u-v", ID: "a"},
}

func pick[T any](t *rapid.T, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, what)
}

func (m *model) register(t *rapid.T) {
	r := store.Registration{
		Key: pick(t, "key", modelKeys...), UID: newUID(),
		OnConflict: pick(t, "policy", job.ConflictReject, job.ConflictIgnore, job.ConflictReplace, job.ConflictReplace, job.ConflictLater, job.ConflictSooner),
		Spec: job.Spec{
			Destination: job.Destination(pick(t, "url", urlA, urlA, urlB)), BizKey: pick(t, "biz_key", "", "b"),
			Body: []byte(pick(t, "body", "1", "2")),
			When: job.When{Delay: pick(t, "delay", 0, long)}, TTL: pick(t, "ttl", 0, 0, 0, moment),
			Priority: pick[job.Priority](t, "priority", 0, 0, 9, 1),
		},
	}
	r.Spec.Content = contentOf(&r.Spec)
	want := m.outcomeOf(r)
	j := m.fixture.register(want, r)[0]
	if want != store.Created {
		equal(m.fixture, "uid of the job that has the key", j.UID, m.jobs[r.Key].uid)
		return
	}
	m.jobs[r.Key] = &modelJob{uid: r.UID, spec: r.Spec, state: job.Waiting, due: r.Spec.When.Delay == 0, version: j.Version}
	if r.Spec.TTL > 0 {
		m.expire(r.Key, j)
	}
	if rapid.Bool().Draw(t, "again") {
		r.UID, r.OnConflict = newUID(), pick(t, "policy of the second", job.ConflictReject, job.ConflictIgnore, job.ConflictReplace)
		equal(m.fixture, "uid of the same job", m.fixture.register(store.Same, r)[0].UID, j.UID)
	}
}

// backlog registers several, so that there is a choice.
func (m *model) backlog(t *rapid.T) {
	for range 4 {
		m.register(t)
	}
}

// expire waits until the job's TTL has passed.
func (m *model) expire(key job.Key, j job.Job) {
	m.waitPast(j.ExpiresAt)
	m.jobs[key].expired, m.jobs[key].due = true, true
}

// limits draws limits of jobs in flight.
func (m *model) limits(t *rapid.T) store.FlightLimits {
	l := generous.Limits
	l.EndpointLimit = pick(t, "endpoint limit", 0, 0, 1, 2)
	limit := pick(t, "topic limit", 0, 0, 1, 2, 3)
	if l.EndpointLimit > 0 {
		limit = min(limit, l.EndpointLimit)
	}
	l.TopicLimits = map[string]int{"t": limit}
	return l
}

// take takes jobs for long, or for a moment.
func (m *model) take(t *rapid.T) {
	o := generous
	o.Limits = m.limits(t)
	n, candidates := m.toGo(o.Limits)
	claims := m.takeUntil(n, o)
	for i, c := range claims {
		key := c.Job.Key
		equal(m.fixture, key.String()+" is due and its circuit closed", candidates[key], true)
		delete(candidates, key) // taken once
		if j := m.jobs[key]; j.state != job.Running {
			m.goesFirst(store.Hint{Lane: c.Job.Lane(), ID: key.ID}, candidates, idsOf(claims[i+1:]))
		}
		m.claimed(c)
	}
	if rapid.Bool().Draw(t, "die") {
		m.die(t)
	}
}

// die takes what may go for a moment only.
func (m *model) die(*rapid.T) {
	_, candidates := m.toGo(generous.Limits)
	o := generous
	o.Lease = moment
	for _, c := range m.takeOnce(o).Claims {
		equal(m.fixture, c.Job.Key.String()+" is due and its circuit closed", candidates[c.Job.Key], true)
		m.claimed(c)
		m.waitPast(c.Now.Add(moment))
		m.jobs[c.Job.Key].due = true
	}
}

func (m *model) carry(t *rapid.T) {
	o := carryOptions
	o.FlightLimits = m.limits(t)
	n, candidates := m.toGo(o.FlightLimits)
	carried := m.carryUntil(n, o)
	for i, c := range carried {
		key := c.Hint.Key()
		equal(m.fixture, key.String()+" is due and its circuit closed", candidates[key], true)
		delete(candidates, key) // carried once
		m.carried(c, false)
		if c.From == job.Waiting || c.From == job.Retrying {
			var later []string
			for _, l := range carried[i+1:] {
				later = append(later, l.Hint.ID)
			}
			m.goesFirst(c.Hint, candidates, later)
		}
	}
}

// goesFirst: no job that was due beside h, for the same topic and endpoint, had a
// higher priority.
func (m *model) goesFirst(h store.Hint, due map[job.Key]bool, later []string) {
	for key := range due {
		j := m.jobs[key]
		lane := j.lane(key)
		if j.state != job.Ready && j.state != job.Running && lane.Plain() == h.Lane.Plain() &&
			lane.Priority.Number() > h.Lane.Priority.Number() {
			m.Fatalf("%v of priority %d went before %v of priority %d, and then %v",
				h.Key(), h.Lane.Priority.Number(), key, lane.Priority.Number(), later)
		}
	}
}

// carryShort carries everything for a moment only.
func (m *model) carryShort(*rapid.T) {
	o := carryOptions
	_, candidates := m.toGo(o.FlightLimits)
	o.Visibility = moment
	missing := len(candidates)
	m.eventually("all that is due is carried", func() bool {
		for _, c := range m.fixture.carry(o) {
			first, known := candidates[c.Hint.Key()]
			equal(m.fixture, c.Hint.ID+" is due and its circuit closed", known, true)
			if first {
				missing--
				candidates[c.Hint.Key()] = false
			}
			m.carried(c, true)
		}
		return missing == 0
	})
	m.waitPast(m.now().Add(moment))
}

// carried notes one carried job; due reports whether its visibility passes at once.
func (m *model) carried(c store.Carried, due bool) {
	j := m.jobs[c.Hint.Key()]
	equal(m.fixture, "lane", c.Hint.Lane, j.lane(c.Hint.Key()))
	equal(m.fixture, "carried from", c.From, j.state)
	j.state, j.due = job.Ready, due
	m.ready = append(m.ready, c.Hint)
}

func (m *model) pop(t *rapid.T) {
	n := pick(t, "number", 1, 2, 100)
	hints, err := m.readyList().Pop(m.ctx, 0, n, 0)
	m.noError("Pop", err)
	if len(hints) > n || len(hints) == 0 && len(m.ready) > 0 {
		m.Fatalf("popped %d of %d hints, asked for %d", len(hints), len(m.ready), n)
	}
	for _, h := range hints {
		at := slices.Index(m.ready, h)
		if at < 0 {
			m.Fatalf("popped a hint that nobody carried: %v", h)
		}
		m.ready = slices.Delete(m.ready, at, at+1)
		m.hand = append(m.hand, popped{Hint: h})
	}
}

// lose drops hints, as a lost connection would.
func (m *model) lose(t *rapid.T) {
	m.hand = m.hand[:rapid.IntRange(0, len(m.hand)).Draw(t, "kept")]
}

func (m *model) claim(t *rapid.T) {
	hints := slices.Clone(m.hand)
	if len(hints) > 0 {
		hints = rapid.SliceOfN(rapid.SampledFrom(hints), 1, 4).Draw(t, "hints")
	}
	if rapid.Bool().Draw(t, "a hint made up") {
		key := pick(t, "key", modelKeys...)
		lane := laneOf(key.Topic, pick(t, "url", urlA, urlB))
		lane.Priority = pick[job.Priority](t, "priority", 0, 9)
		hints = append(hints, popped{Hint: store.Hint{Lane: lane, ID: key.ID}})
	}
	var want []string
	for _, h := range hints {
		if m.claimable(h.Hint) && !slices.Contains(want, h.Key().String()) {
			want = append(want, h.Key().String())
		}
	}
	slices.Sort(want)
	o := terms()
	short := rapid.Bool().Draw(t, "dies")
	if short {
		o.Lease = moment
	}
	claims := m.fixture.claim(hints, o)
	equal(m.fixture, "claimed", claimedKeys(claims), want)
	for _, c := range claims {
		m.claimed(c)
	}
	if !short {
		if rapid.Bool().Draw(t, "again") {
			again := jobsOf(m.fixture.claim(hints, o))
			equal(m.fixture, "claimed again", keys(again), want)
			equal(m.fixture, "the same claims", again, jobsOf(claims))
		}
		return
	}
	for _, c := range claims {
		m.waitPast(c.Now.Add(o.Lease))
		m.jobs[c.Job.Key].due = true
	}
}

// claimed notes one claim.
func (m *model) claimed(c store.Claimed) {
	key := c.Job.Key
	j := m.jobs[key]
	from := j.state
	if j.open {
		from = job.Running
		j.expiredLeases = job.ExpiredLeasesAfter(j.expiredLeases)
	}
	m.from(c, from)
	if c.Job.Token <= m.tokens[key] {
		m.Fatalf("token of %s went from %d to %d", key, m.tokens[key], c.Job.Token)
	}
	m.tokens[key] = c.Job.Token
	if !j.expired && c.Job.NextAt > c.Now {
		m.Fatalf("%s was claimed at %d although it is due at %d", key, c.Now, c.Job.NextAt)
	}
	j.state, j.open, j.due, j.settled, j.token = job.Running, true, false, false, c.Job.Token
	m.claims = append(m.claims, c)
}

func (m *model) settle(t *rapid.T) {
	if len(m.claims) == 0 {
		t.Skip("nothing was claimed")
	}
	c := rapid.SampledFrom(m.claims).Draw(t, "claim")
	o := job.Outcome{Kind: rapid.SampledFrom([]job.OutcomeKind{
		job.OutcomeDelivered, job.OutcomeFailed, job.OutcomeFailed, job.OutcomeReleased, job.OutcomeExpired,
	}).Draw(t, "outcome"), Reason: job.ReasonShutdown}
	if o.Kind == job.OutcomeDelivered || o.Kind == job.OutcomeFailed {
		o.Attempt = attempt(c, 500)
	}
	retry := after(pick(t, "delay", 0, long))
	if rapid.Bool().Draw(t, "last") {
		retry = never
	}
	s := job.Settle(&c.Job, o, retry)
	m.settleOnce(s)
	if rapid.Bool().Draw(t, "again") {
		m.settleOnce(s)
	}
}

// settleOnce applies s to the store and the model.
func (m *model) settleOnce(s job.Settlement) {
	j, ok := m.jobs[s.Key]
	switch {
	case !ok:
		m.fixture.settle(store.Missing, s)
	case j.token != s.Token || !j.open && !j.settled:
		m.fixture.settle(store.Stale, s)
	case j.settled:
		equal(m.fixture, "repeated", m.fixture.settle(store.Applied, s).Repeated, true)
	default:
		to := s.To
		if j.cancel && to != job.Delivered {
			to = job.Cancelled
		}
		done := m.first(m.fixture.settle(store.Applied, s))
		j.settled, j.attempts, j.expiredLeases = true, s.Attempts, s.ExpiredLeases
		if s.Attempt != nil {
			j.logged++
		}
		if done.Status == store.Applied { // rather than forgotten by an earlier run
			equal(m.fixture, "settled to", done.To, to)
		}
		if to.Final() {
			m.finish(s.Key, to)
		} else {
			j.wait(s.Delay == 0)
			j.state = to
		}
	}
}

// modelChange is a change of a job: apply makes it in the model, and returns
// the error that the call must give.
type modelChange struct {
	name   string
	change func(*job.Job, job.Instant) error
	apply  func(m *model, key job.Key, j *modelJob) error
}

var modelChanges = []modelChange{
	{"cancel", cancel, func(m *model, key job.Key, j *modelJob) error {
		switch {
		case j.state.Final():
			return job.ErrFinished
		case j.state == job.Running:
			j.cancel = true
		default:
			m.finish(key, job.Cancelled)
		}
		return nil
	}},
	{"run now", runNow, changeModel(func(j *modelJob) { j.wait(true) })},
	{"later", later, changeModel(func(j *modelJob) { j.wait(false) })},
	{"replay", replay, func(_ *model, _ job.Key, j *modelJob) error {
		if !j.state.Final() {
			return job.ErrNotEnded
		}
		j.attempts, j.expiredLeases, j.cancel, j.expired = 0, 0, false, j.spec.TTL > 0
		j.wait(true)
		return nil
	}},
	{"discard", discard, func(m *model, key job.Key, j *modelJob) error {
		if j.state != job.Dead {
			return job.ErrNotDead
		}
		m.finish(key, job.Cancelled)
		return nil
	}},
	{"replay as another", func(j *job.Job, now job.Instant) error {
		s := j.Spec
		s.Destination, s.BizKey = job.Destination(otherURL(string(s.Destination))), "b"
		return j.ReplayAs(s, &job.When{Delay: long}, now)
	}, func(_ *model, _ job.Key, j *modelJob) error {
		if !j.state.Final() {
			return job.ErrNotEnded
		}
		j.attempts, j.expiredLeases, j.cancel, j.expired = 0, 0, false, j.spec.TTL > 0
		j.spec.Destination, j.spec.BizKey = job.Destination(otherURL(string(j.spec.Destination))), "b"
		j.wait(false)
		return nil
	}},
	{"other url", respecify(func(s *job.Spec) { s.Destination = job.Destination(otherURL(string(s.Destination))) }), changeSpec(func(s *job.Spec) {
		s.Destination = job.Destination(otherURL(string(s.Destination)))
	})},
	{"other priority", respecify(func(s *job.Spec) { s.Priority = 9 - s.Priority }), changeSpec(func(s *job.Spec) {
		s.Priority = 9 - s.Priority
	})},
	{"other biz_key", respecify(func(s *job.Spec) { s.BizKey = "b" }), changeSpec(func(s *job.Spec) { s.BizKey = "b" })},
	{"no biz_key", respecify(func(s *job.Spec) { s.BizKey = "" }), changeSpec(func(s *job.Spec) { s.BizKey = "" })},
}

func otherURL(url string) string {
	if url == urlA {
		return urlB
	}
	return urlA
}

// changeModel is a change that ended jobs and those in flight refuse.
func changeModel(change func(j *modelJob)) func(*model, job.Key, *modelJob) error {
	return func(_ *model, _ job.Key, j *modelJob) error {
		switch {
		case j.state.Final():
			return job.ErrFinished
		case j.state == job.Running:
			return job.ErrInFlight
		}
		change(j)
		return nil
	}
}

// changeSpec: a job that was carried waits again, due as before.
func changeSpec(change func(s *job.Spec)) func(*model, job.Key, *modelJob) error {
	return changeModel(func(j *modelJob) {
		change(&j.spec)
		j.wait(j.due || j.state == job.Ready)
	})
}

func (m *model) update(t *rapid.T) {
	key := pick(t, "key", modelKeys...)
	c := rapid.SampledFrom(modelChanges).Draw(t, "change")
	t.Logf("%s %s", c.name, key)
	want := store.ErrNotFound
	if j, ok := m.jobs[key]; ok {
		want = c.apply(m, key, j)
	}
	j, err := m.Update(m.ctx, key, c.change)
	if !errors.Is(err, want) {
		m.Fatalf("%s %s: %v, want %v", c.name, key, err, want)
	}
	if known, ok := m.jobs[key]; ok && err == nil && known.expired {
		m.waitPast(j.ExpiresAt) // it counts anew after a replay
	}
}

func (m *model) circuit(t *rapid.T) {
	endpoint := laneOf("", pick(t, "url", urlA, urlB)).Endpoint
	if rapid.Bool().Draw(t, "open") {
		m.noError("SetCircuit", m.SetCircuit(m.ctx, endpoint, store.CircuitOpen, long))
		m.open[endpoint] = true
		return
	}
	m.noError("SetCircuit", m.SetCircuit(m.ctx, endpoint, store.CircuitClosed, 0))
	delete(m.open, endpoint)
}

// purge: what ended in the test is kept long, or not at all.
func (m *model) purge(*rapid.T) { m.fixture.purge(0, 100) }
