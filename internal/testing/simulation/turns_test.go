package simulation

import "github.com/duehook/duehook/internal/job"

// checkTurn: no other job of the claimed job's order key is in flight, or was claimed before
// and has not ended, or has an earlier turn.
func (a *auditor) checkTurn(m *model, c *claim) {
	if m.Spec.OrderKey == "" {
		return
	}
	turn := m.Turn()
	for _, o := range a.keys {
		if o == m || o.Topic != m.Topic || o.Spec.OrderKey != m.Spec.OrderKey || o.State.Final() {
			continue
		}
		a.h.counts["others of the order key at a claim"]++
		other := o.Turn()
		switch {
		case o.held:
			a.wrong(m.Key, "claimed while %s of the same order key is in flight", o.Key)
		case turn.Stage == job.Fresh && other.Stage != job.Fresh:
			a.wrong(m.Key, "claimed before %s of the same order key, which was sent before", o.Key)
		case turn.Stage == job.Fresh && m.claim == nil && other.Due < turn.Due && o.CreatedAt < c.Now:
			a.wrong(m.Key, "claimed before %s of the same order key, which is due %v earlier", o.Key, turn.Due.Sub(other.Due))
		}
	}
}

// waitsForTurn reports whether another unfinished job of the job's order key goes first. Then
// the job is neither sent nor expired: that one may be overdue, and is checked itself.
func (a *auditor) waitsForTurn(m *model) bool {
	if m.Spec.OrderKey == "" || m.held {
		return false
	}
	for _, o := range a.keys {
		if o != m && o.Topic == m.Topic && o.Spec.OrderKey == m.Spec.OrderKey && !o.State.Final() && o.Turn().Compare(m.Turn()) < 0 {
			return true
		}
	}
	return false
}
