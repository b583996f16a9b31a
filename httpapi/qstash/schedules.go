package qstash

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
)

// createSchedule makes or replaces a schedule.
func (a *api) createSchedule(c *httpapi.Call) error {
	body, err := c.ReadBody(int64(a.App.Bounds().MaxBody))
	if err != nil {
		return err
	}
	defer httpapi.Release(body)
	destination, h := split(c.Request, 1)
	for _, name := range []string{"Upstash-Not-Before", "Upstash-Delay", "Upstash-Deduplication-Id"} {
		if h.Get(name) != "" {
			return refused("%s is not possible for a schedule here", name)
		}
	}
	take := func(name string) string {
		value := h.Get(name)
		h.Del(name)
		return value
	}
	cron, id := take("Upstash-Cron"), take("Upstash-Schedule-Id")
	m, err := readMessage(h, destination, bytes.Clone(body.Bytes()), take("Upstash-Queue-Name"), c.ClientIP())
	if err != nil {
		return err
	}
	paused, err := httpapi.Flag(pausedHeader, h.Get(pausedHeader))
	if err != nil {
		return err
	}
	dryRun, err := httpapi.Flag(dryRunHeader, h.Get(dryRunHeader))
	if err != nil {
		return err
	}
	d := schedules.Draft{Job: &m.draft}
	if paused {
		d.Paused = &paused
	}
	if err := readCron(cron, &d); err != nil {
		return err
	}
	once := m.ID != ""
	id = cmp.Or(m.ID, id, "scd_"+rand.Text())
	m.ID, m.draft.ID, m.draft.OnConflict = "", nil, nil // those of the schedule, not of its messages
	m.draft.Dialect = m.dialect()
	if err := checkName("schedule", id); err != nil {
		return err
	}
	c.Target = id
	if err := a.readTopic(c.Context(), m); err != nil {
		return err
	}
	_, err = a.ownSchedule(c.Context(), id)
	switch {
	case err == nil && once:
		return madeSchedule(c, id, "kept")
	case err != nil && !isNotFound(err):
		return err
	}
	if _, err := a.Schedules.Preview(c.Context(), id, &d, schedules.Part{Limit: new(1)}); err != nil {
		return err
	}
	if dryRun {
		return madeSchedule(c, id, "created")
	}
	if err := a.makeTopic(c.Context(), m); err != nil {
		return err
	}
	var allow []documents.Allow
	if once {
		allow = append(allow, documents.Unchanged(0))
	}
	switch _, _, err := a.Schedules.Set(c.Context(), id, &d, allow...); {
	case once && errors.Is(err, documents.ErrChanged):
		return madeSchedule(c, id, "kept") // another one was faster
	case err != nil:
		return err
	}
	return madeSchedule(c, id, "created")
}

func madeSchedule(c *httpapi.Call, id, result string) error {
	c.SetResult(result)
	return c.WriteJSON(http.StatusOK, map[string]string{"scheduleId": id})
}

const (
	zonePrefix = "CRON_TZ="
	cronFields = 5
)

// readCron reads five fields, with the zone before them.
func readCron(text string, d *schedules.Draft) error {
	text = strings.TrimSpace(text)
	if zone, ok := strings.CutPrefix(text, zonePrefix); ok {
		zone, text, _ = strings.Cut(zone, " ")
		d.Timezone = &zone
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return refused("Upstash-Cron is required")
	}
	if len(strings.Fields(text)) != cronFields && !strings.HasPrefix(text, "@") {
		return refused("Upstash-Cron %q must have five fields: minute, hour, day of month, month and day of week", text)
	}
	d.Cron = &text
	return nil
}

// ownSchedule returns a schedule of this dialect.
func (a *api) ownSchedule(ctx context.Context, id string) (schedules.Schedule, error) {
	s, err := a.Schedules.Get(ctx, id)
	switch {
	case errors.Is(err, schedules.ErrNotFound):
		return s, notFound("schedule", id)
	case err == nil && (s.Def.Job.Dialect == nil || s.Def.Job.Dialect.Name != Name):
		return s, refused("schedule %s was not made with this API; change it with /v1/schedules, or choose another id", id)
	}
	return s, err
}

