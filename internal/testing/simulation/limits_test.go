package simulation

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// drainingCode is the error code of a draining topic.
const drainingCode = "topic_draining"

// limit is the limits of a topic from a time on.
type limit struct {
	store.Limits
	from time.Duration
}

// carried is what one call of Carry moved.
type carried struct {
	at   time.Duration
	jobs []store.Carried
}

// operator sets limits of topics, over a line without faults: what it was told is
// set is what the audit goes by. In the end it takes all of them back.
type operator struct {
	w    *world
	rand *rand.Rand
}

func (o *operator) run(over context.Context) {
	defer func() {
		for _, topic := range topics {
			o.set(topic, store.Limits{})
		}
	}()
	for _, topic := range topics {
		o.set(topic, o.draw())
	}
	for job.Sleep(over, clock, between(o.rand, 10*time.Millisecond, oneOf(o.rand, time.Second, 30*time.Second))) == nil {
		o.set(oneOf(o.rand, topics...), o.draw())
	}
}

// draw makes limits up: one kind as a rule, sometimes several.
func (o *operator) draw() store.Limits {
	r := o.rand
	var l store.Limits
	for range 1 + r.IntN(2) {
		switch r.IntN(7) {
		case 0:
			l.Paused = true
		case 1:
			l.Draining = true
		case 2:
			l.Capacity = oneOf(r, 1, 4, 30)
		case 3:
			l.Rate = oneOf(r, 0.2, 5, 300)
		case 4:
			l.Concurrency = oneOf(r, 1, 3)
		case 5:
			l.Weight = oneOf(r, 1, 100)
		}
	}
	return l
}

func (o *operator) set(topic string, l store.Limits) {
	if err := o.w.store.SetLimits(context.Background(), topic, l); err != nil {
		o.w.Errorf("SetLimits: %v", err)
	}
	h := o.w.history
	h.note("the limits of %s are %+v", topic, l)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limits[topic] = append(h.limits[topic], limit{l, o.w.now()})
}

func (c *client) full(key job.Key) {
	c.refused(key, "registrations refused: full", func(l *limit) bool { return l.Capacity > 0 })
}

func (c *client) draining(key job.Key) {
	c.refused(key, "registrations refused: draining", func(l *limit) bool { return l.Draining })
}

// refused checks that there was a reason to refuse a job.
func (c *client) refused(key job.Key, what string, reason func(*limit) bool) {
	c.w.history.count(what)
	h := c.w.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.limits[key.Topic], func(l limit) bool { return reason(&l) }) {
		c.w.Errorf("%s: %s, without such a limit", key, what)
	}
}

// checkLimits checks that no limit was exceeded, and that what has a higher
// priority went first.
func (a *auditor) checkLimits() {
	a.checkCarried()
	for _, topic := range slices.Sorted(maps.Keys(a.h.limits)) {
		t := &limited{auditor: a, topic: topic, limits: a.h.limits[topic]}
		t.checkPauses()
		t.checkCapacity()
		t.checkClaims()
		t.checkRate()
	}
}

// checkCarried: of the jobs that one call carried, for one topic and endpoint, none
// went before one with a higher priority. Jobs with an expired lease were in flight before.
func (a *auditor) checkCarried() {
	for _, c := range a.h.carries {
		last := map[job.Lane]job.Priority{}
		for _, j := range c.jobs {
			if j.From != job.Waiting && j.From != job.Retrying {
				continue
			}
			lane := j.Hint.Lane
			before, known := last[lane.Plain()]
			if known && before != lane.Priority {
				a.h.counts["carried by priority"]++
			}
			if known && before.Number() < lane.Priority.Number() {
				a.wrong(j.Hint.Key(), "of priority %d was carried after one of priority %d", lane.Priority.Number(), before.Number())
			}
			last[lane.Plain()] = lane.Priority
		}
	}
}

// limited is a topic whose limits are checked.
type limited struct {
	*auditor
	topic  string
	limits []limit
}

// at gives the limits at a time; ok is false at the moment of a change, when either
// may hold. Stores count in whole milliseconds.
func (t *limited) at(when time.Duration) (l store.Limits, ok bool) {
	ok = true
	for i := range t.limits {
		if from := t.limits[i].from; from <= when {
			l = t.limits[i].Limits
		}
		if apart := when - t.limits[i].from; apart > -time.Millisecond && apart < time.Millisecond {
			ok = false
		}
	}
	return l, ok
}

// checkPauses: while the topic is paused nothing of it is carried or claimed.
func (t *limited) checkPauses() {
	for _, c := range t.h.carries {
		for _, j := range c.jobs {
			if l, ok := t.at(c.at); ok && l.Paused && j.Hint.Lane.Topic == t.topic {
				t.wrong(j.Hint.Key(), "carried at %v, while its topic was paused", c.at)
			}
		}
	}
	for i := range t.h.changes {
		c := &t.h.changes[i]
		if l, ok := t.at(c.at); ok && l.Paused && c.claim != nil && c.key.Topic == t.topic {
			t.wrong(c.key, "claimed at %v, while its topic was paused", c.at)
		}
	}
}

