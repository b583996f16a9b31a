package v1

import (
	"time"

	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/schedule"
)

// writeSchedule writes what one schedule and a list of them have in common.
func writeSchedule(w *jsonio.Writer, s *schedules.Schedule) {
	r, t := s.Rules, s.Rules.Table
	w.Text("name", s.Name)
	w.Text("state", string(s.State))
	w.Number("version", int64(jobjson.VersionOf(s.UID, s.Version)))
	w.Instant("created_at", s.CreatedAt)
	w.Instant("updated_at", s.UpdatedAt)
	w.TextOrNull("cron", t.Cron)
	jsonio.Nullable(w, "every", orNull(&t.Every), w.Duration)
	if t.HasEvery {
		w.Moment("anchor", t.Anchor)
	} else {
		w.Null("anchor")
	}
	w.Text("timezone", t.Zone)
	writeDST(w, t)
	w.Moment("start_at", t.Start)
	w.Moment("end_at", t.End)
	w.NumberOrNull("max_occurrences", r.Max)
	jsonio.Nullable(w, "remaining", s.Remaining, w.Number)
	w.Duration("jitter", s.Def.Jitter)
	jsonio.Part(w, "misfire", &r.Misfire, writeMisfire)
	w.Text("overlap", string(r.Overlap))
	if len(s.Def.Except) > 0 {
		writeExcept(w, s.Def.Except)
	} else {
		w.Null("except")
	}
	writePause(w, "paused", s.Pause)
	w.Text("tzdata", schedule.TZData())
	w.In("job", func() { writeTemplate(w, s) })
	jsonio.Part(w, "last", s.Last, func(w *jsonio.Writer, l *schedules.Last) {
		w.Instant("time", l.Time)
		w.Text("local", t.Local(l.Time.Time()))
		w.Instant("due_at", l.DueAt)
		w.Text("outcome", string(l.Outcome))
		w.TextOrNull("reason", l.Reason)
		w.TextOrNull("topic", l.Key.Topic)
		w.TextOrNull("id", l.Key.ID)
		w.TextOrNull("uid", l.UID)
	})
	jsonio.Part(w, "counters", &s.Counters, func(w *jsonio.Writer, c *schedules.Counters) {
		w.Number("fired", c.Fired)
		w.Number("missed", c.Missed)
		w.Number("skipped", c.Skipped)
		w.Number("failed", c.Failed)
		w.Number("manual", c.Manual)
	})
	jsonio.Part(w, "last_error", s.LastError, func(w *jsonio.Writer, e *schedules.LastError) {
		w.Instant("at", e.At)
		w.Text("reason", e.Reason)
		w.Text("message", e.Message)
	})
}

// writePastRun writes a run; what is of its last attempt is null without one.
func writePastRun(w *jsonio.Writer, r *schedules.Run) {
	w.Instant("time", r.Time)
	w.Text("kind", string(r.Kind))
	w.Text("topic", r.Topic)
	w.Text("id", r.ID)
	w.Text("uid", r.UID)
	w.Text("outcome", r.State.String())
	w.TextOrNull("reason", r.Reason)
	w.Integer("attempts", r.Attempts)
	w.NumberOrNull("status", int64(r.Status))
	w.TextOrNull("error", r.Error)
	w.Instant("started_at", r.Started)
	if r.Started == 0 {
		w.Null("duration_ms")
	} else {
		w.Number("duration_ms", r.Duration.Milliseconds())
	}
	w.Instant("ended_at", r.Ended)
}

// writeShown writes one schedule.
func writeShown(w *jsonio.Writer, s *schedules.Schedule) {
	writeSchedule(w, s)
	writeOccurrences(w, "next", s.Rules, s.Next(shownOccurrences))
}

// writeListed writes a schedule of a list.
func writeListed(w *jsonio.Writer, s *schedules.Schedule) {
	writeSchedule(w, s)
	var next time.Time
	if list := s.Next(1); len(list) > 0 {
		next = list[0].Time
	}
	w.Moment("next_at", next)
}

