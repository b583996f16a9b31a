package v1

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi"
)

// A schedule leaves out dates, by the clock of its zone, and answers say so.
func TestExceptedDates(t *testing.T) {
	a := newAPI(t) // 2026-01-01 09:00 UTC
	const dates = `{"dates":["2026-01-06","2026-01-02/2026-01-04"]}`
	got := a.want(201, "PUT", "/v1/schedules/s", `{"cron":"0 22 * * *","timezone":"America/New_York","except":`+dates+`,"job":{"url":"https://shop.example/hook"}}`)
	if text := fmt.Sprint(got["except"]); text != "map[dates:[2026-01-06 2026-01-02/2026-01-04]]" {
		t.Errorf("except is %s", text)
	}
	times := func(v map[string]any, list, member string) (all []any) {
		for _, o := range v[list].([]any) {
			all = append(all, object(o)[member])
		}
		return all
	}
	for _, page := range []map[string]any{
		a.want(200, "GET", "/v1/schedules/s/occurrences?limit=3", ""),
		a.want(200, "POST", "/v1/schedules/preview", `{"limit":3,"cron":"0 22 * * *","timezone":"America/New_York","except":`+dates+`}`),
	} {
		if got, want := fmt.Sprint(times(page, "data", "local")), "[2026-01-01T22:00:00-05:00 2026-01-05T22:00:00-05:00 2026-01-07T22:00:00-05:00]"; got != want {
			t.Errorf("occurrences %s", got)
		}
		want := "[map[local:2026-01-02 reason:excepted] map[local:2026-01-03 reason:excepted] map[local:2026-01-04 reason:excepted] map[local:2026-01-06 reason:excepted]]"
		if got := fmt.Sprint(page["omitted"]); got != want {
			t.Errorf("omitted: %s", got)
		}
	}
	if got := a.want(200, "PATCH", "/v1/schedules/s", `{"except":null}`); got["except"] != nil || fmt.Sprint(times(got, "next", "local")[1]) != "2026-01-02T22:00:00-05:00" {
		t.Errorf("without exceptions: %v", got)
	}
	a.refuses("PATCH", "/v1/schedules/s", map[string]string{
		`{"except":{"dates":["2026-12-24","2026-12-24"]}}`:             "/except/dates/1",
		`{"except":{"dates":["2026-12-26/2026-12-24"]}}`:               "/except/dates/0",
		`{"except":{"dates":"2026-12-26"}}`:                            "/except/dates",
		`{"except":{"calendars":["feast"]}}`:                           "/except/calendars",
		`{"except":{"dates":["` + hundredAndOne("2026-01-01") + `"]}}`: "/except/dates",
	})
}

func hundredAndOne(text string) string { return strings.Repeat(text+`","`, 100) + text }

// skip skips the next occurrence, or a named one; unskip takes it back.
func TestSkipOccurrences(t *testing.T) {
	a := newAPI(t) // 2026-01-01 09:00 UTC
	a.want(201, "PUT", "/v1/schedules/s", `{"every":"1h","end_at":"2026-01-01T13:00:00Z","job":{"url":"https://shop.example/hook"}}`)
	next := func(v map[string]any) (text string) {
		for _, o := range v["next"].([]any) {
			text += object(o)["time"].(string)[11:13]
			if object(o)["skipped"] == true {
				text += "!"
			}
			text += " "
		}
		return text
	}
	for _, c := range []struct{ call, body, want string }{
		{"skip", "", "10! 11 12 "},
		{"skip", `{"time":"2026-01-01T12:00:00Z"}`, "10! 11 12! "},
		{"skip", `{"time":"2026-01-01T12:00:00Z"}`, "10! 11 12! "},
		{"unskip", `{"time":"2026-01-01T10:00:00Z"}`, "10 11 12! "},
		{"skip", `{}`, "10! 11 12! "},
		{"skip", ``, "10! 11! 12! "},
		{"unskip", ``, "10 11 12 "},
		{"unskip", ``, "10 11 12 "},
	} {
		before := a.want(200, "GET", "/v1/schedules/s", "")
		got := a.want(200, "POST", "/v1/schedules/s/"+c.call, c.body)
		if next(got) != c.want || (next(before) == c.want) != (got["version"] == before["version"]) {
			t.Errorf("%s %s: %s, version %v", c.call, c.body, next(got), got["version"])
		}
	}
	for range 3 {
		a.want(200, "POST", "/v1/schedules/s/skip", "")
	}
	a.refuses("POST", "/v1/schedules/s/skip", map[string]string{
		"":                                "/time", // none is left
		`{"time":"2026-01-01T09:00:00Z"}`: "/time",
		`{"time":"2026-01-01T10:30:00Z"}`: "/time",
		`{"at":"2026-01-01T10:00:00Z"}`:   "/at",
	})
	a.want(412, "POST", "/v1/schedules/s/skip", "", "If-Match", `"1"`)
}

// A pause with an end is over at that time.
func TestPauseOfAScheduleEnds(t *testing.T) {
	a := newAPI(t) // 2026-01-01 09:00 UTC
	a.want(201, "PUT", "/v1/schedules/s", `{"every":"1h","job":{"url":"https://shop.example/hook"}}`)
	paused := a.want(200, "POST", "/v1/schedules/s/pause", `{"until":"2026-01-01T10:30:00Z","note":"moves"}`)
	if p := object(paused["paused"]); paused["state"] != "paused" || p["until"] != "2026-01-01T10:30:00.000Z" || p["note"] != "moves" {
		t.Errorf("%v", paused)
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/schedules/s/pause", `{"until":"2026-01-01T08:30:00Z"}`)
	a.clock.Advance(90*time.Minute - time.Millisecond)
	if s := a.want(200, "GET", "/v1/schedules/s", ""); s["state"] != "paused" || s["version"] != paused["version"] {
		t.Errorf("before the end: %v", s)
	}
	a.clock.Advance(time.Millisecond)
	if s := a.want(200, "GET", "/v1/schedules/s", ""); s["state"] != "active" || s["paused"] != nil || s["version"] != paused["version"].(float64)+1 || s["updated_at"] != "2026-01-01T10:30:00.000Z" {
		t.Errorf("after the end: %v", s)
	}
}
