package diskstore

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Purge deletes ended jobs whose retention has passed, and circuits that have closed.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	purged := 0
	err := s.change(ctx, false, func(t *txn) {
		for e := range s.notClosed {
			s.forgetIdle(e, t.now)
		}
		purged = t.purge(famEnded, s.retention, limit)
		purged += t.purge(famKept, max(s.retention, job.KeepOccurrence), limit-purged)
	})
	if err != nil {
		return 0, err
	}
	return purged, nil
}

// purge deletes up to limit records of a family that ended longer ago than retention. They
// lie together, so that one row deletes their records.
func (t *txn) purge(family byte, retention time.Duration, limit int) int {
	if limit <= 0 {
		return 0
	}
	var old []*record
	before := place{family: family, at: t.now.Add(-retention)}.key()
	t.scan([]byte{family}, before, func(key, value []byte) bool {
		rec, err := decodeRecord(append([]byte(nil), value...))
		if err != nil {
			t.note(err)
			return false
		}
		rec.place = parsePlace(key)
		old = append(old, rec)
		return len(old) < limit
	})
	if len(old) == 0 || t.err != nil {
		return 0
	}
	for _, rec := range old {
		t.takeEnded(rec)
		t.forgetNames(rec)
	}
	t.deleteRange(old[0].place.key(), past(old[len(old)-1].place.key()))
	return len(old)
}
