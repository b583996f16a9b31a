package memstore

import (
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/rules"
)

// clockSlack is how far the clock may go back and nothing is done about it: what it
// put off is late by no more than that.
const clockSlack = time.Second

// afterStep puts right what was stored while the clock was ahead: holds end, ramps
// begin now, what was carried or claimed ends within longest (zero: when it says),
// and lanes are looked at when they need it.
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
