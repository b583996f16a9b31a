package diskstore

import (
	"errors"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/listing"
)

// errLost means that rows and counts do not match.
var errLost = errors.New("an entry of a lane is missing: the data is damaged; restore a backup")

// entryOf is the entry of an unfinished job.
func entryOf(rec *record) entry {
	return entry{at: rec.WakeAt(), id: rec.ID, state: pending(rec), place: rec.place, size: len(rec.spec)}
}

// pending is the state of an unfinished job without claiming.
func pending(rec *record) job.State {
	if rec.State == job.Running {
		return rec.Pending()
	}
	return rec.State
}

// family is where a record lies by its state.
func (r *record) family() byte {
	switch {
	case !r.State.Final():
		return famJob
	case r.State == job.Dead:
		return famDead
	case r.keepsEnd:
		return famKept
	}
	return famEnded
}

// rowTime is the time of the record in its family.
func (r *record) rowTime() job.Instant {
	if r.State.Final() {
		return r.EndedAt
	}
	return r.WakeAt()
}

// write writes a record where its state and times say, and the row of its key.
func (t *txn) write(rec *record) {
	family, at := rec.family(), rec.rowTime()
	if rec.place.family != family || rec.place.at != at {
		if rec.place.family != 0 {
			t.delete(rec.place.key())
		}
		t.s.meta.seq++
		rec.place = place{family, at, t.s.meta.seq}
	}
	t.set(rec.place.key(), rec.encode())
}

// put writes a record, and enters it into the bucket or list of its state. The caller has
// taken it out of the one before.
func (t *txn) put(rec *record) {
	t.write(rec)
	if rec.State.Final() {
		t.putEnded(rec)
		t.stopTurns(rec)
	} else {
		t.enterTurns(rec)
		t.putEntry(rec)
	}
	t.set(row(famKey, rec.Topic, rec.ID), keyRow(rec))
}

// putEntry enters an unfinished job into its bucket.
func (t *txn) putEntry(rec *record) {
	l, e := t.s.laneOf(rec.lane), entryOf(rec)
	section := byte(secDue)
	if rec.parked {
		section = secParked
	} else {
		l.offer(e)
	}
	t.set(bucketRow(l.name, section, e.at, e.id), e.row())
	t.countRow(l, e.state, rec.parked, 1)
	t.count(rec.Topic, l, e.state, 1)
	t.look(l)
}

// take takes a record out of its bucket or list. The caller then calls promote.
func (t *txn) take(rec *record) {
	t.turns().Leave(rec.order, &rec.Job)
	if rec.State.Final() {
		t.takeEnded(rec)
		return
	}
	t.takeEntry(rec)
}

// takeEntry takes an unfinished job out of its bucket, and out of flight.
func (t *txn) takeEntry(rec *record) {
	l, e := t.s.laneOf(rec.lane), entryOf(rec)
	flew := rec.flight != nil
	if flew {
		t.land(rec.flight)
		rec.flight = nil
	}
	section := byte(secDue)
	if rec.parked {
		section = secParked
	}
	t.delete(bucketRow(l.name, section, e.at, e.id))
	l.withdraw(e)
	t.countRow(l, e.state, rec.parked, -1)
	t.count(rec.Topic, l, e.state, -1)
	rec.parked = false
	t.look(l)
	if flew {
		t.placeFree(l)
	}
}

// putEnded enters an ended job into the list of its kind.
func (t *txn) putEnded(rec *record) {
	t.count(rec.Topic, nil, rec.State, 1)
	is := entry{state: rec.State, place: rec.place}.row()
	if rec.State == job.Dead {
		group := listing.DeadName(rec.lane, rec.Reason)
		t.set(timed(famLetter, group, rec.EndedAt, rec.ID), is)
		t.countDead(group, 1)
		return
	}
	t.set(timed(famTopic, rec.Topic, rec.EndedAt, rec.ID), is)
}

func (t *txn) takeEnded(rec *record) {
	t.count(rec.Topic, nil, rec.State, -1)
	if rec.State == job.Dead {
		group := listing.DeadName(rec.lane, rec.Reason)
		t.delete(timed(famLetter, group, rec.EndedAt, rec.ID))
		t.countDead(group, -1)
		return
	}
	t.delete(timed(famTopic, rec.Topic, rec.EndedAt, rec.ID))
}

// insert adds a new record.
func (t *txn) insert(rec *record) {
	t.index(rec)
	t.put(rec)
}

// forget removes a record, its place included, and all that names it.
func (t *txn) forget(rec *record) {
	order := rec.order
	t.take(rec)
	t.promote(order)
	t.delete(rec.place.key())
	t.forgetNames(rec)
}

// forgetNames deletes the rows that name a record.
func (t *txn) forgetNames(rec *record) {
	t.unindex(rec)
	t.delete(row(famKey, rec.Topic, rec.ID))
	if rec.countKeys > 0 {
		p := prefix(famCount, rec.UID)
		t.deleteRange(p, end(p))
	}
}

// index writes the rows by which a record is found.
func (t *txn) index(rec *record) {
	for _, key := range indexRows(rec) {
		t.set(key, nil)
	}
	t.set(row(famUID, rec.UID), []byte(rec.Key.String()))
}

func (t *txn) unindex(rec *record) {
	for _, key := range indexRows(rec) {
		t.delete(key)
	}
	t.delete(row(famUID, rec.UID))
}

// indexRows are the rows of a record's job.Indexes.
func indexRows(rec *record) (rows [][]byte) {
	if rec.bizKey != "" {
		rows = append(rows, row(famBiz, rec.bizKey, rec.Key.String()))
	}
	switch {
	case rec.grouped:
		rows = append(rows, row(famGroup, job.GroupIDOf(rec.ID), rec.Key.String()))
	case rec.byID:
		rows = append(rows, row(famGroup, job.IDIndex(rec.ID), rec.Key.String()))
	}
	return rows
}
