package v1

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

func TestTopicSettings(t *testing.T) {
	a := newAPI(t)
	const all = `{"capacity":9,"rate":0.5,"concurrency":3,"weight":20,"on_dead":"stop","url":"https://shop.example/t?a=1","retry":{"steps":["1s","2m"],"limit":5},` +
		`"timeout":"5s","ttl":"1d12h","headers":{"X-Tenant":"acme"},"priority":7,"spread":"5m"}`
	put := a.want(201, "PUT", "/v1/topics/t", all)
	if diff := cmp.Diff(put, a.want(200, "GET", "/v1/topics/t", "")); diff != "" {
		t.Errorf("PUT and GET differ:\n%s", diff)
	}
	var want any
	if err := json.Unmarshal([]byte(all), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, put["settings"]); diff != "" {
		t.Errorf("settings (-put +got):\n%s", diff)
	}
	limits, err := listing.Limits(t.Context(), a.mem)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]store.Limits{"t": {Capacity: 9, Rate: 0.5, Concurrency: 3, Weight: 20, StopOnDead: true}}, limits); diff != "" {
		t.Errorf("limits of the store (-want +got):\n%s", diff)
	}
	// What GET shows can be put back.
	back, err := json.Marshal(put["settings"])
	if err != nil {
		t.Fatal(err)
	}
	a.want(200, "PUT", "/v1/topics/t", string(back))
	if got := a.want(200, "PUT", "/v1/topics/t", `{"priority":9}`); got["settings"] == nil {
		t.Errorf("put one default, got %v", got)
	}
	if got := a.want(200, "PUT", "/v1/topics/t", `{"rate":null}`); got["settings"] != nil {
		t.Errorf("put nothing, got %v", got)
	}
	a.wantProblem(httpapi.CodeTopicNotFound, "GET", "/v1/topics/t", "")
}

