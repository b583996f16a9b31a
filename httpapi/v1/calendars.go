package v1

import (
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app/calendars"
	"github.com/duehook/duehook/internal/kit/jsonout"
)

const (
	calendarsPath = "/v1/calendars"
	calendarPath  = calendarsPath + "/{calendar}"
)

// maxCalendar bounds the body of PUT /v1/calendars/{calendar}.
const maxCalendar = 64 << 10

var calendarFields = decode.NewFieldSet(map[string]func(*calendars.Draft, decode.Field){
	"dates": func(d *calendars.Draft, f decode.Field) { d.Dates = f.TextList() },
})

// putCalendar answers PUT /v1/calendars/{calendar}.
func (s *API) putCalendar(r *request) (jsonout.View, error) {
	draft, errs, err := read(r, maxCalendar, calendarFields)
	if err != nil {
		return nil, err
	}
	c, err := draft.Calendar(r.Param("calendar"))
	if err := errs.Merge(err); err != nil {
		return nil, err
	}
	c, isNew, err := s.Calendars.Put(r.Context(), c, r.allow()...)
	r.created(isNew)
	return r.showCalendar(&c, err)
}

// getCalendar answers GET /v1/calendars/{calendar}.
func (s *API) getCalendar(r *request) (jsonout.View, error) {
	c, err := s.Calendars.Get(r.Context(), r.Param("calendar"))
	return r.showCalendar(&c, err)
}

func (r *request) showCalendar(c *calendars.Calendar, err error) (jsonout.View, error) {
	if err != nil {
		return nil, err
	}
	r.setWhole(c.Version)
	return jsonout.Shown(writeCalendar, c), nil
}

// listCalendars answers GET /v1/calendars.
func (s *API) listCalendars(r *request) (jsonout.View, error) {
	page, next, err := s.Calendars.List(r.Context(), r.query.Cursor, r.query.Limit)
	return pageOf(page, writeCalendar, next), err
}

// deleteCalendar answers DELETE /v1/calendars/{calendar}.
func (s *API) deleteCalendar(r *request) (jsonout.View, error) {
	return resultOf("deleted"), s.Calendars.Delete(r.Context(), r.Param("calendar"), r.allow()...)
}

func patchableCalendar(s *API, r *request) (jsonout.View, string, error) {
	c, err := s.Calendars.Get(r.Context(), r.Param("calendar"))
	return func(w *jsonout.Writer) { w.Member("dates", c.Dates) }, tagIfAny(c.Version), err
}

func writeCalendar(w *jsonout.Writer, c *calendars.Calendar) {
	w.Text("name", c.Name)
	writeStamp(w, &c.Stamp)
	w.Member("dates", c.Dates)
}