func writeDST(w *jsonio.Writer, t *schedule.Timetable) {
	if t.HasEvery {
		w.Null("dst")
		return
	}
	w.In("dst", func() {
		w.Text("gap", string(t.Gap))
		w.Text("repeat", string(t.Repeat))
	})
}

func writeExcept(w *jsonio.Writer, dates []schedule.Dates) {
	w.In("except", func() { w.Member("dates", dates) })
}

func writeMisfire(w *jsonio.Writer, m *schedule.Misfire) {
	w.Text("policy", string(m.Policy))
	w.Duration("grace", m.Grace)
}

// writeTemplate writes the job of a schedule, without what may be secret.
func writeTemplate(w *jsonio.Writer, s *schedules.Schedule) {
	d := &s.Def.Job
	spec := job.Spec{Destination: job.PullQueue}
	if d.Destination != nil {
		spec.Destination = *d.Destination
	}
	if d.Method != nil {
		spec.Method = *d.Method
	}
	w.Text("topic", s.Def.Topic())
	if d.Group == nil {
		jobjson.WriteDestination(w, &spec)
	} else {
		w.Null("url")
		w.Text("method", spec.HTTPMethod())
		w.Text("group", *d.Group)
		jsonio.IfGiven("filter_label", d.FilterLabel, w.Text)
	}
	jsonio.IfGiven("biz_key", d.BizKey, w.Text)
	jsonio.IfGiven("order_key", d.OrderKey, w.Text)
	if len(d.Labels) > 0 {
		w.Member("labels", d.Labels)
	}
	jsonio.IfGiven("priority", d.Priority, w.Integer)
}

func writeOccurrences(w *jsonio.Writer, name string, r *schedule.Rules, all []schedule.Occurrence) {
	jsonio.List(w, name, all, func(w *jsonio.Writer, o *schedule.Occurrence) {
		w.Moment("time", o.Time)
		w.Text("local", o.Time.Format(schedule.LocalLayout))
		w.Moment("due_at", schedule.Due(r.Name, o.Time, r.Jitter))
		w.TextOrNull("effect", string(o.Effect))
		w.TextOrNull("wanted", o.Wanted)
		if r.Skipped(o.Time) {
			w.Boolean("skipped", true)
		}
	})
}

// writeTimetable writes the answer to a preview.
func writeTimetable(w *jsonio.Writer, t *schedules.Timetable) {
	w.Text("timezone", t.Rules.Table.Zone)
	writeDST(w, t.Rules.Table)
	w.Text("tzdata", schedule.TZData())
	writeOccurrences(w, "data", t.Rules, t.Occurrences)
	if t.More {
		w.Moment("next_cursor", t.Occurrences[len(t.Occurrences)-1].Time)
	} else {
		w.Null("next_cursor")
	}
	jsonio.List(w, "omitted", t.Omitted, func(w *jsonio.Writer, o *schedule.Omitted) {
		w.Text("local", o.Local)
		w.Text("reason", string(o.Reason))
	})
}

// writeDefinition writes a schedule in the form in which it is set.
func writeDefinition(w *jsonio.Writer, d *schedules.Definition) {
	if d.Cron != "" {
		w.Text("cron", d.Cron)
	} else {
		w.Duration("every", d.Every)
	}
	w.MomentIfAny("anchor", d.Anchor)
	w.TextIfAny("timezone", d.Zone)
	if d.Gap != "" || d.Repeat != "" {
		w.In("dst", func() {
			w.TextIfAny("gap", string(d.Gap))
			w.TextIfAny("repeat", string(d.Repeat))
		})
	}
	w.MomentIfAny("start_at", d.Start)
	w.MomentIfAny("end_at", d.End)
	if d.Max > 0 {
		w.Number("max_occurrences", d.Max)
	}
	w.Duration("jitter", d.Jitter)
	jsonio.Part(w, "misfire", &d.Misfire, writeMisfire)
	w.Text("overlap", string(d.Overlap))
	if len(d.Except) > 0 {
		writeExcept(w, d.Except)
	}
	jsonio.Part(w, "job", &d.Job, writeRegistration)
}
