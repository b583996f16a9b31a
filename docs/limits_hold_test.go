package docs

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
)

// held is a limit that a call meets: it passes with most, and is refused with one more.
type held struct {
	what, call string
	most       int64
	with       func(n int64) any
	refused    httpapi.Code // zero: httpapi.CodeInvalidRequest
}

type object = map[string]any

// TestLimitsHold: a server takes what docs/limits.md allows, and refuses more with the status that the page names.
func TestLimitsHold(t *testing.T) {
	body, _ := settingOf(t, "max-body")
	if body != "256 KiB" {
		t.Fatalf("a body may have %s: correct this test", body)
	}
	const url = "http://shop.sink/"
	long := func(n int64) string { return strings.Repeat("x", int(n)) }
	milliseconds := func(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
	// field is a limit of a job. The job is never due in this test.
	field := func(what string, most int64, with func(n int64) object) held {
		return held{what: what, call: "POST /v1/jobs", most: most, with: func(n int64) any {
			one := object{"url": url, "delay": "1h"}
			for name, value := range with(n) {
				one[name] = value
			}
			return one
		}}
	}
	text := func(name string, most int64) held {
		return field(name, most, func(n int64) object { return object{name: long(n)} })
	}
	number := func(call, name string, most int64) held {
		return held{what: name, call: call, most: most, with: func(n int64) any { return object{name: n} }}
	}
	entries := func(n int64, value string) object {
		all := object{}
		for i := range n {
			all["x"+count(i)] = value
		}
		return all
	}
	some := func(n int64, one func(i int64) any) []any {
		all := make([]any, 0, n)
		for i := range n {
			all = append(all, one(i))
		}
		return all
	}
	timetable := func(what string, most int64, with func(n int64) object) held {
		return held{what: what, call: "PUT /v1/schedules/nightly", most: most, with: func(n int64) any {
			one := object{"cron": "0 0 1 1 *", "job": object{"url": url}}
			for name, value := range with(n) {
				one[name] = value
			}
			return one
		}}
	}
	pull := func(name string, most int64, value func(n int64) any) held {
		return held{what: name, call: "POST /v1/pull", most: most, with: func(n int64) any { return object{"topics": []string{"a"}, name: value(n)} }}
	}
	tooLarge := text("body_text", 256<<10)
	tooLarge.refused = httpapi.CodeBodyTooLarge
	s := duehooktest.Start(t)
	for _, h := range []held{
		tooLarge,
		text("topic", job.MaxName), text("id", job.MaxName), text("biz_key", job.MaxName), text("order_key", job.MaxName),
		field("url", job.MaxURL, func(n int64) object { return object{"url": url + long(n-int64(len(url)))} }),
		field("headers", job.MaxHeaders, func(n int64) object { return object{"headers": entries(n, "1")} }),
		field("the name of a header", job.MaxHeaderName, func(n int64) object { return object{"headers": object{long(n): "1"}} }),
		field("the value of a header", job.MaxHeaderValue, func(n int64) object { return object{"headers": object{"x": long(n)}} }),
		field("labels", job.MaxLabels, func(n int64) object { return object{"labels": entries(n, "1")} }),
		field("the key of a label", job.MaxLabelKey, func(n int64) object { return object{"labels": object{long(n): "1"}} }),
		field("the value of a label", job.MaxLabelValue, func(n int64) object { return object{"labels": object{"x": long(n)}} }),
		field("delay", job.MaxDelay.Milliseconds(), func(n int64) object { return object{"delay": milliseconds(n)} }),
		field("ttl", job.MaxTTL.Milliseconds(), func(n int64) object { return object{"ttl": milliseconds(n)} }),
		field("spread", job.MaxSpread.Milliseconds(), func(n int64) object { return object{"spread": milliseconds(n)} }),
		field("timeout", 60_000, func(n int64) object { return object{"timeout": milliseconds(n)} }),
		field("retry.steps", job.MaxRetrySteps, func(n int64) object {
			return object{"retry": object{"steps": some(n, func(int64) any { return "1s" })}}
		}),
		field("a step", job.MaxRetryStep.Milliseconds(), func(n int64) object { return object{"retry": object{"steps": []string{milliseconds(n)}}} }),
		field("retry.limit", job.MaxRetryLimit, func(n int64) object { return object{"retry": object{"limit": n}} }),
		field("expect.body", job.MaxExpectBody, func(n int64) object { return object{"expect": object{"body": long(n)}} }),
		field("priority", job.MaxPriority, func(n int64) object { return object{"priority": n} }),
		field("count.target", job.MaxTarget, func(n int64) object { return object{"count": object{"target": n}} }),
		{what: "jobs of a batch", call: "POST /v1/jobs/batch", most: app.MaxJobs, with: func(n int64) any {
			return object{"jobs": some(n, func(int64) any { return object{"url": url, "delay": "1h"} })}
		}},
		number("PUT /v1/topics/a", "capacity", topics.MaxCapacity), number("PUT /v1/topics/a", "rate", topics.MaxRate),
		number("PUT /v1/topics/a", "concurrency", topics.MaxConcurrency), number("PUT /v1/topics/a", "weight", topics.MaxWeight),
		{what: "note", call: "POST /v1/topics/paused/pause", most: job.MaxNote, with: func(n int64) any { return object{"note": long(n)} }},
		{what: "members", call: "PUT /v1/groups/a", most: groups.MaxMembers, with: func(n int64) any {
			return object{"members": some(n, func(i int64) any { return object{"name": "m" + strconv.FormatInt(i, 10), "url": url} })}
		}},
		{what: "the name of a member", call: "PUT /v1/groups/a", most: job.MaxMember, with: func(n int64) any {
			return object{"members": []any{object{"name": long(n), "url": url}}}
		}},
		timetable("every", int64(schedule.MaxEvery/time.Second), func(n int64) object {
			return object{"cron": nil, "every": (time.Duration(n) * time.Second).String()}
		}),
		timetable("jitter", schedule.MaxJitter.Milliseconds(), func(n int64) object { return object{"jitter": milliseconds(n)} }),
		timetable("misfire.grace", time.Hour.Milliseconds(), func(n int64) object { return object{"misfire": object{"grace": milliseconds(n)}} }),
		timetable("max_occurrences", 1_000_000_000, func(n int64) object { return object{"max_occurrences": n} }),
		timetable("except.dates", 100, func(n int64) object {
			return object{"except": object{"dates": some(n, func(i int64) any { return time.Date(2027, 1, int(i+1), 0, 0, 0, 0, time.UTC).Format(time.DateOnly) })}}
		}),
		timetable("cron", 512, func(n int64) object {
			cron := "0 0 1 1 1"
			return object{"cron": cron + strings.Repeat(",1", int(n-int64(len(cron)))/2) + strings.Repeat(" ", int(n-int64(len(cron)))%2)}
		}),
		{what: "occurrences of a preview", call: "POST /v1/schedules/preview", most: schedules.MaxOccurrences, with: func(n int64) any {
			return object{"cron": "0 0 * * *", "limit": n}
		}},
		pull("max", job.MaxPull, func(n int64) any { return n }),
		pull("lease", job.MaxPullLease.Milliseconds(), func(n int64) any { return milliseconds(n) }),
		pull("topics", 32, func(n int64) any { return some(n, func(i int64) any { return "t" + count(i) }) }),
		{what: "rate of an operation", call: "POST /v1/operations", most: operations.MaxRate, with: func(n int64) any {
			return object{"action": "cancel", "filter": object{"topic": "none"}, "rate": n}
		}},
	} {
		if h.refused.Name == "" {
			h.refused = httpapi.CodeInvalidRequest
		}
		if status, answer := h.try(t, s.URL, h.most); status < 200 || status > 299 {
			t.Errorf("%s: %s with %d, the limit: %d %s", h.what, h.call, h.most, status, answer)
		}
		if status, answer := h.try(t, s.URL, h.most+1); status != h.refused.Status || !strings.Contains(answer, `"code":"`+h.refused.Name+`"`) {
			t.Errorf("%s: %s with %d, more than the limit: %d %s", h.what, h.call, h.most+1, status, answer)
		}
	}
}

// try makes the call with n of what the limit is for.
func (h *held) try(t *testing.T, base string, n int64) (int, string) {
	t.Helper()
	content, err := json.Marshal(h.with(n))
	if err != nil {
		t.Fatal(err)
	}
	method, path, _ := strings.Cut(h.call, " ")
	request, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}
