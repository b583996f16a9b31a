package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// ScheduleDraft is a schedule to put. Exactly one of Cron and Every is required.
type ScheduleDraft struct {
	Cron           string       `json:"cron,omitempty"`
	Every          Duration     `json:"every,omitzero"`
	Anchor         time.Time    `json:"anchor,omitzero"`
	Timezone       string       `json:"timezone,omitempty"`
	DST            *DST         `json:"dst,omitempty"`
	StartAt        time.Time    `json:"start_at,omitzero"`
	EndAt          time.Time    `json:"end_at,omitzero"`
	MaxOccurrences int64        `json:"max_occurrences,omitempty"`
	Jitter         Duration     `json:"jitter,omitzero"`
	Misfire        *Misfire     `json:"misfire,omitempty"`
	Overlap        string       `json:"overlap,omitempty"`
	Except         *Except      `json:"except,omitempty"`
	Paused         *bool        `json:"paused,omitempty"`
	Note           string       `json:"note,omitempty"`
	Job            Registration `json:"job,omitzero"`
}

// Except is on which dates nothing occurs: a date such as 2026-12-25, or a range such as
// 2026-12-24/2027-01-02.
type Except struct {
	Dates []string `json:"dates,omitempty"`
}

// DST is what becomes of local times that the clock leaps over or shows twice.
type DST struct {
	Gap    string `json:"gap,omitempty"`
	Repeat string `json:"repeat,omitempty"`
}

// Misfire is what becomes of late occurrences.
type Misfire struct {
	Policy string   `json:"policy,omitempty"`
	Grace  Duration `json:"grace,omitzero"`
}

// Schedule is a stored schedule.
type Schedule struct {
	Name           string           `json:"name"`
	State          string           `json:"state"` // active, paused or completed
	Version        uint64           `json:"version"`
	CreatedAt      time.Time        `json:"created_at"`
	UpdatedAt      time.Time        `json:"updated_at"`
	Cron           string           `json:"cron"`
	Every          Duration         `json:"every"`
	Anchor         time.Time        `json:"anchor"`
	Timezone       string           `json:"timezone"`
	DST            *DST             `json:"dst"`
	StartAt        time.Time        `json:"start_at"`
	EndAt          time.Time        `json:"end_at"`
	MaxOccurrences *int64           `json:"max_occurrences"`
	Remaining      *int64           `json:"remaining"`
	Jitter         Duration         `json:"jitter"`
	Misfire        Misfire          `json:"misfire"`
	Overlap        string           `json:"overlap"`
	Except         *Except          `json:"except"`
	Paused         *Pause           `json:"paused"`
	TZData         string           `json:"tzdata"`
	Job            Registration     `json:"job"` // without headers and body
	Last           *LastOccurrence  `json:"last"`
	Counters       map[string]int64 `json:"counters"`
	LastError      *ScheduleError   `json:"last_error"`
	Next           []Occurrence     `json:"next"`    // not in lists
	NextAt         time.Time        `json:"next_at"` // in lists
}

// LastOccurrence is the last decided occurrence.
type LastOccurrence struct {
	Time    time.Time `json:"time"`
	Local   string    `json:"local"`
	DueAt   time.Time `json:"due_at"`
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason"`
	Topic   string    `json:"topic"`
	ID      string    `json:"id"`
	UID     string    `json:"uid"`
}

// ScheduleError is why occurrences stay undecided.
type ScheduleError struct {
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// Occurrence is a time of a schedule.
type Occurrence struct {
	Time   time.Time `json:"time"`
	Local  string    `json:"local"`
	DueAt  time.Time `json:"due_at"`
	Effect string    `json:"effect"`
	Wanted string    `json:"wanted"`
	// Skipped: a call skipped it.
	Skipped bool `json:"skipped,omitempty"`
}

// ScheduleQuery is a list of schedules.
type ScheduleQuery struct {
	State    []string `query:"state"`
	Topic    string   `query:"topic"`
	Endpoint string   `query:"endpoint"`
	Paging
}

// Schedules lists schedules by name.
func (c *Client) Schedules(ctx context.Context, q ScheduleQuery) iter.Seq2[Schedule, error] {
	return all[Schedule](ctx, c, q, "v1", "schedules")
}

// Schedule returns a schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	return do[Schedule](ctx, c, read("v1", "schedules", name))
}

// PutSchedule creates or replaces a schedule.
func (c *Client) PutSchedule(ctx context.Context, name string, d ScheduleDraft, options ...CallOption) (Schedule, error) {
	return do[Schedule](ctx, c, newCall(http.MethodPut, true, path("v1", "schedules", name), d, options))
}

// PatchSchedule changes some fields of a schedule.
func (c *Client) PatchSchedule(ctx context.Context, name string, p Patch, options ...CallOption) (Schedule, error) {
	return do[Schedule](ctx, c, newCall(http.MethodPatch, true, path("v1", "schedules", name), p, options))
}

// DeleteSchedule deletes a schedule.
func (c *Client) DeleteSchedule(ctx context.Context, name string, options ...CallOption) (Deleted, error) {
	return do[Deleted](ctx, c, newCall(http.MethodDelete, true, path("v1", "schedules", name), nil, options))
}

