package v1

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is what an answer says of jobs, without what differs between calls.
func told(t *testing.T, body []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return withoutIdentity(v)
}

func withoutIdentity(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutIdentity(v[i])
		}
	case map[string]any:
		for _, name := range []string{"uid", "version", "dry_run", "detail"} {
			delete(v, name)
		}
		for name := range v {
			v[name] = withoutIdentity(v[name])
		}
	}
	return v
}

// A dry run of a registration answers as the registration does, and registers nothing.
func TestDryRunOfRegistrations(t *testing.T) {
	a := newAPI(t)
	job := func(topic, id, more string) string {
		return fmt.Sprintf(`{"topic":%q,"id":%q,"url":"https://shop.example/hook","delay":"1h"%s}`, topic, id, more)
	}
	a.dead(`{"topic":"d","id":"dies","url":"https://shop.example/hook"}`)
	a.want(201, "PUT", "/v1/groups/g", `{"members":[{"name":"m","url":"https://a.example/"},{"name":"n","url":"https://b.example/"}]}`)
	a.want(201, "PUT", "/v1/topics/full", `{"capacity":1}`)
	a.want(201, "PUT", "/v1/topics/limited/limits", `{"capacity":1}`)
	a.want(201, "POST", "/v1/jobs", job("limited", "a", ""))
	a.want(201, "POST", "/v1/jobs", job("full", "a", ""))
	a.want(201, "POST", "/v1/jobs", job("drains", "a", ""))
	a.want(200, "POST", "/v1/topics/drains/drain", "")
	a.want(201, "POST", "/v1/jobs", job("t", "old", ""))
	a.want(201, "POST", "/v1/jobs", job("t", "x:m", ""))
	for _, call := range [][2]string{
		{"/v1/jobs", job("t", "new", "")},
		{"/v1/jobs", job("t", "new", "")}, // which is the same now
		{"/v1/jobs", job("t", "old", `,"body":1`)},
		{"/v1/jobs", job("t", "old", `,"body":1,"on_conflict":"ignore"`)},
		{"/v1/jobs", `{"topic":"t","id":"old","url":"https://shop.example/hook","delay":"3h","on_conflict":"later"}`},
		{"/v1/jobs", `{"topic":"t","id":"old","url":"https://shop.example/hook","delay":"3h","on_conflict":"sooner"}`},
		{"/v1/jobs", job("t", "old", `,"body":1,"on_conflict":"replace"`)},
		{"/v1/jobs", `{"topic":"d","id":"dies","url":"https://shop.example/hook","delay":"3h","on_conflict":"later"}`},
		{"/v1/jobs", job("full", "b", "")},
		{"/v1/jobs", job("limited", "b", "")},
		{"/v1/jobs", job("full", "a", `,"body":1,"on_conflict":"replace"`)},
		{"/v1/jobs", job("drains", "b", "")},
		{"/v1/jobs", `{"topic":"t","id":"new"}`},
		{"/v1/jobs", `{"topic":"t","id":"o","group":"g"}`},
		{"/v1/jobs", `{"topic":"t","id":"x","group":"g"}`},
		{"/v1/jobs/batch", `{"jobs":[` + job("t", "twice", "") + `,` + job("t", "twice", "") + `,` + job("t", "twice", `,"body":1`) + `,{"url":"nowhere"},` +
			job("full", "c", "") + `,{"topic":"t","id":"p","group":"g"},{"topic":"t","id":"x","group":"g"}]}`},
	} {
		dry := a.call("POST", call[0]+"?dry_run=true", call[1])
		again := a.call("POST", call[0]+"?dry_run=true", call[1])
		real := a.call("POST", call[0], call[1])
		if diff := cmp.Diff(told(t, dry.Body.Bytes()), told(t, again.Body.Bytes())); diff != "" {
			t.Errorf("%s: the first dry run changed something (-first +second):\n%s", call[1], diff)
		}
		if diff := cmp.Diff(told(t, real.Body.Bytes()), told(t, dry.Body.Bytes())); diff != "" {
			t.Errorf("%s (-real +dry):\n%s", call[1], diff)
		}
		want := real.Code
		if want == 201 {
			want = 200
		}
		if dry.Code != want {
			t.Errorf("%s: %d, and in a dry run %d", call[1], real.Code, dry.Code)
		}
	}
}
