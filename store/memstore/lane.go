package memstore

import (
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// lane is a lane with its bucket. It lives as long as it has a job.
type lane struct {
	job.Lane
	name     string
	endpoint *endpoint
	bucket   *index
	inFlight int // its jobs in flight; they come first in the bucket

	limited job.Instant // it was at a limit; no visit before then
	ticket  uint64      // its place among the lanes that wait for a free place of their topic; 0: it does not wait

	queued bool        // it is in the line
	wake   job.Instant // when it next needs a visit
	seq    uint64      // its place among lanes with the same wake
}

// byLook orders the line.
func byLook(a, b *lane) bool {
	if a.wake != b.wake {
		return a.wake < b.wake
	}
	return a.seq < b.seq
}

func (l *lane) add(rec *record) {
	l.bucket.Set(entry{rec.score, rec})
	l.countInFlight(rec, 1)
}

func (l *lane) take(rec *record) {
	l.bucket.Delete(entry{rec.score, rec})
	l.countInFlight(rec, -1)
}

func (l *lane) countInFlight(rec *record, n int) {
	state := rec.score.code()
	l.endpoint.jobs[state] += int64(n)
	if isInFlight(state) {
		l.inFlight += n
		l.endpoint.inFlight += n
	}
}

// firstInFlight is the job in flight whose deadline or lease ends first; nil without one.
func (l *lane) firstInFlight() *record {
	if l.inFlight == 0 {
		return nil
	}
	e, _ := l.bucket.GetAt(0)
	return e.rec
}

// firstWaiting is the waiting job that is due first; nil without one.
func (l *lane) firstWaiting() *record {
	e, _ := l.bucket.GetAt(l.inFlight)
	return e.rec
}

// head is when the bucket next needs attention; waiting jobs do not before limited.
func (l *lane) head(limited job.Instant) job.Instant {
	first, waiting := l.firstInFlight(), l.firstWaiting()
	switch {
	case first == nil:
		return max(waiting.score.at(), limited)
	case waiting == nil:
		return first.score.at()
	}
	return min(first.score.at(), max(waiting.score.at(), limited))
}

// endpoint is the state that the lanes of one endpoint share. It lives as long as it has a
// lane, or its circuit is not closed.
type endpoint struct {
	name     string
	lanes    map[*lane]struct{}
	inFlight int                  // jobs in flight
	jobs     [job.Delivered]int64 // entries of its lanes by state
	circuit  store.Circuit        // as last changed; see circuitAt
}

// circuitAt is the endpoint's circuit at now.
func (e *endpoint) circuitAt(now job.Instant) store.Circuit { return rules.CircuitAt(e.circuit, now) }

// laneOf returns the lane, and makes it if necessary.
func (s *Store) laneOf(name job.Lane) *lane {
	str := name.String()
	if l, ok := s.lanes.Get(str); ok {
		return l
	}
	e := s.endpointOf(name.Endpoint)
	name = job.Lane{Topic: strings.Clone(name.Topic), Endpoint: e.name, Priority: name.Priority, Ordered: name.Ordered}
	l := &lane{Lane: name, name: str, endpoint: e, bucket: newIndex()}
	e.lanes[l] = struct{}{}
	s.lanes.Set(str, l)
	s.rank(l)
	return l
}

func (s *Store) endpointOf(name string) *endpoint {
	e, ok := s.endpoints.Get(name)
	if !ok {
		e = &endpoint{name: strings.Clone(name), lanes: map[*lane]struct{}{}}
		s.endpoints.Set(e.name, e)
	}
	return e
}

// forgetIdle deletes the endpoint if nothing needs it, and otherwise a circuit that has
// closed.
func (s *Store) forgetIdle(e *endpoint, now job.Instant) {
	if e.circuitAt(now) != (store.Circuit{}) {
		return
	}
	delete(s.notClosed, e)
	e.circuit = store.Circuit{} // the clock may go back
	if len(e.lanes) == 0 {
		s.endpoints.Delete(e.name)
	}
}

// look corrects the place of a lane in the line after a change of its bucket or endpoint,
// and deletes an empty lane. A lane that is due already keeps its place, so that new jobs
// do not push it ahead.
func (s *Store) look(l *lane, now job.Instant) {
	if l.bucket.Len() == 0 {
		s.dropLane(l, now)
		return
	}
	at := max(l.head(l.limited), l.endpoint.circuit.OpenUntil)
	if l.queued && (at == l.wake || at <= now && l.wake <= now) {
		return
	}
	s.queue(l, at)
}

// queue puts a lane into the line, behind those with the same wake.
func (s *Store) queue(l *lane, at job.Instant) {
	if head, ok := s.line.Min(); !ok || at < head.wake {
		s.earlier = true
	}
	s.unqueue(l)
	s.seq++
	l.queued, l.wake, l.seq = true, at, s.seq
	s.line.Set(l)
}

func (s *Store) unqueue(l *lane) {
	if l.queued {
		s.line.Delete(l)
		l.queued = false
	}
}

func (s *Store) dropLane(l *lane, now job.Instant) {
	s.unqueue(l)
	s.stopWaiting(l)
	s.lanes.Delete(l.name)
	s.unrank(l)
	delete(l.endpoint.lanes, l)
	s.forgetIdle(l.endpoint, now)
}
