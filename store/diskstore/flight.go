package diskstore

import (
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// flight is a job in flight. Its entry stays in the bucket, so that the job is due again
// after a restart.
type flight struct {
	key   job.Key
	lane  *lane
	entry entry
	until job.Instant // the end of the lease

	// claimed: a claim is not settled yet. The fields behind it are the claim's; the record
	// has those from before.
	claimed       bool
	claim         claim
	token         uint64
	version       uint64
	updated       job.Instant
	expiredLeases int

	record *record // as stored; nil if it is not held in memory
}

// maxHeld bounds the records that flights hold, in bytes of their rows.
const maxHeld = 16 << 20

// hold holds the record of a claimed job, so that settling need not read it.
func (t *txn) hold(f *flight, rec *record) {
	t.unhold(f)
	if rec.row > store.SmallRecord || t.s.held+rec.row > maxHeld {
		return
	}
	held := *rec
	held.log = slices.Clip(held.log)
	f.record = &held
	t.s.held += rec.row
}

// unhold forgets the record that a flight holds.
func (t *txn) unhold(f *flight) {
	if f.record != nil {
		t.s.held -= f.record.row
		f.record = nil
	}
}

// claim is what a claim noted.
type claim struct {
	at    job.Instant
	from  job.State
	prior job.Instant // the time of the claim before, if from is Running
	by    string
}

// byUntil orders the jobs in flight of a lane.
func byUntil(a, b *flight) bool {
	if a.until != b.until {
		return a.until < b.until
	}
	return a.key.ID < b.key.ID
}

// launch puts the job of an entry into flight.
func (t *txn) launch(l *lane, e entry, until job.Instant) *flight {
	f := &flight{key: job.Key{Topic: l.Topic, ID: e.id}, lane: l, entry: e, until: until}
	l.withdraw(e)
	t.s.flights[f.key] = f
	l.flights.Set(f)
	l.endpoint.inFlight++
	t.count(l.Topic, l, e.state, -1)
	t.count(l.Topic, l, job.Running, 1)
	return f
}

// land takes a job out of flight.
func (t *txn) land(f *flight) {
	if f.claimed {
		t.delete(f.claimRow())
	}
	t.unhold(f)
	delete(t.s.flights, f.key)
	f.lane.flights.Delete(f)
	f.lane.endpoint.inFlight--
	t.count(f.lane.Topic, f.lane, job.Running, -1)
	t.count(f.lane.Topic, f.lane, f.entry.state, 1)
}

// extend gives a flight another end.
func (t *txn) extend(f *flight, until job.Instant) {
	t.changed = true
	f.lane.flights.Delete(f)
	f.until = until
	f.lane.flights.Set(f)
}

// remember has the flight know what is not in the row of a claimed job.
func (f *flight) remember(rec *record) {
	f.token, f.version, f.updated, f.expiredLeases = rec.Token, rec.Version, rec.UpdatedAt, rec.ExpiredLeases
}

// writeClaim writes the claim of a flight, so that a restart knows of it.
func (t *txn) writeClaim(f *flight) {
	var w writer
	w.text(f.claim.by)
	w.int(int64(f.claim.at))
	w.uint(uint64(f.claim.from))
	w.uint(f.token)
	w.uint(f.version)
	w.int(int64(f.updated))
	w.int(int64(f.expiredLeases))
	t.set(f.claimRow(), w.b)
}

// claimRow is the key of the claim. Jobs that are claimed together lie together.
func (f *flight) claimRow() []byte {
	return f.entry.place.append(append(make([]byte, 0, 1+placeSize), famClaim))
}

// readClaim reads what writeClaim wrote.
func (f *flight) readClaim(b []byte) error {
	in := reader{b: b}
	f.claimed = true
	f.claim = claim{by: in.text(), at: job.Instant(in.int()), from: job.State(in.uint())}
	f.token, f.version, f.updated, f.expiredLeases = in.uint(), in.uint(), job.Instant(in.int()), int(in.int())
	return in.err
}

// InFlight counts the jobs in flight, without those that consumers have.
func (s *Store) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.flights)
	if e, ok := s.endpoints.Get(string(job.PullQueue)); !ok || e.inFlight == 0 {
		return n
	}
	for _, f := range s.flights {
		if f.withConsumer() {
			n--
		}
	}
	return n
}

// withConsumer reports whether a consumer has the job. A claim of a lease that has ended settles it.
func (f *flight) withConsumer() bool {
	return f.lane.Pulled() && f.claimed && f.claim.from != job.Running
}
