package v1

import (
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/scheduler/schedules"
)

// writeSchedule writes what one schedule and a list of them have in common.
func writeSchedule(w *writer, s *schedules.Schedule) {
	r, t := s.Rules, s.Rules.Table
	w.text("name", s.Name)
	w.text("state", string(s.State))
	w.number("version", int64(versionOf(s.UID, s.Version)))
	w.instant("created_at", s.CreatedAt)
	w.instant("updated_at", s.UpdatedAt)
	w.textOrNull("cron", t.Cron)
	nullable(w, "every", orNull(&t.Every), w.duration)
	if t.HasEvery {
		w.moment("anchor", t.Anchor)
	} else {
		w.null("anchor")
	}
	w.text("timezone", t.Zone)
	writeDST(w, t)
	w.moment("start_at", t.Start)
	w.moment("end_at", t.End)
	w.numberOrNull("max_occurrences", r.Max)
	nullable(w, "remaining", s.Remaining, w.number)
	w.duration("jitter", s.Def.Jitter)
	part(w, "misfire", &r.Misfire, writeMisfire)
	w.text("overlap", string(r.Overlap))
	var paused *job.Pause
	if s.PausedAt != 0 {
		paused = &job.Pause{Since: s.PausedAt}
		if s.Note != nil {
			paused.Note = *s.Note
		}
	}
	writePause(w, "paused", paused)
	w.text("tzdata", schedule.TZData)
	w.in("job", func() { writeTemplate(w, s) })
	part(w, "last", s.Last, func(w *writer, l *schedules.Last) {
		w.instant("time", l.Time)
		w.text("local", t.Local(l.Time.Time()))
		w.instant("due_at", l.DueAt)
		w.text("outcome", string(l.Outcome))
		w.textOrNull("reason", l.Reason)
		w.textOrNull("topic", l.Key.Topic)
		w.textOrNull("id", l.Key.ID)
		w.textOrNull("uid", l.UID)
	})
	part(w, "counters", &s.Counters, func(w *writer, c *schedules.Counters) {
		w.number("fired", c.Fired)
		w.number("missed", c.Missed)
		w.number("skipped", c.Skipped)
		w.number("failed", c.Failed)
		w.number("manual", c.Manual)
		w.number("backfilled", c.Backfilled)
	})
	part(w, "last_error", s.LastError, func(w *writer, e *schedules.LastError) {
		w.instant("at", e.At)
		w.text("reason", e.Reason)
		w.url("message", e.Message)
	})
}

// writeShown writes one schedule.
func writeShown(w *writer, s *schedules.Schedule) {
	writeSchedule(w, s)
	writeOccurrences(w, "next", s.Rules, s.Next(shownOccurrences))
}

// writeListed writes a schedule of a list.
func writeListed(w *writer, s *schedules.Schedule) {
	writeSchedule(w, s)
	var next time.Time
	if list := s.Next(1); len(list) > 0 {
		next = list[0].Time
	}
	w.moment("next_at", next)
}

func writeDST(w *writer, t *schedule.Timetable) {
	if t.HasEvery {
		w.null("dst")
		return
	}
	w.in("dst", func() {
		w.text("gap", string(t.Gap))
		w.text("repeat", string(t.Repeat))
	})
}

func writeMisfire(w *writer, m *schedule.Misfire) {
	w.text("policy", string(m.Policy))
	w.duration("grace", m.Grace)
	w.duration("window", m.Window)
	w.integer("limit", m.Limit)
}

// writeTemplate writes the job of a schedule, without what may be secret.
func writeTemplate(w *writer, s *schedules.Schedule) {
	d := &s.Def.Job
	url, spec := "", job.Spec{}
	if d.Destination != nil {
		url = string(*d.Destination)
	}
	if d.Method != nil {
		spec.Method = *d.Method
	}
	w.text("topic", s.Def.Topic())
	w.url("url", url)
	w.text("method", spec.HTTPMethod())
	ifGiven("biz_key", d.BizKey, w.text)
	ifGiven("order_key", d.OrderKey, w.text)
	if len(d.Labels) > 0 {
		w.member("labels", d.Labels)
	}
	ifGiven("priority", d.Priority, w.integer)
}

func writeOccurrences(w *writer, name string, r *schedule.Rules, all []schedule.Occurrence) {
	list(w, name, all, func(w *writer, o *schedule.Occurrence) {
		w.moment("time", o.Time)
		w.text("local", o.Time.Format(schedule.LocalLayout))
		w.moment("due_at", schedule.Due(r.Name, o.Time, r.Jitter))
		w.textOrNull("effect", string(o.Effect))
		w.textOrNull("wanted", o.Wanted)
	})
}

// writeTimetable writes the answer to a preview.
func writeTimetable(w *writer, t *schedules.Timetable) {
	w.text("timezone", t.Rules.Table.Zone)
	writeDST(w, t.Rules.Table)
	w.text("tzdata", schedule.TZData)
	writeOccurrences(w, "data", t.Rules, t.Occurrences)
	if t.More {
		w.moment("next_cursor", t.Occurrences[len(t.Occurrences)-1].Time)
	} else {
		w.null("next_cursor")
	}
	list(w, "omitted", t.Omitted, func(w *writer, o *schedule.Omitted) {
		w.text("local", o.Local)
		w.text("reason", string(o.Reason))
	})
}

// writeDefinition writes a schedule in the form in which it is set.
func writeDefinition(w *writer, d *schedules.Definition) {
	if d.Cron != "" {
		w.text("cron", d.Cron)
	} else {
		w.duration("every", d.Every)
	}
	w.momentIfAny("anchor", d.Anchor)
	w.textIfAny("timezone", d.Zone)
	if d.Gap != "" || d.Repeat != "" {
		w.in("dst", func() {
			w.textIfAny("gap", string(d.Gap))
			w.textIfAny("repeat", string(d.Repeat))
		})
	}
	w.momentIfAny("start_at", d.Start)
	w.momentIfAny("end_at", d.End)
	if d.Max > 0 {
		w.number("max_occurrences", d.Max)
	}
	w.duration("jitter", d.Jitter)
	part(w, "misfire", &d.Misfire, writeMisfire)
	w.text("overlap", string(d.Overlap))
	part(w, "job", &d.Job, writeRegistration)
}

// momentIfAny writes a time, and leaves out none.
func (w *writer) momentIfAny(name string, t time.Time) {
	if !t.IsZero() {
		w.moment(name, t)
	}
}
