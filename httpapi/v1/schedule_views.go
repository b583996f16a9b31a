package v1

import (
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/scheduler/schedules"
)

// scheduleView is a schedule as the API shows it.
type scheduleView struct {
	Schedule       string          `json:"schedule"`
	State          schedules.State `json:"state"`
	Version        uint64          `json:"version"`
	CreatedAt      instant         `json:"created_at"`
	UpdatedAt      instant         `json:"updated_at"`
	Cron           *string         `json:"cron"`
	Every          *string         `json:"every"`
	Anchor         *moment         `json:"anchor"`
	Timezone       string          `json:"timezone"`
	DST            *dstView        `json:"dst"`
	StartAt        *moment         `json:"start_at"`
	EndAt          *moment         `json:"end_at"`
	MaxOccurrences *int64          `json:"max_occurrences"`
	Remaining      *int64          `json:"remaining"`
	Jitter         string          `json:"jitter"`
	Misfire        misfireView     `json:"misfire"`
	Overlap        string          `json:"overlap"`
	PausedAt       instant         `json:"paused_at"`
	Note           *string         `json:"note"`
	TZData         string          `json:"tzdata"`
	Job            templateView    `json:"job"`
	Last           *lastView       `json:"last"`
	Counters       countersView    `json:"counters"`
	LastError      *lastErrorView  `json:"last_error"`
}

type shownScheduleView struct {
	scheduleView
	Next []occurrenceView `json:"next"`
}

type listedScheduleView struct {
	scheduleView
	NextAt *moment `json:"next_at"`
}

type dstView struct {
	Gap    string `json:"gap"`
	Repeat string `json:"repeat"`
}

type misfireView struct {
	Policy string `json:"policy"`
	Grace  string `json:"grace"`
	Window string `json:"window"`
	Limit  int    `json:"limit"`
}

