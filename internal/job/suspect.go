package job

import (
	"errors"
	"time"
)

// A job whose lease expires several times in a row without an outcome is a suspect: it
// may crash its workers. Nodes die for other reasons, too, with all jobs in flight, so a
// suspect is not given up yet. It is sent again alone, one at a time by each node, after
// a growing quarantine. From then on an expired lease counts only for a suspect that was
// being sent; it is recorded before the request. So a job reaches MaxExpiredLeases only if it
// crashes its workers itself, or if nodes die for hours whenever it is sent.
const (
	// SuspectAfter is the number of leases in a row that expire before a job is a
	// suspect. Until then, a job is due again at once after its worker died.
	SuspectAfter     = 20
	MaxExpiredLeases = 27 // leases in a row that expire before it is given up
)

// ErrTaken reports that a claimed job must not be sent: it was cancelled or claimed
// again.
var ErrTaken = errors.New("this claim must not send the job")

// quarantines are the waits of a suspect after an expired lease, from the one after
// SuspectAfter on. Their sum is the least time until a job is given up.
var quarantines = [MaxExpiredLeases - SuspectAfter]time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour,
}

// Suspect reports whether the job is sent alone.
func (j *Job) Suspect() bool { return j.ExpiredLeases >= SuspectAfter }

// quarantine is the wait of a suspect whose lease has just expired.
func (j *Job) quarantine() time.Duration {
	return quarantines[min(j.ExpiredLeases-SuspectAfter, len(quarantines)-1)]
}

// ExpiredLeasesAfter returns the count of expired leases after another one without an
// outcome. ChargeExpiredLease counts those of a suspect.
func ExpiredLeasesAfter(n int) int {
	if n < SuspectAfter {
		return n + 1
	}
	return n
}

// ChargeExpiredLease counts an expired lease of a suspect before it is sent under a token, in
// case its worker dies. Any outcome undoes it.
func (j *Job) ChargeExpiredLease(token uint64) error {
	if j.State != Running || j.Token != token || j.CancelRequested {
		return ErrTaken
	}
	j.ExpiredLeases++
	return nil
}