// ScheduleRegistration returns the schedule in the form that PutSchedule takes, with the headers
// and the body of its job.
func (c *Client) ScheduleRegistration(ctx context.Context, name string) (ScheduleDraft, error) {
	return do[ScheduleDraft](ctx, c, read("v1", "schedules", name, "registration"))
}

// Timetable is a page of the occurrences of a schedule.
type Timetable struct {
	Timezone string    `json:"timezone"`
	DST      *DST      `json:"dst"`
	TZData   string    `json:"tzdata"`
	Omitted  []Omitted `json:"omitted"`
	Page[Occurrence]
}

// Run is a job of a schedule that has ended. It is known longer than the job.
type Run struct {
	Time       time.Time `json:"time"` // of the timetable; for a manual run: of the call
	Kind       string    `json:"kind"`
	Topic      string    `json:"topic"`
	ID         string    `json:"id"`
	UID        string    `json:"uid"`
	Outcome    State     `json:"outcome"`
	Reason     string    `json:"reason"`
	Attempts   int       `json:"attempts"`
	Status     int       `json:"status"` // of the last attempt, zero without an answer
	Error      string    `json:"error"`
	StartedAt  time.Time `json:"started_at"` // the last attempt, zero without one
	DurationMS int64     `json:"duration_ms"`
	EndedAt    time.Time `json:"ended_at"`
}

// Runs lists the jobs of a schedule that ended last, at most 100, the last one first.
func (c *Client) Runs(ctx context.Context, name string) iter.Seq2[Run, error] {
	return all[Run](ctx, c, Paging{}, "v1", "schedules", name, "runs")
}

// OccurrenceQuery selects occurrences of a stored schedule.
type OccurrenceQuery struct {
	From time.Time `query:"from"` // now if zero
	Paging
}

// Occurrences returns a page of the occurrences of a stored schedule.
func (c *Client) Occurrences(ctx context.Context, name string, q OccurrenceQuery) (Timetable, error) {
	k := read("v1", "schedules", name, "occurrences")
	encode(k.query, q)
	return do[Timetable](ctx, c, k)
}

// Omitted is a local time, or a date, that yields no occurrence.
type Omitted struct {
	Local  string `json:"local"`
	Reason string `json:"reason"`
}

// Preview is a schedule to preview.
type Preview struct {
	ScheduleDraft
	Schedule string    `json:"schedule,omitempty"` // the name, which decides the jitter
	From     time.Time `json:"from,omitzero"`      // now if zero
	Limit    int       `json:"limit,omitempty"`    // the most occurrences on a page
	Cursor   string    `json:"cursor,omitempty"`
}

// PreviewSchedule computes the occurrences of a schedule that is not stored.
func (c *Client) PreviewSchedule(ctx context.Context, p Preview) (Timetable, error) {
	return do[Timetable](ctx, c, newCall(http.MethodPost, true, "/v1/schedules/preview", p, nil))
}

// PauseSchedule pauses a schedule.
func (c *Client) PauseSchedule(ctx context.Context, name string, p PauseOptions, options ...CallOption) (Schedule, error) {
	return do[Schedule](ctx, c, newCall(http.MethodPost, true, path("v1", "schedules", name, "pause"), p, options))
}

// ResumeSchedule continues with the next occurrence.
func (c *Client) ResumeSchedule(ctx context.Context, name string, options ...CallOption) (Schedule, error) {
	return do[Schedule](ctx, c, newCall(http.MethodPost, true, path("v1", "schedules", name, "resume"), nil, options))
}

// skip is an occurrence to skip.
type skip struct {
	Time time.Time `json:"time,omitzero"`
}

// SkipOccurrence skips an occurrence: the next one if the time is zero. A repeated call with a
// time changes nothing.
func (c *Client) SkipOccurrence(ctx context.Context, name string, at time.Time, options ...CallOption) (Schedule, error) {
	return do[Schedule](ctx, c, newCall(http.MethodPost, !at.IsZero(), path("v1", "schedules", name, "skip"), skip{at}, options))
}

// UnskipOccurrence takes SkipOccurrence back: for all occurrences to come if the time is zero.
func (c *Client) UnskipOccurrence(ctx context.Context, name string, at time.Time, options ...CallOption) (Schedule, error) {
	return do[Schedule](ctx, c, newCall(http.MethodPost, true, path("v1", "schedules", name, "unskip"), skip{at}, options))
}

// ScheduleRun is the job that a run of a schedule registered. If the schedule names a group, these are
// Jobs, one for each member, and the other fields of RegisteredJob are zero.
type ScheduleRun struct {
	RegisteredJob
	Group   string          `json:"group"`
	GroupID string          `json:"group_id"`
	Jobs    []RegisteredJob `json:"jobs"`
}

// RunSchedule registers the job of a schedule now, or one for each member of its group.
func (c *Client) RunSchedule(ctx context.Context, name string, options ...CallOption) (ScheduleRun, error) {
	options = append([]CallOption{WithIdempotencyKey(newID())}, options...)
	return do[ScheduleRun](ctx, c, newCall(http.MethodPost, true, path("v1", "schedules", name, "run"), nil, options))
}

// PreviewOf is the preview of the first n occurrences of a schedule from now on.
func PreviewOf(d ScheduleDraft, n int) Preview {
	return Preview{ScheduleDraft: d, Limit: n}
}