func TestTopicSettingsAreChecked(t *testing.T) {
	a := newAPI(t)
	p := a.wantProblem(httpapi.CodeInvalidRequest, "PUT", "/v1/topics/t",
		`{"capacity":-1,"rate":100001,"concurrency":0,"weight":101,"priority":0,"url":"ftp://shop.example","spread":"25h","timeout":"1h","colour":"blue","retry":{"limit":1.5},"headers":[]}`)
	var got []string
	for _, f := range p.Errors {
		got = append(got, f.Pointer)
	}
	slices.Sort(got)
	want := []string{
		"/capacity", "/colour", "/concurrency", "/headers", "/priority", "/rate", "/retry/limit", "/spread", "/timeout", "/url", "/weight",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for body, message := range map[string]string{
		`{"on_dead":"retry"}`: `must be "continue" or "stop"`, `{"on_dead":""}`: `must be "continue" or "stop"`, `{"on_dead":1}`: "must be a string, not a number",
		`{"priority":10}`: "must be from 1 to 9", `{"priority":"high"}`: "must be a whole number, not a string",
		`{"rate":"50"}`: "must be a number, not a string", `{"rate":1e999}`: "is too large a number",
		`{"capacity":"1"}`: "must be a whole number, not a string", `{"capacity":1.5}`: "must be a whole number",
		`{"capacity":3000000000}`: "is too large a number", `{"capacity":1e999}`: "is too large a number",
	} {
		if p := a.wantProblem(httpapi.CodeInvalidRequest, "PUT", "/v1/topics/t", body); p.Errors[0].Message != message {
			t.Errorf("%s: %s", body, p.Errors[0].Message)
		}
	}
	a.wantProblem(httpapi.CodeTopicNotFound, "GET", "/v1/topics/t", "")
}

func TestTopicDefaults(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/topics/t", `{"retry":{"limit":1},"timeout":"5s","ttl":"1h","headers":{"X-A":"topic","X-B":"topic"},"priority":8}`)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","headers":{"x-a":"own"},"timeout":"7s"}`)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"u","id":"a"}`)
	j, err := a.mem.Get(t.Context(), job.Key{Topic: "t", ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if j.Spec.Timeout.Seconds() != 7 || j.Spec.TTL.Hours() != 1 || *j.Spec.Retry.Limit != 1 || j.Spec.Priority != 8 {
		t.Errorf("got %+v", j.Spec)
	}
	if diff := cmp.Diff([]job.Header{{Name: "X-A", Value: "own"}, {Name: "X-B", Value: "topic"}}, j.Spec.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if j, err = a.mem.Get(t.Context(), job.Key{Topic: "u", ID: "a"}); err != nil || j.Spec.Retry != nil || j.Spec.TTL != 0 {
		t.Errorf("another topic: %+v, %v", j.Spec, err)
	}
}

func TestTopicsAreListedWithTheirSettings(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"b","delay":60}`)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"d","delay":60}`)
	a.want(201, "PUT", "/v1/topics/d", `{"rate":50}`)
	a.want(201, "PUT", "/v1/topics/a", `{"rate":60}`)
	a.want(200, "POST", "/v1/topics/c/pause", "")
	var got []string
	for _, v := range a.want(200, "GET", "/v1/topics", "")["data"].([]any) {
		topic := v.(map[string]any)
		line := topic["name"].(string) + " " + topic["state"].(string)
		if topic["settings"] != nil {
			line += " with settings"
		}
		if paused := object(topic["paused"]); paused != nil {
			line += " since " + paused["since"].(string)
		}
		got = append(got, line)
	}
	want := []string{"a active with settings", "b active", "c paused since 2026-01-01T09:00:00.000Z", "d active with settings"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestABatchIsJudgedJobByJob(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/topics/t", `{"capacity":2}`)
	const one = `{"url":"https://shop.example/hook","topic":"t"}`
	var got []float64
	for _, r := range a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[`+one+`,`+one+`,`+one+`,{"url":"https://shop.example/hook"}]}`)["results"].([]any) {
		got = append(got, r.(map[string]any)["status"].(float64))
	}
	if diff := cmp.Diff([]float64{201, 201, 429, 201}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A job without a destination has that of its topic.
func TestTopicURL(t *testing.T) {
	a := newAPI(t)
	p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", `{"topic":"t","id":"a"}`)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/url" {
		t.Errorf("got %+v", p.Errors)
	}
	a.want(201, "PUT", "/v1/topics/t", `{"url":"https://shop.example/t"}`)
	for body, want := range map[string]any{
		`{"topic":"t","id":"a","delay":"1h"}`:                                  "https://shop.example/t",
		`{"topic":"t","id":"b","delay":"1h","pull":false}`:                     "https://shop.example/t",
		`{"topic":"t","id":"c","delay":"1h","url":"https://shop.example/own"}`: "https://shop.example/own",
		`{"topic":"t","id":"d","delay":"1h","pull":true}`:                      nil,
	} {
		got := a.want(201, "POST", "/v1/jobs", body)
		if got["url"] != want {
			t.Errorf("%s: the url is %v, want %v", body, got["url"], want)
		}
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", `{"topic":"u","id":"a"}`)
}

func TestBusiestTopicsComeFirst(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/topics/idle", `{"rate":50}`)
	for i, topic := range []string{"a", "c", "c", "c", "b", "b"} {
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"url":"https://shop.example/hook","topic":%q,"id":"%d","delay":60}`, topic, i))
	}
	names := func(query string) (names []string) {
		page := a.want(200, "GET", "/v1/topics?order=-unfinished"+query, "")
		if page["next_cursor"] != nil {
			t.Errorf("%q has another page", query)
		}
		for _, v := range page["data"].([]any) {
			names = append(names, v.(map[string]any)["name"].(string))
		}
		return names
	}
	if diff := cmp.Diff([]string{"c", "b", "a"}, names("")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b"}, names("&q=B")); diff != "" {
		t.Error(diff)
	}
	for _, query := range []string{"order=unfinished", "order=", "order=-unfinished&cursor=dCBj"} {
		a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/topics?"+query, "")
	}
}
