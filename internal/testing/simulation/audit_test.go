package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// model is what a job must be, by the changes that the store said it made.
type model struct {
	job.Job
	floor  uint64 // of its tokens: those of its key until now
	claim  *claim // the last one
	held   bool   // it was not settled
	claims []*claim
	// withdrawn: at some time an update made it cancelled.
	withdrawn bool
	// callbacks are those that must have been registered, once each.
	callbacks []job.Key
}

// audit checks all that happened, and what the store holds at the end.
func (w *world) audit() {
	h := w.history
	h.mu.Lock()
	defer h.mu.Unlock()
	a := &auditor{w: w, h: h, jobs: map[string]*model{}, keys: map[job.Key]*model{}, reported: map[job.Key]int{}}
	if w.steps { // which times are right is not known
		a.checkSchedules()
		return
	}
	for i := range h.changes {
		a.follow(&h.changes[i])
	}
	a.matchRequests()
	for _, uid := range slices.SortedFunc(maps.Keys(a.jobs), func(x, y string) int { return strings.Compare(h.uids[x], h.uids[y]) }) {
		a.checkAttempts(a.jobs[uid])
	}
	for _, c := range h.clients {
		for _, o := range c.jobs {
			a.checkOwned(o)
		}
	}
	a.checkCallbacks()
	a.checkStore()
	a.checkCounts()
	a.checkLimits()
	a.checkSchedules()
}

type auditor struct {
	w    *world
	h    *history
	jobs map[string]*model // by uid
	keys map[job.Key]*model
	// reported counts the registrations of callbacks.
	reported map[job.Key]int
}

func (a *auditor) wrong(key job.Key, format string, args ...any) {
	a.w.Helper()
	a.w.Errorf("%s: "+format, append([]any{key}, args...)...)
}

// follow checks that one more change may follow the changes before.
func (a *auditor) follow(c *change) {
	switch {
	case c.birth != nil:
		old := a.keys[c.key]
		m := &model{Job: *c.birth}
		if m.Spec.Reports != "" {
			a.reported[c.key]++
			a.h.counts["callbacks"]++
		}
		if old != nil {
			if !old.State.Final() {
				a.wrong(c.key, "registered anew while it was %v", old.State)
			}
			m.floor = max(old.floor, old.Token)
		}
		a.checkOverlap(m)
		a.keys[c.key], a.jobs[c.uid] = m, m
	case c.claim != nil:
		a.followClaim(a.keys[c.key], c.claim)
	case c.settle != nil:
		a.followSettle(a.keys[c.key], c.settle)
	case c.update != nil:
		a.followUpdate(a.keys[c.key], c.update)
	case c.counted != nil:
		a.followCount(a.keys[c.key], c.counted)
	}
}

func (a *auditor) followClaim(m *model, c *claim) {
	switch {
	case m == nil || m.UID != c.Job.UID:
		a.wrong(c.Job.Key, "claimed, but was not registered")
		return
	case m.State.Final():
		a.wrong(m.Key, "claimed although it is %v", m.State)
	case m.held && c.Now < m.claim.lease:
		a.wrong(m.Key, "claimed at %d, while a lease ran until %d", c.Now, m.claim.lease)
	case !m.held && c.Now < m.WakeAt():
		a.wrong(m.Key, "claimed at %d, but it is due at %d", c.Now, m.WakeAt())
	}
	a.checkTurn(m, c)
	if before := max(m.floor, m.Token); c.Job.Token <= before {
		a.wrong(m.Key, "token %d after %d", c.Job.Token, before)
	}
	if c.Job.Attempts != m.Attempts || c.Job.Snoozes != m.Snoozes {
		a.wrong(m.Key, "claimed with %d attempts and %d snoozes, but has %d and %d", c.Job.Attempts, c.Job.Snoozes, m.Attempts, m.Snoozes)
	}
	switch {
	case m.held && m.claim.nonce == c.nonce:
		a.h.counts["claims made anew"]++
	case m.held:
		m.ExpiredLeases = job.ExpiredLeasesAfter(m.ExpiredLeases)
		a.h.counts["leases that expired"]++
	}
	if c.Job.ExpiredLeases != m.ExpiredLeases {
		a.wrong(m.Key, "claimed with %d expired leases, but has %d", c.Job.ExpiredLeases, m.ExpiredLeases)
	}
	m.State, m.Token, m.claim, m.held = job.Running, c.Job.Token, c, true
	m.claims = append(m.claims, c)
}

