package rules

import "github.com/duehook/duehook/internal/job"

// Hold returns until when no waiting job of the topic may go, whatever its lane, given the topic's jobs in flight in a
// store of one shard; zero: some may go. The topic is called if one of its jobs that is no longer in flight ends the hold.
func (t *Topic) Hold(now job.Instant, inFlight int) (until job.Instant, called bool) {
	switch {
	case t.PausedAt(now) && t.PausedUntil != 0:
		return min(now.Add(UncalledLook), t.PausedUntil), false
	case t.PausedAt(now):
		return now.Add(UncalledLook), false
	case t.Concurrency > 0 && inFlight >= t.Concurrency:
		return now.Add(UncalledLook), true
	case t.Rate > 0:
		if p := PaceOf(t.Rate, 1, t.Next); p.Allowed(now) == 0 {
			return p.Look(0, now), false
		}
	}
	return 0, false
}
