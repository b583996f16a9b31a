package job

import (
	"errors"
	"fmt"
)

// Limits of counts.
const (
	MaxTarget    = 1_000_000_000 // of a job
	MaxAdd       = 1_000_000     // of one call
	MaxCountKeys = 10_000        // keys that a job remembers
	MaxCountKey  = 128           // characters of a key
	// MaxCount is where a count stops. Every store can write it exactly.
	MaxCount = 1_000_000_000_000_000
)

// AtDeadline is what becomes of a job whose due time comes before its target count.
type AtDeadline string

// The effects of the deadline; DeadlineFires is the default.
const (
	DeadlineFires   AtDeadline = "fire"
	DeadlineExpires AtDeadline = "expire" // no attempt is made
)

// Count makes a job due at a count or at its due time, whichever comes first.
type Count struct {
	Target     int64
	AtDeadline AtDeadline
}

// CountDraft is a Count as a client asks for it. A nil field was not given.
type CountDraft struct {
	Target     *int64
	AtDeadline *string
}

// draft is what asks for the count; nil for none.
func (c *Count) draft() *CountDraft {
	if c == nil {
		return nil
	}
	return &CountDraft{Target: &c.Target, AtDeadline: new(string(c.AtDeadline))}
}

// count validates the terms of a count; nil without any.
func (f *Findings) count(d *CountDraft) *Count {
	if d == nil {
		return nil
	}
	c := Count{AtDeadline: DeadlineFires}
	switch {
	case d.Target == nil:
		f.Add("count.target", "is required")
	case *d.Target < 1 || *d.Target > MaxTarget:
		f.Add("count.target", fmt.Sprintf("must be from 1 to %d", MaxTarget))
	default:
		c.Target = *d.Target
	}
	if d.AtDeadline != nil {
		c.AtDeadline = AtDeadline(*d.AtDeadline)
	}
	if c.AtDeadline != DeadlineFires && c.AtDeadline != DeadlineExpires {
		f.Add("count.at_deadline", `must be "fire" or "expire"`)
	}
	return &c
}

// Add is one call that adds to the count of a job.
type Add struct {
	N   int64
	Key string // a repeated key counts once; empty: each call counts
}

// AddDraft is an Add as a client asks for it. A nil field was not given.
type AddDraft struct {
	N   *int64
	Key *string
}

// Add validates the draft; without a number it adds one. The error is a
// *ValidationError.
func (d *AddDraft) Add() (Add, error) {
	var f Findings
	a := Add{N: 1}
	if d.N != nil {
		a.N = *d.N
	}
	if a.N < 1 || a.N > MaxAdd {
		f.Add("add", fmt.Sprintf("must be from 1 to %d", MaxAdd))
	}
	if d.Key != nil {
		a.Key = *d.Key
		f.Check("key", CheckText(a.Key, 1, MaxCountKey))
	}
	return a, f.Err()
}

// Errors of counts.
var (
	ErrNotCounted = errors.New("the job has no count")
	ErrCountKeys  = errors.New("the job has reached its limit of count keys")
)

// Added is the result of an Add.
type Added struct {
	Count    int64 // after it
	Fired    bool  // the job is due, or was; see HasFired
	Repeated bool  // the key was counted before
	Late     bool  // the job has ended; nothing was added
	Err      error // ErrCountKeys: nothing was added
}

// CountFacts are the facts of a store about a counted job.
type CountFacts struct {
	Now   Instant
	Keys  int                   // keys counted so far
	Known func(key string) bool // whether a key was counted
}

// Tally is what adds make of the count of a job.
type Tally struct {
	Added []Added  // in the order of the adds
	Keys  []string // that are new
	Count int64
	Fired bool
	// Due: the job is due now, because its count has reached the target.
	Due bool
}

// Changes reports whether there is anything to store.
func (t *Tally) Changes(j *Job) bool { return t.Count != j.Counted || t.Fired != j.Fired }

// Tally counts adds, one after the other. It does not change j. Errors:
// ErrNotCounted; ErrFinished, if the job ended without having fired; ErrInFlight, if a
// worker is about to end the job that has not fired.
func (j *Job) Tally(adds []Add, is CountFacts) (Tally, error) {
	terms, had := j.Spec.Count, j.HasFired(is.Now)
	switch {
	case terms == nil:
		return Tally{}, ErrNotCounted
	case j.State.Final() && !had:
		return Tally{}, ErrFinished
	case j.State == Running && !had:
		return Tally{}, ErrInFlight
	}
	t := Tally{Added: make([]Added, len(adds)), Count: j.Counted, Fired: j.Fired}
	seen := map[string]bool{}
	for i, a := range adds {
		r := &t.Added[i]
		switch {
		case a.Key != "" && (seen[a.Key] || is.Known(a.Key)):
			r.Repeated = true
		case j.State.Final():
			r.Late = true
		case a.Key != "" && is.Keys+len(t.Keys) >= MaxCountKeys:
			r.Err = ErrCountKeys
		default:
			t.Count = min(t.Count+a.N, MaxCount)
			if a.Key != "" {
				seen[a.Key] = true
				t.Keys = append(t.Keys, a.Key)
			}
		}
		t.Fired = t.Fired || t.Count >= terms.Target
		r.Count, r.Fired = t.Count, had || t.Fired
	}
	t.Due = t.Fired && !had && j.State == Waiting
	return t, nil
}

// Apply changes the job as the tally says.
func (t *Tally) Apply(j *Job, now Instant) {
	j.Counted, j.Fired = t.Count, t.Fired
	if t.Due {
		j.NextAt = min(j.NextAt, now)
	}
}

// HasFired reports whether the job has become due: by its count, by its deadline, or
// because a client ran or replayed it.
func (j *Job) HasFired(now Instant) bool {
	if j.Fired || j.Attempts > 0 {
		return true
	}
	if j.State.Final() {
		now = min(now, j.EndedAt)
	}
	return j.expiresAtDeadline() == nil && j.DueAt <= now
}

// ShowsFired is HasFired as far as the state of the job shows it.
func (j *Job) ShowsFired() bool {
	if j.State == Waiting {
		return j.Fired
	}
	return j.HasFired(max(j.DueAt, j.EndedAt))
}

// fire notes that a counted job is due, whatever its count.
func (j *Job) fire() {
	if j.Spec.Count != nil {
		j.Fired = true
	}
}

// Recount makes a job due whose count has reached new terms.
func (j *Job) Recount(now Instant) {
	if c := j.Spec.Count; c != nil && j.Counted >= c.Target && !j.HasFired(now) {
		j.Fired, j.NextAt = true, min(j.NextAt, now)
	}
}

// FiresAtDeadline reports whether a counted job is sent at its deadline, whatever its
// count.
func (s *Spec) FiresAtDeadline() bool { return s.Count.AtDeadline == DeadlineFires }

// expiresAtDeadline is the outcome of a job that is due before its count has reached
// the target, if it must not be sent then; otherwise nil.
func (j *Job) expiresAtDeadline() *Outcome {
	if j.Spec.Count == nil || j.Spec.FiresAtDeadline() || j.Fired || j.Attempts > 0 {
		return nil
	}
	return &Outcome{Kind: OutcomeExpired, Reason: ReasonCountMissed}
}
