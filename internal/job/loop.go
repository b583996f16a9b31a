package job

import (
	"errors"
	"slices"
	"time"
)

// Loop is the part of a Spec of a job that its receiver armed again.
type Loop struct {
	// First is the uid of the job before it was armed again for the first time.
	First string
	// Rounds counts the rounds that were delivered before.
	Rounds int
	// Wait is the time from the registration of the round until it is due.
	Wait time.Duration
	// NewBody reports whether a receiver replaced the body.
	NewBody bool
	// Reported are the ids of the callbacks of the last rounds, the oldest first.
	Reported []string
}

// RoundCallbacks bounds the callbacks of the rounds of a loop that wait, or keep their content.
const RoundCallbacks = 5

// DefaultMaxRounds is the usual Bounds.MaxRounds.
const DefaultMaxRounds = 100_000

// ErrMaxRounds says that a loop has reached Bounds.MaxRounds.
var ErrMaxRounds = errors.New("the job has reached its limit of rounds")

// ErrAgainBody says that the job does not permit a new body; see Spec.AgainBody.
var ErrAgainBody = errors.New("the registration does not permit a new body")

// Again returns the content of the next round of a job, which is due after wait. A nil body
// keeps the job's own. Errors: ErrMaxRounds, ErrAgainBody, or one that wraps ErrBodyTooLarge.
func (j *Job) Again(wait time.Duration, body *Body, l Bounds) (Spec, error) {
	s, loop := j.Spec, Loop{First: j.UID}
	if s.Loop != nil {
		loop = *s.Loop
	}
	if loop.Rounds++; loop.Rounds > l.MaxRounds {
		return Spec{}, ErrMaxRounds
	}
	if body != nil && !s.AgainBody {
		return Spec{}, ErrAgainBody
	}
	if body != nil {
		var f Findings
		f.body(&Draft{Body: body}, &s, l)
		if err := f.Err(); err != nil {
			return Spec{}, err
		}
		if body.Form == BodyNone {
			s.ContentType = ""
		}
		loop.NewBody = true
	}
	if s.Callbacks.On(CallbackDelivered) != nil {
		loop.Reported = append(slices.Clone(loop.Reported), j.CallbackID(CallbackDelivered, 0))
		loop.Reported = loop.Reported[max(0, len(loop.Reported)-RoundCallbacks):]
	}
	loop.Wait = wait
	s.Loop = &loop
	s.Callbacks = s.Callbacks.unplayed()
	return s, nil
}

// Due returns when a job with this content and key is due if it is registered now.
func (s *Spec) Due(key Key, now Instant) Instant {
	if s.Loop != nil {
		return now.Add(s.Loop.Wait)
	}
	return s.When.Due(key, now)
}

// First is the uid under which the job was registered. Each round has a uid of its own.
func (j *Job) First() string {
	if j.Spec.Loop != nil {
		return j.Spec.Loop.First
	}
	return j.UID
}

// Rounds is the number of rounds that were delivered before.
func (s *Spec) Rounds() int {
	if s.Loop == nil {
		return 0
	}
	return s.Loop.Rounds
}

// newBody reports whether a receiver replaced the body.
func (s *Spec) newBody() bool { return s.Loop != nil && s.Loop.NewBody }
