package v1

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
)

const countedJob = `{"topic":"t","id":"a","url":"https://shop.example/hook","count":{"target":3}}`

func TestCount(t *testing.T) {
	a := newAPI(t)
	j := a.want(201, "POST", "/v1/jobs", countedJob)
	if j["due_at"] != "2027-01-02T09:00:00.000Z" || fmt.Sprint(j["count"]) != "map[at_deadline:fire count:0 fired:false target:3]" {
		t.Errorf("registered: %v", j)
	}
	count := func(body, want string) {
		t.Helper()
		if got := fmt.Sprint(a.want(200, "POST", "/v1/jobs/t/a/count", body)); got != want {
			t.Errorf("count %s: %s, want %s", body, got, want)
		}
	}
	count("", "map[count:1 fired:false target:3]")
	count(`{"key":"x"}`, "map[count:2 fired:false target:3]")
	count(`{"key":"x","add":7}`, "map[count:2 fired:false target:3]")
	if again := a.want(200, "POST", "/v1/jobs", countedJob); again["result"] != "same" {
		t.Errorf("registered again: %v", again)
	}
	why := a.want(200, "GET", "/v1/jobs/t/a/explain", "")
	if text := fmt.Sprint(why["reasons"]); !strings.Contains(text, "It waits for 1 more count or its deadline, 2027-01-02T09:00:00.000Z.") {
		t.Errorf("explained: %s", text)
	}
	const registration = `{"topic":"t","id":"a","url":"https://shop.example/hook","method":"POST","delay":"366d","retry":{},"count":{"target":3,"at_deadline":"fire"},"priority":5}`
	if got := a.registrationOf("t/a"); got != registration {
		t.Errorf("the registration is\n%s", got)
	}
	count(`{"add":2}`, "map[count:4 fired:true target:3]")
	j = a.want(200, "GET", "/v1/jobs/t/a", "")
	if j["next_at"] != "2026-01-01T09:00:00.000Z" || fmt.Sprint(j["count"]) != "map[at_deadline:fire count:4 fired:true target:3]" {
		t.Errorf("fired: %v", j)
	}
	if c := a.claim(); len(c) != 1 || c[0].Job.Counted != 4 {
		t.Errorf("claims %+v", c)
	} else {
		a.settle(c[0], job.OutcomeDelivered, job.Attempt{Number: 1, Status: 200})
	}
	count("{}", "map[count:4 fired:true late:true target:3]")
	count(`{"key":"x"}`, "map[count:4 fired:true target:3]")
}

func TestCountRefused(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"plain","url":"https://shop.example/hook","delay":"1h"}`)
	a.want(201, "POST", "/v1/jobs", countedJob)
	a.wantProblem(httpapi.CodeJobNotFound, "POST", "/v1/jobs/t/missing/count", "")
	a.wantProblem(httpapi.CodeJobNotCounted, "POST", "/v1/jobs/t/plain/count", "")
	a.refuses("POST", "/v1/jobs/t/a/count", map[string]string{
		`{"add":0}`: "/add", `{"add":-1}`: "/add", `{"add":1000001}`: "/add", `{"add":"1"}`: "/add", `{"add":0.5}`: "/add",
		`{"key":""}`: "/key", `{"key":7}`: "/key", `{"key":"` + strings.Repeat("k", 129) + `"}`: "/key", `{"by":1}`: "/by",
	})
	// Nothing of it was counted.
	if j := a.want(200, "GET", "/v1/jobs/t/a", ""); j["version"] != 1767258000000.0 {
		t.Errorf("after refused counts: %v", j)
	}
	a.want(200, "DELETE", "/v1/jobs/t/a", "")
	if p := a.wantProblem(httpapi.CodeJobFinished, "POST", "/v1/jobs/t/a/count", ""); !strings.Contains(p.Detail, "cancelled") {
		t.Errorf("detail %q", p.Detail)
	}
	a.refuses("PUT", "/v1/schedules/s", map[string]string{`{"every":"1h","job":{"url":"https://shop.example/hook","count":{"target":3}}}`: "/job/count"})
}

// A change that lowers the target to what was counted makes the job due.
func TestChangeCount(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", countedJob)
	a.want(200, "POST", "/v1/jobs/t/a/count", `{"add":2}`)
	j := a.want(200, "PATCH", "/v1/jobs/t/a", `{"count":{"target":2,"at_deadline":"expire"}}`)
	if j["next_at"] != "2026-01-01T09:00:00.000Z" || fmt.Sprint(j["count"]) != "map[at_deadline:expire count:2 fired:true target:2]" {
		t.Errorf("changed: %v", j)
	}
}

// Calls at the same time are gathered; each gets its own answer.
func TestCountAtOnce(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", strings.Replace(countedJob, `"target":3`, `"target":100`, 1))
	const calls = 120
	counts := make([]float64, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			counts[i], _ = a.want(200, "POST", "/v1/jobs/t/a/count", fmt.Sprintf(`{"key":"k%d"}`, i))["count"].(float64)
		})
	}
	wg.Wait()
	seen := map[float64]bool{}
	for _, n := range counts {
		seen[n] = true
	}
	if len(seen) != calls || !seen[calls] {
		t.Errorf("%d different counts of %d", len(seen), calls)
	}
	if c := a.claim(); len(c) != 1 || c[0].Job.Counted != calls {
		t.Errorf("claims %+v", c)
	}
}