// templateView is the job of a schedule, without what may be secret.
type templateView struct {
	Topic    string            `json:"topic"`
	URL      string            `json:"url"`
	Method   string            `json:"method"`
	BizKey   *string           `json:"biz_key,omitempty"`
	OrderKey *string           `json:"order_key,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Priority *int              `json:"priority,omitempty"`
}

type lastView struct {
	Time    instant `json:"time"`
	Local   string  `json:"local"`
	DueAt   instant `json:"due_at"`
	Outcome string  `json:"outcome"`
	Reason  *string `json:"reason"`
	Topic   *string `json:"topic"`
	ID      *string `json:"id"`
	UID     *string `json:"uid"`
}

type countersView struct {
	Fired      int64 `json:"fired"`
	Missed     int64 `json:"missed"`
	Skipped    int64 `json:"skipped"`
	Failed     int64 `json:"failed"`
	Manual     int64 `json:"manual"`
	Backfilled int64 `json:"backfilled"`
}

type lastErrorView struct {
	At      instant `json:"at"`
	Reason  string  `json:"reason"`
	Message string  `json:"message"`
}

type occurrenceView struct {
	Time   moment  `json:"time"`
	Local  string  `json:"local"`
	DueAt  moment  `json:"due_at"`
	Effect *string `json:"effect"`
	Wanted *string `json:"wanted"`
}

type omittedView struct {
	Local  string `json:"local"`
	Reason string `json:"reason"`
}

// timetableView is the answer to a preview.
type timetableView struct {
	Timezone    string           `json:"timezone"`
	DST         *dstView         `json:"dst"`
	TZData      string           `json:"tzdata"`
	Occurrences []occurrenceView `json:"occurrences"`
	Omitted     []omittedView    `json:"omitted"`
}

// moment is a time of a timetable in JSON. The beginning of 1970 is one, too.
type moment time.Time

func (m moment) MarshalJSON() ([]byte, error) {
	return time.Time(m).UTC().AppendFormat(nil, `"`+job.TimeFormat+`"`), nil
}

func momentOf(t time.Time) *moment {
	if t.IsZero() {
		return nil
	}
	return (*moment)(&t)
}

func viewDST(t *schedule.Timetable) *dstView {
	if t.HasEvery {
		return nil
	}
	return &dstView{string(t.Gap), string(t.Repeat)}
}

func scheduleViewOf(s *schedules.Schedule) scheduleView {
	r, t := s.Rules, s.Rules.Table
	v := scheduleView{
		Schedule: s.Name, State: s.State, Version: s.Version, CreatedAt: instant(s.CreatedAt), UpdatedAt: instant(s.UpdatedAt),
		Cron: orNull(&t.Cron), Every: formatted(orNull(&t.Every)), Timezone: t.Zone, DST: viewDST(t),
		StartAt: momentOf(t.Start), EndAt: momentOf(t.End), MaxOccurrences: orNull(&r.Max), Remaining: s.Remaining,
		Jitter: job.FormatDuration(s.Jitter()), Overlap: string(r.Overlap), PausedAt: instant(s.PausedAt), Note: s.Note, TZData: schedule.TZData,
		Misfire:  viewMisfire(&r.Misfire),
		Job:      viewTemplate(s),
		Counters: countersView(s.Counters),
	}
	if t.HasEvery {
		v.Anchor = momentOf(t.Anchor)
	}
	if l := s.Last; l != nil {
		v.Last = &lastView{
			Time: instant(l.Time), Local: t.Local(l.Time.Time()), DueAt: instant(l.DueAt), Outcome: string(l.Outcome), Reason: orNull(&l.Reason),
			Topic: orNull(&l.Key.Topic), ID: orNull(&l.Key.ID), UID: orNull(&l.UID),
		}
	}
	if e := s.LastError; e != nil {
		v.LastError = &lastErrorView{instant(e.At), e.Reason, e.Message}
	}
	return v
}

func viewMisfire(m *schedule.Misfire) misfireView {
	return misfireView{string(m.Policy), job.FormatDuration(m.Grace), job.FormatDuration(m.Window), m.Limit}
}

func viewTemplate(s *schedules.Schedule) templateView {
	d := s.Job
	v := templateView{Topic: s.Topic(), Method: "POST", BizKey: d.BizKey, OrderKey: d.OrderKey, Labels: d.Labels, Priority: d.Priority}
	if d.Destination != nil {
		v.URL = string(*d.Destination)
	}
	if d.Method != nil {
		v.Method = *d.Method
	}
	return v
}

func viewSchedule(s *schedules.Schedule) shownScheduleView {
	return shownScheduleView{scheduleViewOf(s), viewOccurrences(s.Rules, s.Next(shownOccurrences))}
}

func viewListed(s *schedules.Schedule) listedScheduleView {
	v := listedScheduleView{scheduleView: scheduleViewOf(s)}
	if next := s.Next(1); len(next) > 0 {
		v.NextAt = momentOf(next[0].Time)
	}
	return v
}

func viewOccurrences(r *schedule.Rules, list []schedule.Occurrence) []occurrenceView {
	views := make([]occurrenceView, len(list))
	for i, o := range list {
		views[i] = occurrenceView{
			Time: moment(o.Time), Local: o.Time.Format(schedule.LocalLayout), Wanted: orNull(&o.Wanted),
			DueAt: moment(schedule.Due(r.Name, o.Time, r.Jitter)),
		}
		if effect := string(o.Effect); effect != "" {
			views[i].Effect = &effect
		}
	}
	return views
}

func viewTimetable(r *schedule.Rules, from time.Time, count int) timetableView {
	if count == 0 {
		count = defaultOccurrences
	}
	p := r.Table.Preview(from, count)
	v := timetableView{
		Timezone: r.Table.Zone, DST: viewDST(r.Table), TZData: schedule.TZData,
		Occurrences: viewOccurrences(r, p.Occurrences), Omitted: make([]omittedView, len(p.Omitted)),
	}
	for i, o := range p.Omitted {
		v.Omitted[i] = omittedView{o.Local, string(o.Reason)}
	}
	return v
}

// scheduleRegistrationView is a schedule in the form in which it is set.
type scheduleRegistrationView struct{ *schedules.Definition }

func (v scheduleRegistrationView) members(w *writer) {
	if v.Cron != "" {
		w.text("cron", v.Cron)
	} else {
		w.text("every", job.FormatDuration(v.Every))
	}
	w.time("anchor", v.Anchor)
	w.given("timezone", orNull(&v.Zone))
	if v.Gap != "" || v.Repeat != "" {
		w.member("dst", struct {
			Gap    schedule.Gap    `json:"gap,omitempty"`
			Repeat schedule.Repeat `json:"repeat,omitempty"`
		}{v.Gap, v.Repeat})
	}
	w.time("start_at", v.Start)
	w.time("end_at", v.End)
	if v.Max > 0 {
		w.member("max_occurrences", v.Max)
	}
	w.text("jitter", job.FormatDuration(v.Jitter))
	w.member("misfire", viewMisfire(&v.Misfire))
	w.text("overlap", string(v.Overlap))
	w.name("job")
	w.object(registrationView{&v.Job})
}

func (w *writer) time(name string, t time.Time) {
	if !t.IsZero() {
		w.member(name, moment(t))
	}
}
