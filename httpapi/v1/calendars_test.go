package v1

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/calendars"
	"github.com/duehook/duehook/store"
)

// coverCalendars brings about the answers to calls of calendars.
func coverCalendars(a *keyedAPI) {
	const path, dates = "/v1/calendars/holidays", `{"dates":["2026-12-24/2026-12-26"]}`
	a.want(201, "PUT", path, dates)
	a.want(200, "PUT", path, dates)
	a.want(200, "GET", path, "")
	a.want(200, "GET", "/v1/calendars?limit=1", "")
	a.wantProblem(httpapi.CodeVersionChanged, "PUT", path, dates, "If-Match", `"none"`)
	a.wantProblem(httpapi.CodeVersionChanged, "DELETE", path, "", "If-Match", `"none"`)
	a.wantProblem(httpapi.CodeVersionChanged, "PATCH", path, `{}`, "If-Match", `"none"`)
	a.want(200, "PATCH", path, `{}`)
	a.want(201, "PUT", "/v1/schedules/excepting", `{"cron":"0 9 * * *","except":{"calendars":["holidays"]},"job":{"url":"https://shop.example/hook"}}`)
	a.wantProblem(httpapi.CodeCalendarInUse, "DELETE", path, "")
	a.want(200, "DELETE", "/v1/schedules/excepting", "")
	if _, err := store.PutDocument(a.t.Context(), a.mem, store.Document{Kind: "calendar", Name: "newer", Data: []byte(`{"dates":[],"weekdays":[6]}`)}); err != nil {
		a.t.Fatal(err)
	}
	for _, call := range []struct{ method, body string }{{"GET", ""}, {"PUT", dates}, {"PATCH", `{}`}} {
		a.wantProblem(httpapi.CodeNewerVersion, call.method, "/v1/calendars/newer", call.body)
	}
	a.want(200, "DELETE", "/v1/calendars/newer", "")
	full, err := store.PutDocument(a.t.Context(), a.mem, store.Document{Kind: "calendar", Name: "full", Data: make([]byte, calendars.MaxAllBytes)})
	if err != nil {
		a.t.Fatal(err)
	}
	a.clock.Advance(time.Minute) // calendars are counted now and then
	a.wantProblem(httpapi.CodeTooManyCalendars, "PATCH", path, `{"dates":["2026-12-24/2026-12-26","2027-01-01"]}`)
	a.wantProblem(httpapi.CodeTooManyCalendars, "PUT", path+"2", `{"dates":["2026-12-24/2026-12-26","2027-01-01"]}`)
	if err := store.DeleteDocument(a.t.Context(), a.mem, full.Kind, full.Name, full.Version); err != nil {
		a.t.Fatal(err)
	}
	a.want(200, "DELETE", path, "")
}

// A schedule leaves out its dates and those of its calendars, by the clock of its zone, and
// answers say so.
func TestExceptedDates(t *testing.T) {
	a := newAPI(t) // 2026-01-01 09:00 UTC
	a.want(201, "PUT", "/v1/calendars/feast", `{"dates":["2026-01-06","2026-01-03/2026-01-04"]}`)
	got := a.want(201, "PUT", "/v1/schedules/s",
		`{"cron":"0 22 * * *","timezone":"America/New_York","except":{"dates":["2026-01-02"],"calendars":["feast"]},"job":{"url":"https://shop.example/hook"}}`)
	if text := fmt.Sprint(got["except"]); text != "map[calendars:[feast] dates:[2026-01-02]]" {
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
		a.want(200, "POST", "/v1/schedules/preview", `{"limit":3,"cron":"0 22 * * *","timezone":"America/New_York","except":{"dates":["2026-01-02"],"calendars":["feast"]}}`),
	} {
		if got, want := fmt.Sprint(times(page, "data", "local")), "[2026-01-01T22:00:00-05:00 2026-01-05T22:00:00-05:00 2026-01-07T22:00:00-05:00]"; got != want {
			t.Errorf("occurrences %s", got)
		}
		want := "[map[local:2026-01-02 reason:excepted] map[calendar:feast local:2026-01-03 reason:excepted] map[calendar:feast local:2026-01-04 reason:excepted] map[calendar:feast local:2026-01-06 reason:excepted]]"
		if got := fmt.Sprint(page["omitted"]); got != want {
			t.Errorf("omitted: %s", got)
		}
	}
	a.want(200, "PATCH", "/v1/calendars/feast", `{"dates":[]}`)
	if got := fmt.Sprint(times(a.want(200, "GET", "/v1/schedules/s", ""), "next", "local")[:2]); got != "[2026-01-01T22:00:00-05:00 2026-01-03T22:00:00-05:00]" {
		t.Errorf("after a change of the calendar: %s", got)
	}
	a.want(200, "PATCH", "/v1/schedules/s", `{"except":null}`)
	a.want(200, "DELETE", "/v1/calendars/feast", "")
	a.wantProblem(httpapi.CodeCalendarNotFound, "GET", "/v1/calendars/feast", "")
	a.refuses("PATCH", "/v1/schedules/s", map[string]string{
		`{"except":{"calendars":["feast"]}}`:                           "/except/calendars/0",
		`{"except":{"calendars":["no name"]}}`:                         "/except/calendars/0",
		`{"except":{"dates":["2026-12-24","2026-12-24"]}}`:             "/except/dates/1",
		`{"except":{"dates":["2026-12-26/2026-12-24"]}}`:               "/except/dates/0",
		`{"except":{"dates":"2026-12-26"}}`:                            "/except/dates",
		`{"except":{"days":[]}}`:                                       "/except/days",
		`{"except":{"calendars":["` + eleven("a") + `"]}}`:             "/except/calendars",
		`{"except":{"dates":["` + hundredAndOne("2026-01-01") + `"]}}`: "/except/dates",
	})
	if p := a.wantProblem(httpapi.CodeInvalidRequest, "PATCH", "/v1/schedules/s", `{"except":{"calendars":[1,2,3,4,5,6,7,8,9,10,11,12]}}`); len(p.Errors) != 12 {
		t.Errorf("%v", p.Errors)
	}
	if p := a.wantProblem(httpapi.CodeInvalidRequest, "PUT", "/v1/calendars/x", `{}`); p.Errors[0].Pointer != "/dates" {
		t.Errorf("%v", p.Errors)
	}
}

func repeated(text string, n int) string {
	all := text
	for range n - 1 {
		all += `","` + text
	}
	return all
}

func eleven(text string) string        { return repeated(text, 11) }
func hundredAndOne(text string) string { return repeated(text, 101) }

// A calendar that schedules use stays, and the refusal names some of them.
func TestCalendarInUse(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/calendars/c", `{"dates":[]}`)
	for i := range 21 {
		a.want(201, "PUT", fmt.Sprintf("/v1/schedules/s%02d", i), `{"every":"1h","except":{"calendars":["c"]},"job":{"url":"https://shop.example/hook"}}`)
	}
	got := a.want(409, "DELETE", "/v1/calendars/c", "")
	if list := got["schedules"].([]any); len(list) != 20 || list[0] != "s00" || got["more"] != true {
		t.Errorf("%v", got)
	}
	a.want(200, "DELETE", "/v1/schedules/s00", "")
	if got := a.want(409, "DELETE", "/v1/calendars/c", ""); got["more"] != false {
		t.Errorf("%v", got)
	}
}

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
