package v1

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// registrationOf asks for a job as it is registered, and gives the answer as it stands.
func (a *api) registrationOf(key string) string {
	a.t.Helper()
	got := a.call("GET", "/v1/jobs/"+key+"/registration", "")
	if got.Code != 200 {
		a.t.Fatalf("%s: got %d %s", key, got.Code, got.Body)
	}
	return strings.TrimSuffix(got.Body.String(), "\n")
}

// Whatever is registered can be had back, and registers the same again.
func TestRegistrationsComeBack(t *testing.T) {
	a := newAPI(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		sent := fmt.Sprintf(`{"topic":"t","id":"first-%d",%s}`, n, strings.Join(drawMembers(rt), ","))
		a.want(201, "POST", "/v1/jobs", sent)
		shown := a.registrationOf(fmt.Sprintf("t/first-%d", n))
		a.want(201, "POST", "/v1/jobs", strings.Replace(shown, "first-", "again-", 1))
		first, again := a.stored("t", fmt.Sprintf("first-%d", n)), a.stored("t", fmt.Sprintf("again-%d", n))
		first.Spec.Content, again.Spec.Content = 0, 0 // retry and priority are given the second time
		if diff := cmp.Diff(first.Spec, again.Spec); diff != "" {
			rt.Errorf("sent %s\nshown %s\n(-first +again):\n%s", sent, shown, diff)
		}
	})
}

// drawMembers gives members of a registration, some of those that there are.
func drawMembers(t *rapid.T) []string {
	members := []string{`"url":"https://shop.example/hooks?a='b'&c=%C3%A4"`}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(optionalMembers))), rapid.ID[string]).Draw(t, "members") {
		members = append(members, `"`+name+`":`+optionalMembers[name](t))
	}
	for _, among := range []map[string]func(*rapid.T) string{dueMembers, exclusiveMembers, bodyMembers} {
		names := append(slices.Sorted(maps.Keys(among)), "")
		if name := rapid.SampledFrom(names).Draw(t, "one of"); name != "" {
			members = append(members, `"`+name+`":`+among[name](t))
		}
	}
	return members
}

// Members of registrations, by name.
var (
	optionalMembers = map[string]func(*rapid.T) string{
		"biz_key": func(t *rapid.T) string {
			return quoted(rapid.StringMatching(`[A-Za-z0-9_:@-]{1,20}`).Draw(t, "biz_key"))
		},
		"method":  oneOf("POST", "PUT", "PATCH"),
		"headers": texts("x-[a-z0-9!#$%&'*+.^_|~-]{1,9}"),
		"labels":  texts("[a-z0-9_.-]{1,9}"),
		"timeout": span(job.MinTimeout, time.Minute),
		"ttl":     span(time.Millisecond, job.MaxTTL),
		"expect":  func(t *rapid.T) string { return `{"body":` + quoted("ok"+words.Draw(t, "expect")) + `}` },
		"spread":  span(0, job.MaxSpread),
		"callbacks": func(t *rapid.T) string {
			return rapid.SampledFrom([]string{
				`{"dead":{"url":"https://shop.example/dead"}}`,
				`{"delivered":{"url":"https://shop.example/ok","method":"PUT","headers":{"x-a":"b"}},"attempt_failed":{"url":"https://shop.example/f"},"retry":{"limit":2}}`,
			}).Draw(t, "callbacks")
		},
		"priority": func(t *rapid.T) string {
			return fmt.Sprint(rapid.IntRange(job.MinPriority, job.MaxPriority).Draw(t, "priority"))
		},
		"retry": func(t *rapid.T) string {
			return rapid.SampledFrom([]string{`{}`, `{"limit":0}`, `{"steps":["15s","1ms"]}`, `{"steps":[1,"30d"],"limit":7}`}).Draw(t, "retry")
		},
	}
	dueMembers = map[string]func(*rapid.T) string{
		"delay": span(0, job.MaxDelay),
		"at":    oneOf("2026-01-01T17:00:00.25+08:00", "2020-02-29T00:00:00Z", "1969-12-31T23:59:59Z", "2026-12-31T23:59:59.999Z"),
	}
	exclusiveMembers = map[string]func(*rapid.T) string{
		"order_key": oneOf("customer-7"),
		"count":     func(*rapid.T) string { return `{"target":3,"at_deadline":"expire"}` },
	}
	bodyMembers = map[string]func(*rapid.T) string{
		"body": func(t *rapid.T) string {
			return rapid.SampledFrom([]string{
				`{"order_id": 8812}`, "[1, 2.50,\t3e400 ]", `12345678901234567890.10`, `"a\/b\ud83d\ude00<&>"`, `false`, "{\n \"body\" : {\"id\":\"'\"}}", `""`,
			}).Draw(t, "body")
		},
		"body_text": func(t *rapid.T) string { return quoted(words.Draw(t, "body_text")) },
		"body_base64": func(t *rapid.T) string {
			return quoted(base64.StdEncoding.EncodeToString(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "body_base64")))
		},
	}
	words = rapid.StringMatching(`[ -~äß€\x{2028}日本語\n\t]{0,20}`)
)

func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func oneOf(values ...string) func(*rapid.T) string {
	return func(t *rapid.T) string { return quoted(rapid.SampledFrom(values).Draw(t, "value")) }
}