func (a *auditor) followSettle(m *model, s *settlement) {
	switch {
	case m == nil || m.claim == nil:
		a.wrong(s.Key, "settled, but was not claimed")
		return
	case !m.held || s.Token != m.Token:
		a.wrong(s.Key, "a stale write: settled with token %d, the current one is %d (held: %v)", s.Token, m.Token, m.held)
		return
	}
	to := s.To
	if m.CancelRequested && to != job.Delivered {
		to = s.IfCancelled
	}
	if s.done.To != to {
		a.wrong(s.Key, "settled as %v, should be %v", s.done.To, to)
	}
	for _, n := range s.Successors(s.Change(m.CancelRequested), 0, s.done.Shed) {
		if n.Key != s.Key {
			m.callbacks = append(m.callbacks, n.Key)
		}
	}
	m.claim.settled, m.held = s, false
	m.State, m.Attempts, m.Snoozes, m.ExpiredLeases = s.done.To, s.Attempts, s.Snoozes, s.ExpiredLeases
	m.NextAt = 0
	if !m.State.Final() {
		m.NextAt = s.done.NextAt
		want := s.done.Now.Add(s.Delay)
		if s.At != 0 {
			want = s.At
		}
		if m.NextAt != want {
			a.wrong(s.Key, "settled to be tried at %d, should be %d", m.NextAt, want)
		}
	}
}

// followCount: a count only grows, and makes a job due once.
func (a *auditor) followCount(m *model, done *store.Counted) {
	key, t := done.Job.Key, &done.Tally
	switch {
	case m == nil || m.UID != done.Job.UID:
		a.wrong(key, "counted, but was not registered")
		return
	case t.Count < m.Counted:
		a.wrong(key, "counted to %d after %d", t.Count, m.Counted)
	case t.Due && m.Fired:
		a.wrong(key, "fired twice")
	case t.Due && t.Count < m.Spec.Count.Target:
		a.wrong(key, "fired at %d of %d", t.Count, m.Spec.Count.Target)
	}
	m.Counted, m.Fired = t.Count, m.Fired || t.Fired
	if t.Due {
		m.NextAt = done.Job.NextAt
		a.h.counts["jobs that fired by their count"]++
	}
}

// checkCounted: what was acknowledged was counted, and nothing that was not asked for. The
// key may have had several jobs.
func (a *auditor) checkCounted(o *owned) {
	var counted int64
	for _, m := range a.jobs {
		if m.Key == o.key {
			counted += m.Counted
		}
	}
	if counted < int64(o.counted) || counted > int64(o.asked) {
		a.wrong(o.key, "counted to %d; %d were acknowledged and %d asked for", counted, o.counted, o.asked)
	}
}

func (a *auditor) followUpdate(m *model, u *update) {
	key := u.after.Key
	if m == nil || m.UID != u.after.UID {
		a.wrong(key, "updated, but was not registered")
		return
	}
	if u.before.Attempts != m.Attempts || m.claim != nil && u.before.Token != m.Token {
		a.wrong(key, "an update found %d attempts and token %d, but it has %d and %d", u.before.Attempts, u.before.Token, m.Attempts, m.Token)
	}
	if m.held && u.after.State != job.Running && u.now < m.claim.lease && u.before.State == job.Running {
		a.wrong(key, "an update took it out of a worker's hands")
	}
	m.Fired = u.after.Fired
	for _, n := range u.after.Ended(u.before.State, job.ShedNothing) {
		m.callbacks = append(m.callbacks, n.Key)
	}
	m.Spec, m.ExpiresAt, m.CancelRequested = u.after.Spec, u.after.ExpiresAt, u.after.CancelRequested
	m.DueAt, m.NextAt, m.Attempts, m.Snoozes, m.ExpiredLeases = u.after.DueAt, u.after.NextAt, u.after.Attempts, u.after.Snoozes, u.after.ExpiredLeases
	if u.after.State != job.Running {
		m.State, m.held = u.after.State, false
		m.withdrawn = m.withdrawn || u.after.State == job.Cancelled
	}
}

// matchRequests finds the claim under which each request was made. A refused
// connection sent nothing, so the attempt may connect again.
func (a *auditor) matchRequests() {
	for _, q := range a.h.requests {
		m := a.jobs[q.uid]
		if _, callback := job.CallbackOf(q.key.ID); callback {
			m = a.keys[q.key]
		}
		if m == nil || m.MessageID() != q.uid {
			a.wrong(q.key, "sent as %s, which was never registered", q.uid)
			continue
		}
		i := m.claimOf(q)
		switch {
		case i < 0:
			a.wrong(q.key, "%s sent it without a claim", q.life.name)
		case m.claims[i].request != nil && !m.claims[i].request.refused():
			a.wrong(q.key, "%s sent it twice under one claim", q.life.name)
		case m.claims[i].refused > dispatcher.DefaultConnectRetries:
			a.wrong(q.key, "%s connected more than %d times again under one claim", q.life.name, dispatcher.DefaultConnectRetries)
		default:
			m.claims[i].request = q // of several connections, the last decides
			if q.refused() {
				m.claims[i].refused++
			}
			if want := m.claims[i].Job.Attempts + 1; q.attempt != want {
				a.wrong(q.key, "sent as attempt %d, should be %d", q.attempt, want)
			}
		}
	}
}

