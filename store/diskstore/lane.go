package diskstore

import (
	"cmp"
	"encoding/binary"
	"math"
	"strings"

	"github.com/tidwall/btree"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// lane is a lane with its bucket. It lives as long as it has a job. The entries of its
// bucket are rows; flights has those in flight.
type lane struct {
	job.Lane
	name     string
	endpoint *endpoint
	rows     [2]int64 // entries, by the state without claiming; jobs in flight have one, too
	parked   int64    // entries of jobs that wait for another one of their order key
	flights  *btree.BTreeG[*flight]

	// Entries before next are in flight or deleted, and a search would pass them one by one.
	next  entry
	known bool // next may go

	limited job.Instant // it was at a limit; no visit before then
	ticket  uint64      // its place among the lanes that wait for a free place of their topic; 0: it does not wait
	line    lines       // in which it waits

	queued bool        // it is in the line
	wake   job.Instant // when it next needs a visit
	seq    uint64      // its place among lanes with the same wake
}

// entry is an entry of a bucket: when the job needs attention, and its record.
type entry struct {
	at    job.Instant
	id    string
	state job.State // without claiming
	place place
	size  int // of its encoded content
}

func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(e.at, o.at), strings.Compare(e.id, o.id))
}

// byLook orders the line.
func byLook(a, b *lane) bool {
	if a.wake != b.wake {
		return a.wake < b.wake
	}
	return a.seq < b.seq
}

// held is how many jobs the lane has.
func (l *lane) held() int64 { return l.rows[job.Waiting] + l.rows[job.Retrying] }

// free is how many entries are neither in flight nor parked.
func (l *lane) free() int { return int(l.held()-l.parked) - l.flights.Len() }

// offer notes an entry that may go, which free does not count yet.
func (l *lane) offer(e entry) {
	if l.free() == 0 || e.compare(l.next) <= 0 {
		l.next, l.known = e, true
	}
}

// withdraw notes that an entry may not go any more.
func (l *lane) withdraw(e entry) { l.known = l.known && e.compare(l.next) != 0 }

// first is the entry that may go first. It may read entries.
func (l *lane) first(t *txn) (entry, bool) {
	if l.free() == 0 {
		return entry{}, false
	}
	if !l.known {
		l.scan(t, func(entry) bool { return false })
	}
	return l.next, l.known
}

// due are the first n entries that are due. The caller puts them into flight.
func (l *lane) due(t *txn, n int) []entry {
	e, ok := l.first(t)
	if !ok || e.at > t.now || n <= 0 {
		return nil
	}
	free := l.free()
	if free == 1 {
		return []entry{e}
	}
	var all []entry // n may be far more than are due
	l.scan(t, func(e entry) bool {
		if e.at > t.now || len(all) == n {
			return false
		}
		all = append(all, e)
		return len(all) < free
	})
	return all
}

// scan visits the entries that may go until visit returns false; then next is the last one.
func (l *lane) scan(t *txn, visit func(e entry) bool) {
	pre, found := bucketPrefix(l.name, secDue), false
	t.scan(bucketRow(l.name, secDue, l.next.at, l.next.id), end(pre), func(key, value []byte) bool {
		e := parseEntry(key, value, len(pre))
		if _, flies := t.s.flights[job.Key{Topic: l.Topic, ID: e.id}]; flies {
			return true
		}
		l.next, l.known, found = e, true, !visit(e)
		return !found
	})
	if !found {
		t.note(errLost)
	}
}

// parseEntry reads an entry whose key has a prefix of n bytes.
func parseEntry(key, value []byte, n int) entry {
	at, id := cutTimed(key, n)
	size, _ := binary.Uvarint(value[1+placeSize:])
	return entry{at: at, id: id, state: job.State(value[0]), place: parsePlace(value[1:]), size: int(size)}
}

// head is when the bucket next needs attention; waiting jobs do not before limited,
// nor those of a pull queue.
func (l *lane) head(t *txn, limited job.Instant) job.Instant {
	at := parkedAt
	if f, ok := l.flights.Min(); ok {
		at = f.until
	}
	if l.Pulled() {
		return at
	}
	if e, ok := l.first(t); ok {
		at = min(at, max(e.at, limited))
	}
	return at
}

// parkedAt lies beyond all times: a lane whose jobs all wait for others needs no visit.
const parkedAt = job.Instant(4_000_000_000_000)

// endpoint is the state that the lanes of one endpoint share. It lives as long as it has a
// lane, or its circuit is not closed.
type endpoint struct {
	name     string
	lanes    btree.Map[string, *lane] // by name
	inFlight int                      // jobs in flight
	jobs     [job.Delivered]int64     // unfinished jobs by state
	circuit  store.Circuit            // as last changed; see circuitAt
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
	l := &lane{
		Lane: name, name: str, endpoint: e,
		flights: btree.NewBTreeGOptions(byUntil, btree.Options{NoLocks: true, Degree: 16}),
		next:    entry{at: math.MinInt64},
	}
	e.lanes.Set(str, l)
	s.lanes.Set(str, l)
	s.rank(l)
	return l
}

func (s *Store) endpointOf(name string) *endpoint {
	e, ok := s.endpoints.Get(name)
	if !ok {
		e = &endpoint{name: strings.Clone(name)}
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
	if e.lanes.Len() == 0 {
		s.endpoints.Delete(e.name)
	}
}

// look corrects the place of a lane in the line after a change of its bucket or endpoint.
// A lane that is due already keeps its place, so that new jobs do not push it ahead. The
// call forgets an empty lane when it ends.
func (t *txn) look(l *lane) {
	if l.held() == 0 {
		t.s.unqueue(l)
		t.s.stopWaiting(l)
		return
	}
	if l.Pulled() {
		if e, ok := l.first(t); ok {
			t.s.tellConsumers(l.Topic, max(e.at, l.limited))
		}
	}
	at := max(l.head(t, l.limited), l.endpoint.circuit.OpenUntil)
	if l.queued && (at == l.wake || at <= t.now && l.wake <= t.now) {
		return
	}
	t.s.queue(l, at)
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
	l.endpoint.lanes.Delete(l.name)
	s.forgetIdle(l.endpoint, now)
}

// lanesOf visits the lanes of a topic by name, or all when the topic is empty.
func (s *Store) lanesOf(topic string, visit func(*lane)) {
	prefix := prefixOf(topic)
	s.lanes.Ascend(prefix, func(name string, l *lane) bool {
		if !strings.HasPrefix(name, prefix) {
			return false
		}
		visit(l)
		return true
	})
}

// prefixOf is the prefix of the names of a topic's lanes; empty for all topics.
func prefixOf(topic string) string {
	if topic == "" {
		return ""
	}
	return job.LanePrefix(topic)
}

// entryRow is the row of an entry.
func (e entry) row() []byte {
	return binary.AppendUvarint(e.place.append(append(make([]byte, 0, placeSize+4), byte(e.state))), uint64(e.size))
}