type scheduleView struct {
	ScheduleID         string              `json:"scheduleId"`
	Cron               string              `json:"cron"`
	Destination        string              `json:"destination"`
	CreatedAt          int64               `json:"createdAt"`
	Method             string              `json:"method"`
	Header             map[string][]string `json:"header"`
	Body               string              `json:"body,omitempty"`
	BodyBase64         []byte              `json:"bodyBase64,omitempty"`
	Retries            int                 `json:"retries"`
	Timeout            float64             `json:"timeout,omitempty"` // seconds
	IsPaused           bool                `json:"isPaused"`
	LastScheduleTime   int64               `json:"lastScheduleTime,omitempty"`
	NextScheduleTime   int64               `json:"nextScheduleTime,omitempty"`
	LastScheduleStates map[string]string   `json:"lastScheduleStates,omitempty"`
	shared
}

func (a *api) scheduleView(ctx context.Context, s *schedules.Schedule) (scheduleView, error) {
	d := &s.Def.Job
	var like job.Job // as an occurrence would be
	var request job.Request
	var err error
	if d.Group != nil {
		request, err = d.ForGroup(a.App.Bounds(), s.Now)
		request.Spec.Destination = job.Destination(*d.Group) // as QStash shows it
	} else {
		request, err = d.Registration(a.App.Bounds(), s.Now)
	}
	if err != nil {
		return scheduleView{}, err
	}
	like.Key, like.Spec = request.Key, request.Spec
	m := viewOf(&like)
	v := scheduleView{
		ScheduleID: s.Name, Cron: s.Def.Cron, Destination: m.URL, CreatedAt: int64(s.CreatedAt), Method: m.Method, Header: m.Header,
		Body: m.Body, BodyBase64: m.BodyBase64, Retries: m.MaxRetries, Timeout: like.Spec.Timeout.Seconds(), IsPaused: s.State == schedules.Paused, shared: m.shared,
	}
	v.ScheduleID, v.shared.ScheduleID = s.Name, ""
	if s.Def.Zone != "" && s.Def.Zone != "UTC" {
		v.Cron = zonePrefix + s.Def.Zone + " " + v.Cron
	}
	if next := s.Next(1); len(next) > 0 {
		v.NextScheduleTime = next[0].Time.UnixMilli()
	}
	last := s.Last
	if last == nil || last.UID == "" {
		return v, nil
	}
	v.LastScheduleTime = int64(max(last.DueAt, last.Time))
	state := "IN_PROGRESS"
	if j, err := a.App.Get(ctx, last.Key); err == nil && j.UID == last.UID && j.State.Final() {
		if state = "FAIL"; j.State == job.Delivered {
			state = "SUCCESS"
		}
	}
	v.LastScheduleStates = map[string]string{messagePrefix + last.UID: state}
	return v, nil
}

func (a *api) schedules(c *httpapi.Call) error {
	views := []scheduleView{}
	for cursor := ""; ; {
		page, err := a.Schedules.List(c.Context(), schedules.Query{Limit: listed, Cursor: cursor})
		if err != nil {
			return err
		}
		for i := range page.Schedules {
			s := &page.Schedules[i]
			if s.Def.Job.Dialect == nil || s.Def.Job.Dialect.Name != Name {
				continue
			}
			v, err := a.scheduleView(c.Context(), s)
			if err != nil {
				return err
			}
			views = append(views, v)
		}
		if cursor = page.Next; cursor == "" {
			return c.WriteJSON(http.StatusOK, views)
		}
	}
}

// listed is how many schedules are read at once.
const listed = 500

func (a *api) schedule(c *httpapi.Call) error {
	s, err := a.ownSchedule(c.Context(), c.Param("id"))
	if err != nil {
		return err
	}
	v, err := a.scheduleView(c.Context(), &s)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, v)
}

func (a *api) deleteSchedule(c *httpapi.Call) error {
	if _, err := a.ownSchedule(c.Context(), c.Param("id")); err != nil {
		return err
	}
	if err := a.Schedules.Delete(c.Context(), c.Param("id")); err != nil {
		return err
	}
	return done(c)
}

func (a *api) pausingSchedule(paused bool) routed {
	return func(c *httpapi.Call) error {
		_, err := a.ownSchedule(c.Context(), c.Param("id"))
		switch {
		case err != nil:
		case paused:
			_, err = a.Schedules.Pause(c.Context(), c.Param("id"), pauseBy(c))
		default:
			_, err = a.Schedules.Resume(c.Context(), c.Param("id"))
		}
		if err != nil {
			return err
		}
		return done(c)
	}
}
