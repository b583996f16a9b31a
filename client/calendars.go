package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Calendar is a named list of dates that schedules except.
type Calendar struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Version   uint64    `json:"version"`
	Dates     []string  `json:"dates"` // dates, and ranges such as 2026-12-24/2027-01-02
}

// CalendarDraft is a calendar to put.
type CalendarDraft struct {
	Dates []string `json:"dates"`
}

// Calendars lists calendars by name.
func (c *Client) Calendars(ctx context.Context, q Paging) iter.Seq2[Calendar, error] {
	return all[Calendar](ctx, c, q, "v1", "calendars")
}

// Calendar returns a calendar.
func (c *Client) Calendar(ctx context.Context, name string) (Calendar, error) {
	return do[Calendar](ctx, c, read("v1", "calendars", name))
}

// PutCalendar creates a calendar or replaces its dates.
func (c *Client) PutCalendar(ctx context.Context, name string, dates []string, options ...CallOption) (Calendar, error) {
	if dates == nil {
		dates = []string{}
	}
	return do[Calendar](ctx, c, newCall(http.MethodPut, true, path("v1", "calendars", name), CalendarDraft{dates}, options))
}

// PatchCalendar changes some fields of a calendar.
func (c *Client) PatchCalendar(ctx context.Context, name string, p Patch, options ...CallOption) (Calendar, error) {
	return do[Calendar](ctx, c, newCall(http.MethodPatch, true, path("v1", "calendars", name), p, options))
}

// DeleteCalendar deletes a calendar that no schedule uses.
func (c *Client) DeleteCalendar(ctx context.Context, name string, options ...CallOption) (Deleted, error) {
	return do[Deleted](ctx, c, newCall(http.MethodDelete, true, path("v1", "calendars", name), nil, options))
}
