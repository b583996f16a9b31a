package diskstore

import (
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/rules"
)

// clockSlack is how far the clock may go back without a correction. Jobs are late by at
// most that much.
const clockSlack = time.Second

// afterStep corrects what was stored while the clock was ahead: circuits half-open, ramps
// begin now, leases end within longest (zero: they stay), and each lane is
// visited when its first job is due.
func (t *txn) afterStep(longest time.Duration) {
	s := t.s
	s.wentBack = false
	for e := range s.notClosed {
		e.circuit = rules.CorrectedCircuit(e.circuit, t.now)
	}
	s.lanesOf("", func(l *lane) {
		if longest > 0 {
			t.endWithin(l, t.now.Add(longest))
		}
		t.call(l)
	})
}

// endWithin ends the leases of a lane at till at the latest.
func (t *txn) endWithin(l *lane, till job.Instant) {
	var far []*flight
	l.flights.Reverse(func(f *flight) bool {
		if f.until > till {
			far = append(far, f)
		}
		return f.until > till
	})
	for _, f := range far {
		t.extend(f, till)
	}
}