// claimOf is the claim of a request, the latest of its process, or -1.
func (m *model) claimOf(q *request) int {
	i := len(m.claims) - 1
	for i >= 0 && (m.claims[i].life != q.life || m.claims[i].at > q.sent) {
		i--
	}
	return i
}

// checkAttempts checks the outcome of each claim.
func (a *auditor) checkAttempts(m *model) {
	delivered := 0
	for _, c := range m.claims {
		if q := c.request; q != nil && q.answer.delivers {
			if delivered++; delivered > 1 {
				a.h.counts["deliveries repeated"]++
			}
		}
		if c.settled == nil && c.lost {
			continue
		}
		if c.settled == nil {
			// It was in flight when something went wrong with its process.
			till := c.at + c.lease.Sub(c.Now) + time.Second
			if !c.life.faulty(c.at-time.Second, till) {
				a.wrong(m.Key, "%s never settled it, though nothing was wrong between %v and %v", c.life.name, c.at, till)
			}
			continue
		}
		a.checkOutcome(m, c)
	}
}

// checkOutcome checks that a settlement says what the receiver said.
func (a *auditor) checkOutcome(m *model, c *claim) {
	s, q := c.settled, c.request
	charged := s.Attempts - c.Job.Attempts
	if q != nil && c.Job.ExpiresAt != 0 && c.Now >= c.Job.ExpiresAt {
		a.wrong(m.Key, "sent under a claim of %d, though it expired at %d", c.Now, c.Job.ExpiresAt)
	}
	if q == nil || !q.told {
		if charged != 0 || s.To == job.Delivered || s.To == job.Retrying && s.Reason == job.ReasonLadder {
			a.wrong(m.Key, "settled as %v (%s) with %d attempts charged, though no receiver was asked or nobody heard", s.To, s.Reason, charged)
		}
		return
	}
	want, delivers := 1, q.answer.delivers && !(q.answer.odd && c.Job.Spec.ExpectBody != "")
	if q.answer.snoozes {
		want = 0
	}
	if charged != want {
		a.wrong(m.Key, "%d attempts charged for %d, should be %d", charged, q.answer.status, want)
	}
	policy := a.w.policy.For(c.Job.Spec.Retry)
	last := s.Attempts > policy.Limit
	switch {
	case delivers != (s.To == job.Delivered):
		a.wrong(m.Key, "answered %d, settled as %v", q.answer.status, s.To)
	case delivers:
	case q.answer.ends && s.To != job.Dead:
		a.wrong(m.Key, "the receiver ended it, settled as %v", s.To)
	case q.answer.ends:
	case q.answer.snoozes && (s.Delay != q.answer.after || s.To.Final()):
		a.wrong(m.Key, "snoozed for %v, settled as %v in %v", q.answer.after, s.To, s.Delay)
	case q.answer.snoozes:
	case last != (s.To == job.Dead):
		a.wrong(m.Key, "after %d of %d attempts, settled as %v", s.Attempts, policy.MaxAttempts(), s.To)
	case q.answer.at != 0 && !last:
		a.h.counts["attempts rescheduled"]++
		if s.At != q.answer.at {
			a.wrong(m.Key, "rescheduled to %d, settled as due at %d", q.answer.at, s.At)
		}
	case !last:
		a.checkDelay(m, s, q, policy)
	}
}

func (a *auditor) checkDelay(m *model, s *settlement, q *request, policy retrypolicy.Policy) {
	shortest, longest := q.answer.after, q.answer.after
	if longest == 0 {
		jitter := policy.Jitter
		policy.Jitter = 0
		step, _ := policy.Next(s.Attempts, nil)
		spread := time.Duration(float64(step)*jitter) + time.Millisecond
		shortest, longest = step-spread, step+spread
	}
	if s.Delay < shortest || s.Delay > longest {
		a.wrong(m.Key, "next attempt after %v, should be %v to %v", s.Delay, shortest, longest)
	}
}