// exact: with several shards each has its part of a limit of whole numbers, and only
// the store knows which job is in which.
func (t *limited) exact() bool { return t.w.shards == 1 }

// checkCapacity follows how many jobs are unfinished: none may begin to be while
// there are as many as may be, or while the topic is drained.
func (t *limited) checkCapacity() {
	unfinished := map[job.Key]bool{}
	for i := range t.h.changes {
		c := &t.h.changes[i]
		if c.key.Topic != t.topic || c.counted != nil { // a count changes no state
			continue
		}
		goesOn := c.claim != nil || c.birth != nil || c.settle != nil && !c.settle.done.To.Final() ||
			c.update != nil && !c.update.after.State.Final()
		if l, ok := t.at(c.at); ok && goesOn && !unfinished[c.key] && (c.birth == nil || c.birth.Spec.Reports == "") {
			t.begins(c, l, len(unfinished)-t.endsBy(i, unfinished))
		}
		if goesOn {
			unfinished[c.key] = true
		} else {
			delete(unfinished, c.key)
		}
	}
}

func (t *limited) begins(c *change, l store.Limits, unfinished int) {
	if l.Draining {
		t.wrong(c.key, "taken in at %v, while its topic was drained", c.at)
	}
	if l.Capacity > 0 && t.exact() && unfinished >= l.Capacity {
		t.wrong(c.key, "taken in at %v beside %d unfinished ones, with a capacity of %d", c.at, unfinished, l.Capacity)
	}
}

// endsBy is how many unfinished jobs end at the moment of change i, but were
// written down after it.
func (t *limited) endsBy(i int, unfinished map[job.Key]bool) int {
	n := 0
	for _, c := range t.h.changes[i+1:] {
		if c.at != t.h.changes[i].at {
			break
		}
		ends := c.settle != nil && c.settle.done.To.Final() || c.update != nil && c.update.after.State.Final()
		if ends && unfinished[c.key] {
			n++
		}
	}
	return n
}

// checkClaims: no more jobs are claimed at a time than the topic's concurrency. That
// was decided when the last of them was carried, at which time all of them were out.
func (t *limited) checkClaims() {
	carriedAt, held := map[job.Key]time.Duration{}, map[job.Key]time.Duration{}
	carries := t.h.carries
	for i := range t.h.changes {
		c := &t.h.changes[i]
		for len(carries) > 0 && carries[0].at <= c.at {
			for _, j := range carries[0].jobs {
				if j.From == job.Waiting || j.From == job.Retrying {
					carriedAt[j.Hint.Key()] = carries[0].at
				}
			}
			carries = carries[1:]
		}
		if c.key.Topic != t.topic || c.update != nil && c.update.after.State == job.Running {
			continue
		}
		if c.claim == nil {
			delete(held, c.key)
			continue
		}
		held[c.key] = c.at
		if at, ok := carriedAt[c.key]; ok {
			held[c.key] = at
		}
		t.checkConcurrency(c, held)
	}
}

func (t *limited) checkConcurrency(c *change, held map[job.Key]time.Duration) {
	decided := time.Duration(0)
	for _, at := range held {
		decided = max(decided, at)
	}
	l, ok := t.at(decided)
	if l.Concurrency == 0 || !ok || !t.exact() {
		return
	}
	t.h.counts["claims under a concurrency"]++
	if n := len(held); n > l.Concurrency {
		t.wrong(c.key, "claimed at %v as one of %d, with a concurrency of %d", c.at, n, l.Concurrency)
	}
}

// checkRate: within no time of unchanged limits are more jobs carried than the rate
// allows, except for jobs that a late carrier may catch up on.
func (t *limited) checkRate() {
	for i, l := range t.limits {
		till := time.Duration(never)
		if i+1 < len(t.limits) {
			till = t.limits[i+1].from - time.Millisecond
		}
		if l.Rate == 0 {
			continue
		}
		var at []time.Duration
		for _, c := range t.h.carries {
			for _, j := range c.jobs {
				if j.Hint.Lane.Topic == t.topic && c.at > l.from+time.Millisecond && c.at < till {
					at = append(at, c.at)
				}
			}
		}
		t.h.counts["carried at a rate"] += len(at)
		for first := range at {
			for last := first + 1; last < len(at); last++ {
				window := at[last] - at[first] + rules.PaceSlack + 2*time.Millisecond
				if most := window.Seconds()*l.Rate + float64(t.w.shards); float64(last-first+1) > most+1e-6 {
					t.w.Errorf("%s: %d jobs carried within %v from %v, with a rate of %v", t.topic, last-first+1, at[last]-at[first], at[first], l.Rate)
					return
				}
			}
		}
	}
}
