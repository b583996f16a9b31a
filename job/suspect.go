package job

import (
	"errors"
	"time"
)

// A job whose lease expires several times in a row without an outcome is a suspect: it
// may be what brings its workers down. A node dies of other reasons, too, with all that
// it was sending, so a suspect is not given up for that. It is sent again alone: after
// a quarantine that grows, one at a time by each node. A lapse is counted from there on
// only for a suspect that was being sent, and is written down before it is. So what
// uses up MaxLapses is the job's own doing, or that of a node that dies for hours
// whenever the job's turn comes.
const (
	// SuspectAfter is how many leases in a row expire before a job is a suspect. It is
	// many: up to there a job is due again at once, however often its workers die.
	SuspectAfter = 20
	MaxLapses    = 27 // leases in a row that expire before it is given up
)

// ErrTaken says that a claimed job must not be sent: it was cancelled or claimed again
// meanwhile.
var ErrTaken = errors.New("the job is not to be sent under this claim")

// quarantines are how long a suspect waits after a lapse, the first ones after
// SuspectAfter of them. Their sum is the least time until a job is given up.
var quarantines = [MaxLapses - SuspectAfter]time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour,
}

// Suspect reports whether the job goes alone.
func (j *Job) Suspect() bool { return j.Lapses >= SuspectAfter }

// quarantine is how long a suspect waits that has just lapsed.
func (j *Job) quarantine() time.Duration {
	return quarantines[min(j.Lapses-SuspectAfter, len(quarantines)-1)]
}

// LapsesAfter is how many lapses a job has that had so many when its lease expired
// without an outcome. Those of a suspect are counted by ChargeLapse.
func LapsesAfter(lapses int) int {
	if lapses < SuspectAfter {
		return lapses + 1
	}
	return lapses
}

// ChargeLapse counts the lapse of a suspect that is about to be sent under a token, in
// case its worker is not heard of again. Any outcome takes it back.
func (j *Job) ChargeLapse(token uint64) error {
	if j.State != Running || j.Token != token || j.CancelRequested {
		return ErrTaken
	}
	j.Lapses++
	return nil
}

// Lapse puts a job back whose worker is gone with its store, so that no claim from an
// expired lease is going to tell.
func (j *Job) Lapse(now Instant) {
	j.State = j.Pending()
	j.Lapses = LapsesAfter(j.Lapses)
	if j.Suspect() && j.Lapses < MaxLapses {
		j.NextAt = now.Add(j.quarantine())
	}
}