// checkOwned checks the answers to a client.
func (a *auditor) checkOwned(o *owned) {
	for _, uid := range o.acked {
		m := a.jobs[uid]
		if m == nil || m.Key != o.key {
			a.wrong(o.key, "acknowledged as %s, which the store never took", uid)
		}
	}
	a.checkCounted(o)
	if len(o.acked) > 0 && !o.touched {
		a.checkDue(o)
	}
	for _, b := range o.bans {
		m := a.jobs[b.uid]
		if m == nil {
			continue
		}
		// A repeated cancel is answered like one that ended the job, if the first one was noted while
		// an attempt was in flight.
		noted := slices.ContainsFunc(o.bans, func(other *ban) bool { return other.uid == b.uid && other.inFlight && other.from < b.from })
		// So is one whose first call was not answered, once its attempt has failed.
		if !b.inFlight && !noted && !m.withdrawn && m.State != job.Cancelled {
			a.wrong(o.key, "a cancel was answered with cancelled, but it never was")
		}
		for _, c := range m.claims {
			q := c.request
			if q == nil || q.sent > b.lifted || q.sent <= b.from {
				continue
			}
			if !b.inFlight || c.at > b.from {
				a.wrong(o.key, "sent at %v, after a cancel was answered at %v (in flight: %v)", q.sent, b.from, b.inFlight)
			}
		}
	}
}

// checkDue checks that a job was not sent before its client wanted it.
func (a *auditor) checkDue(o *owned) {
	for _, q := range a.h.requests {
		// The store counts in whole milliseconds, cut off.
		if q.uid == o.acked[0] && q.sent < o.due-time.Millisecond {
			a.wrong(o.key, "sent at %v, wanted at %v", q.sent, o.due)
		}
	}
}

// checkCallbacks checks that each outcome has its callbacks, once each. checkStore checks what
// became of them, as of all jobs.
func (a *auditor) checkCallbacks() {
	for _, m := range a.jobs {
		for _, key := range m.callbacks {
			if a.reported[key] != 1 {
				a.wrong(m.Key, "%s was registered %d times", key, a.reported[key])
			}
			delete(a.reported, key)
		}
	}
	for key := range a.reported {
		a.wrong(key, "was registered for an outcome that the job did not have")
	}
}

// checkStore checks that the store holds what it should, and that nothing is
// overdue.
func (a *auditor) checkStore() {
	ctx := context.Background()
	now := job.InstantOf(clock.Now())
	for _, key := range slices.SortedFunc(maps.Keys(a.keys), func(x, y job.Key) int { return strings.Compare(x.String(), y.String()) }) {
		m := a.keys[key]
		j, err := a.w.store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			if !m.State.Final() || m.State == job.Dead || a.w.retention > a.w.calm {
				a.wrong(key, "lost: it was %v, next at %d", m.State, m.NextAt)
			}
			continue
		}
		if err != nil {
			a.wrong(key, "Get: %v", err)
			continue
		}
		state := j.State
		if state == job.Ready {
			state = m.State // only the bucket knows
		}
		if state != m.State && !(m.held && state == m.Pending()) {
			a.wrong(key, "is %v, should be %v", j.State, m.State)
		}
		if j.UID != m.UID || j.Attempts != m.Attempts || j.NextAt != m.NextAt && !m.held || m.claim != nil && j.Token != m.Token {
			a.wrong(key, "is %s with %d attempts, next at %d, token %d; should be %s, %d, %d, %d",
				j.UID, j.Attempts, j.NextAt, j.Token, m.UID, m.Attempts, m.NextAt, m.Token)
		}
		if !j.State.Final() && j.WakeAt() < now.Add(-10*time.Second) && !a.waitsForTurn(m) {
			a.wrong(key, "is %v and overdue: now is %d, it was due at %d", j.State, now, j.WakeAt())
		}
		a.h.counts["jobs "+j.State.String()]++
	}
}

// checkCounts checks that counts agree with listings.
func (a *auditor) checkCounts() {
	ctx := context.Background()
	listed := map[string]map[job.State]int64{}
	q := store.Query{Limit: 100}
	for {
		page, err := listing.List(ctx, a.w.store, q)
		if err != nil {
			a.w.Errorf("List: %v", err)
			return
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if listed[j.Topic] == nil {
				listed[j.Topic] = map[job.State]int64{}
			}
			listed[j.Topic][j.State]++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	topics, err := listing.Topics(ctx, a.w.store, store.TopicQuery{Limit: 1_000})
	if err != nil {
		a.w.Errorf("Topics: %v", err)
	}
	counted := topics.Topics
	if len(counted) != len(listed) {
		a.w.Errorf("%d topics counted, %d listed", len(counted), len(listed))
	}
	depth, err := listing.Depth(ctx, a.w.store)
	if err != nil {
		a.w.Errorf("Depth: %v", err)
	}
	for _, s := range job.States {
		sum := int64(0)
		for _, t := range counted {
			if t.States[s] != listed[t.Topic][s] {
				a.w.Errorf("%s: %d jobs counted as %v, %d listed", t.Topic, t.States[s], s, listed[t.Topic][s])
			}
			sum += t.States[s]
		}
		if depth.States[s] != sum {
			a.w.Errorf("the depth counts %d jobs as %v, the topics %d", depth.States[s], s, sum)
		}
	}
}
