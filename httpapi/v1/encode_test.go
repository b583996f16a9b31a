package v1

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// TestJobsAreWrittenAsJSON writes arbitrary jobs.
func TestJobsAreWrittenAsJSON(t *testing.T) {
	s := newAPI(t).v1
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) job.Job {
			j := rapid.Make[job.Job]().Draw(t, "job")
			j.Attempts = rapid.IntRange(0, 20).Draw(t, "attempts") // each may have a callback
			return j
		})
		jobs := rapid.SliceOfN(one, 0, 3).Draw(t, "jobs")
		views := []jsonio.View{pageOf(jobs, s.writeJob, rapid.String().Draw(t, "cursor"))}
		for i := range jobs {
			registered := []store.Registered{{Job: jobs[i]}}
			views = append(views, jsonio.Shown(s.writeRegistered, &registered[0]), func(w *jsonio.Writer) {
				jsonio.List(w, "results", []item{{registered: registered}, {fan: &app.FanOut{ID: jobs[i].ID}, registered: registered}}, s.writeItem)
			})
		}
		for _, v := range views {
			if text := jsonio.AppendObject(nil, v); !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) { // headers and labels are arbitrary
				t.Fatalf("not JSON: %s", text)
			}
		}
	})
}

// written is a job with the result of its registration.
func written(j *job.Job, policy retrypolicy.Policy, result string) jsonio.View {
	return func(w *jsonio.Writer) {
		jobjson.WriteJob(w, j, policy)
		w.TextIfAny("result", result)
	}
}

func TestJobAsWritten(t *testing.T) {
	limit, at := 3, job.InstantOf(time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC))
	full := job.Job{
		Key: job.Key{Topic: "mail", ID: "a:b"}, UID: "01KDWCJ2M00000000000000001", State: job.Dead, DueAt: at, CreatedAt: at.Add(-time.Minute), UpdatedAt: at + 5, EndedAt: at + 5,
		Attempts: 2, Counted: 4, Version: 7, Reason: job.ReasonRetryLimit,
		LastAttempt: &job.Attempt{
			Number: 2, StartedAt: at, Duration: 1500 * time.Millisecond, Status: 500, Error: "http_500", ResponseBody: "\"no\"\x00é\xff", Version: 6, ConnectRetries: 1,
			Timings: job.Timings{DNS: 1, FirstByte: 20 * time.Millisecond}, ResponseHeaders: []job.Header{{Name: "Date", Value: "today"}}, Reason: job.ReasonRetryLimit, Node: "n-1",
		},
		Spec: job.Spec{
			Destination: "https://example.com/?a=1&b=<2>", Method: "PUT", BizKey: "order", OrderKey: "k", Labels: []job.Label{{Key: "a", Value: "1"}, {Key: "b", Value: ""}},
			Priority: 9, When: job.When{Spread: time.Minute}, Retry: &job.Retry{Limit: &limit}, Group: &job.Membership{Group: "g"},
			Occurrence: &job.Occurrence{Schedule: "nightly", Time: at, Kind: job.ByTimetable}, Count: &job.Count{Target: 5, AtDeadline: job.DeadlineFires},
			Callbacks: &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackDead: {Destination: "https://example.com"}}},
		},
	}
	for name, c := range map[string]struct {
		view jsonio.View
		want string
	}{
		"all members": {written(&full, retrypolicy.Default(), "same"), `{"uid":"01KDWCJ2M00000000000000001","topic":"mail","id":"a:b","biz_key":"order","order_key":"k",` +
			`"labels":{"a":"1","b":""},"url":"https://example.com/?a=1&b=<2>","method":"PUT","state":"dead","priority":9,"due_at":"2026-01-31T09:30:00.000Z","spread":"1m",` +
			`"created_at":"2026-01-31T09:29:00.000Z","updated_at":"2026-01-31T09:30:00.005Z","next_at":null,"attempts":2,"max_attempts":4,"last_attempt":{"number":2,"started_at":"2026-01-31T09:30:00.000Z","duration_ms":1500,` +
			`"dns_ms":0,"connect_ms":null,"tls_ms":null,"first_byte_ms":20,"connection_reused":false,"status":500,"error":"http_500","response_body":"\"no\"\u0000é` + "\uFFFD" + `",` +
			`"response_headers":{"Date":"today"},"next_at":null,"reason":"retry_limit","version":1767258000005,"connect_retries":1},"ended_at":"2026-01-31T09:30:00.005Z","reason":"retry_limit",` +
			`"version":1767258000006,"group":"g","group_id":"a","schedule":"nightly","occurrence":{"time":"2026-01-31T09:30:00.000Z","kind":"timetable"},` +
			`"callback_jobs":[{"event":"dead","id":"01KDWCJ2M00000000000000001.dead","url":"/v1/jobs/mail/01KDWCJ2M00000000000000001.dead"}],` +
			`"count":{"count":4,"target":5,"at_deadline":"fire","fired":true},"result":"same"}`},
		"what a job need not have": {written(&job.Job{}, retrypolicy.Policy{}, ""), `{"uid":"","topic":"","id":"","biz_key":null,"labels":{},"url":"","method":"POST","state":"waiting","priority":5,"due_at":null,` +
			`"created_at":null,"updated_at":null,"next_at":null,"attempts":0,"max_attempts":1,"last_attempt":null,"ended_at":null,"reason":null,"version":0,"schedule":null,"occurrence":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Split(c.want, ","), strings.Split(string(jsonio.AppendObject(nil, c.view)), ",")); diff != "" {
				t.Errorf("(-want +written):\n%s", diff)
			}
		})
	}
}
