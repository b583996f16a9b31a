package memstore

import (
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/rules"
)

// clockSlack is how far the clock may go back without a correction. Jobs are late by at
// most that much.
const clockSlack = time.Second

// afterStep corrects what was stored while the clock was ahead: circuits half-open, ramps
// begin now, deadlines and leases end within longest (zero: they stay), and each lane is
// visited when its first job is due.
func (s *Store) afterStep(now job.Instant, longest time.Duration) {
	s.wentBack = false
	for e := range s.notClosed {
		e.circuit = rules.CorrectedCircuit(e.circuit, now)
	}
	s.lanesOf("", func(l *lane) {
		if longest > 0 {
			s.endWithin(l, now.Add(longest))
		}
		s.call(l, now)
	})
}

// endWithin ends the deadlines and leases of a lane at till at the latest.
func (s *Store) endWithin(l *lane, till job.Instant) {
	var far []*record
	for n := l.inFlight - 1; n >= 0; n-- {
		e, _ := l.bucket.GetAt(n)
		if e.score.at() <= till {
			break
		}
		far = append(far, e.rec)
	}
	for _, rec := range far {
		s.rescore(rec, bucketScore(till, rec.score.code()))
	}
}
