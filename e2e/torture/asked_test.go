package torture

import (
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
)

// A due time later than the answer asked for needs a fault that kept the answer from the store.
func TestAskedFor(t *testing.T) {
	arrived := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p := receiver.Delivery{Arrived: arrived, Answered: arrived.Add(100 * time.Millisecond)}
	cut := func(from, to time.Duration) []rig.Cut {
		return []rig.Cut{{From: arrived.Add(from), To: arrived.Add(to)}}
	}
	for name, c := range map[string]struct {
		due  time.Duration // after the arrival
		cuts []rig.Cut
		// stops are those of nodes.
		stops []rig.Cut
		want  bool
	}{
		"as asked":                  {rescheduleAfter, nil, nil, true},
		"later":                     {rescheduleAfter + time.Second, nil, nil, false},
		"earlier, with a fault":     {rescheduleAfter - time.Second, cut(0, 5*time.Second), nil, false},
		"later, with a fault":       {rescheduleAfter + time.Second, cut(0, 5*time.Second), nil, true},
		"the fault was over":        {rescheduleAfter + time.Second, cut(-time.Second, 0), nil, false},
		"the fault came too late":   {rescheduleAfter + time.Second, cut(rescheduleAfter, 5*time.Second), nil, false},
		"later, in a stop":          {rescheduleAfter + time.Second, nil, cut(rescheduleAfter, 5*time.Second), true},
		"earlier, in a stop":        {rescheduleAfter - time.Second, nil, cut(0, 5*time.Second), false},
		"the stop was over":         {rescheduleAfter + time.Second, nil, cut(0, rescheduleAfter), false},
		"the fault began meanwhile": {rescheduleAfter + time.Second, cut(time.Second, 4*time.Second), nil, true},
	} {
		if got := askedFor(p, arrived.Add(c.due), c.cuts, c.stops); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
