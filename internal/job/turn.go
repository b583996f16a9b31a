package job

import (
	"cmp"
	"strings"
)

// Turn is the place of an unfinished job among those of its order key. Turns differ: the
// uid does.
type Turn struct {
	Stage   Stage
	Due     Instant // when the client wants it; no earlier than Created
	Created Instant
	UID     string
}

// Stage is how far a job has come in its turn.
type Stage uint8

// The stages of a turn.
const (
	Claimed Stage = iota // it was claimed: no other job may take its turn
	Started              // it has had attempts
	Fresh                // it has not been sent
)

// Turn returns the turn of an unfinished job. The job with the least turn of its order key
// is the head: it is the only one that may be delivered. A job that was sent keeps its
// turn until it has ended; others go by due time, and then by registration.
func (j *Job) Turn() Turn {
	t := Turn{Stage: Fresh, Due: max(j.DueAt, j.CreatedAt), Created: j.CreatedAt, UID: j.UID}
	switch {
	case j.State == Running:
		t.Stage = Claimed
	case j.Attempts > 0 || j.Snoozes > 0 || j.ExpiredLeases > 0:
		t.Stage = Started
	}
	return t
}

// Compare returns a negative number if t goes before o.
func (t Turn) Compare(o Turn) int {
	return cmp.Or(
		cmp.Compare(t.Stage, o.Stage), cmp.Compare(t.Due, o.Due), cmp.Compare(t.Created, o.Created), strings.Compare(t.UID, o.UID),
	)
}
