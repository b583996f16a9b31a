package schedule

import (
	"time"

	"github.com/duehook/duehook/internal/job"
)

// maxOmitted bounds the omitted local times of a Preview.
const maxOmitted = 100

// Omitted is a local time that yields no occurrence.
type Omitted struct {
	Local  string // with an offset if the clock shows it; the date of an excepted day
	Reason Reason
}

// Preview is a part of a timetable.
type Preview struct {
	Occurrences []Occurrence
	Omitted     []Omitted // up to the last of the occurrences, 100 at most
}

// Preview returns the first count occurrences at or after from.
func (t *Timetable) Preview(from time.Time, count int) Preview {
	var p Preview
	var open []Omitted // since the last occurrence
	for at := range t.points(from.Add(-1), lastInstant) {
		if at.omitted != "" {
			if len(p.Omitted)+len(open) < maxOmitted {
				open = append(open, t.omission(at))
			}
			continue
		}
		p.Occurrences, p.Omitted, open = append(p.Occurrences, t.occurrence(at)), append(p.Omitted, open...), nil
		if len(p.Occurrences) == count {
			break
		}
	}
	return p
}

func (t *Timetable) omission(p point) Omitted {
	o := Omitted{Reason: p.omitted}
	switch local := time.Unix(p.local, 0).UTC(); p.omitted {
	case Excepted:
		o.Local = local.Format(time.DateOnly)
	case Repeated:
		o.Local = t.Local(time.Unix(p.at, 0))
	case InGap, Merged:
		o.Local = local.Format(wantedLayout)
	}
	return o
}

// Local is a time by the clock of the timetable's zone, with a numeric offset.
func (t *Timetable) Local(at time.Time) string { return at.In(t.loc).Format(LocalLayout) }

// LocalLayout writes a local time with a numeric offset.
const LocalLayout = "2006-01-02T15:04:05-07:00"

// IDLayout writes the time of an occurrence in the id of its job.
const IDLayout = "20060102T150405Z"

// ID is the id of the job of an occurrence.
func ID(schedule string, at time.Time) string {
	return schedule + "@" + at.UTC().Format(IDLayout)
}

// Due is when the job of an occurrence is due: after it by the share of jitter that
// its id decides.
func Due(schedule string, at time.Time, jitter time.Duration) time.Time {
	return at.Add(job.Share(ID(schedule, at), jitter))
}
