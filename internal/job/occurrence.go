package job

import "time"

// OccurrenceKind says what made a job of a recurring schedule.
type OccurrenceKind string

// The kinds.
const (
	ByTimetable OccurrenceKind = "timetable"
	ByMisfire   OccurrenceKind = "misfire" // late, or in the place of late ones
	ByHand      OccurrenceKind = "manual"
)

// Occurrence is what made a job: a time of a recurring schedule.
type Occurrence struct {
	Schedule string
	Time     Instant // of the timetable; for a manual run: of the call
	Kind     OccurrenceKind
}

// Is reports whether both are the same time of the timetable of a schedule.
func (o *Occurrence) Is(p *Occurrence) bool {
	byTimetable := func(o *Occurrence) bool { return o != nil && (o.Kind == ByTimetable || o.Kind == ByMisfire) }
	return byTimetable(o) && byTimetable(p) && o.Schedule == p.Schedule && o.Time == p.Time
}

// KeepOccurrence is how long at least a job of a schedule is kept after its end. It
// shows that the occurrence was registered, to a node that cannot know. That node's call
// is bounded by a much shorter time. A counted job is kept as long, to answer clients
// that repeat a count, and a job of a dialect to recognize a duplicate.
const KeepOccurrence = 10 * time.Minute

// KeepsEnd reports whether the job is kept for KeepOccurrence after its end.
func (s *Spec) KeepsEnd() bool { return s.Occurrence != nil || s.Count != nil || s.Dialect != nil }

// MustKeep reports whether the job ended so recently that no store may forget it,
// whatever its retention.
func (j *Job) MustKeep(now Instant) bool {
	return j.Spec.KeepsEnd() && now < j.EndedAt.Add(KeepOccurrence)
}