func span(least, most time.Duration) func(*rapid.T) string {
	return func(t *rapid.T) string {
		return fmt.Sprintf(`"%dms"`, rapid.Int64Range(least.Milliseconds(), most.Milliseconds()).Draw(t, "span"))
	}
}

// texts is an object of strings that neither begin nor end with a space.
func texts(names string) func(*rapid.T) string {
	return func(t *rapid.T) string {
		values := rapid.StringMatching(`([!-~é]([ -~é日]{0,9}[!-~])?)?`)
		text, err := json.Marshal(rapid.MapOfN(rapid.StringMatching(names), values, 0, 5).Draw(t, "texts"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func TestARegistrationIsTheJobAsItIs(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/topics/t", `{"retry":{"limit":1},"timeout":"5s","ttl":"1h","headers":{"X-A":"topic"}}`)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook","headers":{"x-b":"own"},"body":{"n" : 1}}`,
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	a.want(200, "PATCH", "/v1/jobs/t/a", `{"delay":"90s","url":"https://shop.example/other"}`)
	const want = `{"topic":"t","id":"a","url":"https://shop.example/other","method":"POST","delay":"1m30s","body":{"n" : 1},` +
		`"retry":{"limit":1},"timeout":"5s","ttl":"1h","content_type":"application/json","headers":{"X-A":"topic","X-B":"own"},"priority":5}`
	if got := a.registrationOf("t/a"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	a.want(200, "DELETE", "/v1/jobs/t/a", "")
	if got := a.registrationOf("t/a"); got != want {
		t.Errorf("of the cancelled job:\n%s", got)
	}
}

// What a topic supplies does not come into a job that did without.
func TestRegistrationsKeepDefaultsAway(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook"}`)
	a.want(201, "PUT", "/v1/topics/t", `{"retry":{"limit":1},"priority":9}`)
	a.want(201, "POST", "/v1/jobs", strings.Replace(a.registrationOf("t/a"), `"a"`, `"b"`, 1))
	if got := a.stored("t", "b").Spec; got.Retry != nil || got.Priority != 0 {
		t.Errorf("got %+v", got)
	}
}

// GET shows all that was registered but the body, and a caller who may only read no headers.
func TestDetails(t *testing.T) {
	a := newKeyedAPI(t)
	uid := store.OrderUID(store.BindUID("01M8KQXTCMASKQPERGG1TRHNRH", job.Key{Topic: "t", ID: "a"}), "t", "o")
	spec := `{"topic":"t","id":"a","uid":"` + uid + `","biz_key":"b","order_key":"o","url":"https://shop.example/hook","method":"PUT","delay":"1h","spread":"1m",` +
		`"content_type":"text/plain","headers":{"X-A":"1"},"timeout":"5s","ttl":"2h","labels":{"l":"1"},"priority":7,` +
		`"retry":{"steps":["1s","2s"],"limit":3},"callbacks":{"dead":{"url":"https://shop.example/dead","headers":{"X-B":"2"}}},` +
		`"expect":{"body":"ok"},"count":{"target":2},"body_text":"hello"}`
	a.want(201, "POST", "/v1/jobs", spec)
	var want map[string]any
	if err := json.Unmarshal([]byte(spec), &want); err != nil {
		t.Fatal(err)
	}
	want["count"] = map[string]any{"count": 0.0, "target": 2.0, "at_deadline": "fire", "fired": false}
	for name := range draftFields.Names() {
		switch _, given := want[name]; {
		case name == "body" || name == "body_base64" || name == "at" || name == "on_conflict" || name == "group" || name == "pull" || name == "filter_label":
		case !given:
			t.Errorf("%s is not in this test", name)
		}
	}
	delete(want, "body_text")
	delete(want, "delay") // due_at has it
	got := a.want(200, "GET", "/v1/jobs/t/a", "")
	explained := a.want(200, "GET", "/v1/jobs/t/a/explain", "")["job"].(map[string]any)
	for name, value := range want {
		if diff := cmp.Diff(value, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(value, explained[name]); diff != "" {
			t.Errorf("explained, %s (-want +got):\n%s", name, diff)
		}
	}
	read, key := a.newKey(access.Draft{Scope: "read"})
	a.withAccess(a.keyring(key, a.admin), func() {
		got := a.call("GET", "/v1/jobs/t/a", "", "Authorization", "Bearer "+read)
		var j map[string]any
		if err := json.Unmarshal(got.Body.Bytes(), &j); err != nil {
			t.Fatal(err)
		}
		dead := j["callbacks"].(map[string]any)["dead"].(map[string]any)
		if object(j["headers"])["X-A"] != "***" || object(dead["headers"])["X-B"] != "***" || j["timeout"] != "5s" {
			t.Errorf("a key that may only read: %s", got.Body)
		}
	})
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"plain","url":"https://shop.example/hook"}`)
	plain := a.want(200, "GET", "/v1/jobs/t/plain", "")
	for _, name := range []string{"retry", "timeout", "ttl", "expect", "content_type", "callbacks"} {
		if value, has := plain[name]; !has || value != nil {
			t.Errorf("%s of a plain job: %v", name, value)
		}
	}
}
