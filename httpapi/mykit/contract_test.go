package mykit_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi/mykit"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/fronts"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// ok and failed are the envelopes of the contract.
func ok(data string) string {
	return `{"success":true,"data":` + data + `,"code":200,"excludes":null,"includes":null,"onlyData":false,"callback":null,"message":null}`
}

func failed(message string) string {
	return `{"success":false,"data":null,"code":500,"excludes":null,"includes":null,"onlyData":false,"callback":null,"message":"` + message + `"}`
}

type server struct{ *fronts.Server }

func newServer(t *testing.T) *server {
	t.Helper()
	return &server{fronts.Start(t, "mykit", "order")}
}

func (s *server) call(method, target, body string) (int, string) {
	s.T.Helper()
	h := http.Header{}
	if method != http.MethodGet {
		h.Set("Content-Type", "application/json")
	}
	status, text := s.Call(method, target, h, body)
	return status, strings.TrimSpace(string(text))
}

// want makes a call of the dialect that must have an answer.
func (s *server) want(method, target, body, answer string) {
	s.T.Helper()
	if status, text := s.call(method, target, body); status != http.StatusOK || text != answer {
		s.T.Errorf("%s %s %s: %d %s, want %s", method, target, body, status, text, answer)
	}
}

// v1 makes a call of v1, and decodes its answer.
func (s *server) v1(method, target, body string, into any) {
	s.T.Helper()
	status, text := s.call(method, target, body)
	if status > 299 {
		s.T.Fatalf("%s %s: %d %s", method, target, status, text)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		s.T.Fatal(err)
	}
}

// The numbered examples of the contract.
func TestExamples(t *testing.T) {
	s := newServer(t)
	const number, address = `<number>`, `<address>`
	for _, tt := range []struct {
		example              string
		method, target, body string
		status               int
		want                 string
	}{
		{"1", "POST", "/push", `{"topic":"order","bizKey":"8812","delay":1800000,"body":"{\"order\":8812}"}`, 200, ok(`"order:8812:` + address + `:` + number + `"`)},
		{"2", "POST", "/push", `{"topic":"order","id":"o-1","subtopic":"vip","delay":10000,"body":"x","status":0,"ttl":12}`, 200, ok(`"o-1"`)},
		{"3", "POST", "/push", `{"topic":"order","id":"","delay":0}`, 200, ok(`"order:` + address + `:` + number + `"`)},
		{"4", "POST", "/push", `{"topic":"order","id":"o-2","createTime":1767258000000,"delay":60000,"body":"x"}`, 200, ok(`"o-2"`)},
		{"5", "POST", "/push", `{"id":"o-3","delay":1}`, 200, failed("参数topic错误")},
		{"6", "POST", "/push", `{"topic":"order","id":"o-4","delay":1,"status":3}`, 200, failed("java.lang.IllegalArgumentException: 任务o-4状态异常")},
		{"7", "POST", "/push", `{"topic":"order","id":"o-5","delay":"500","priority":3,"colour":"blue"}`, 200, ok(`"o-5"`)},
		{"8", "POST", "/push", `topic=order&delay=1`, 415, `{"status":415,"error":"Unsupported Media Type","path":"/push"}`},
		{"9", "POST", "/push", `{"topic":"order","delay":"soon"}`, 400, `{"status":400,"error":"Bad Request","path":"/push"}`},
		{"10", "GET", "/delete?jobId=o-1", "", 200, ok("null")},
		{"10", "GET", "/delete?jobId=unknown", "", 200, ok("null")},
		{"11", "GET", "/delete", "", 200, failed("非法参数")},
		{"12", "GET", "/finish?jobId=o-2", "", 200, failed("功能暂未开放")},
		{"13", "GET", "/reStoreJob?jobId=o-2", "", 200, ok("null")},
		{"13", "GET", "/reStoreJob?jobId=unknown", "", 200, failed("Job不存在!")},
		{"13", "GET", "/reStoreJob", "", 400, `{"status":400,"error":"Bad Request","path":"/reStoreJob"}`},
		{"14", "GET", "/reStore?expire=false", "", 200, ok(`"花费了` + number + ` ms，恢复 4 行数据"`)},
		{"14", "GET", "/reStore", "", 200, ok(`"花费了` + number + ` ms，恢复 4 行数据"`)},
		{"14", "GET", "/reStore?expire=maybe", "", 400, `{"status":400,"error":"Bad Request","path":"/reStore"}`},
		{"15", "GET", "/clearAll", "", 200, ok(`"花费了` + number + ` ms，删除 4 行数据"`)},
		{"15", "GET", "/clearAll", "", 200, ok(`"花费了` + number + ` ms，删除 0 行数据"`)},
		{"16", "GET", "/health", "", 200, `{"status":"UP"}`},
		{"405", "GET", "/push", "", 405, `{"status":405,"error":"Method Not Allowed","path":"/push"}`},
	} {
		h := http.Header{}
		if tt.method == http.MethodPost {
			h.Set("Content-Type", "application/json;charset=UTF-8")
		}
		if tt.example == "8" {
			h.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		status, got := s.Call(tt.method, tt.target, h, tt.body)
		if status == http.StatusOK {
			form := regexp.QuoteMeta(tt.want)
			form = strings.ReplaceAll(strings.ReplaceAll(form, number, `\d+`), address, `[\d.]+`)
			if !regexp.MustCompile("^" + form + "\n$").Match(got) {
				t.Errorf("%s: %s, want %s", tt.example, got, tt.want)
			}
			continue
		}
		var answer, want map[string]any
		if err := json.Unmarshal(got, &answer); err != nil || status != tt.status || answer["timestamp"] == nil || answer["message"] == nil || answer["exception"] == nil {
			t.Errorf("%s: %d %s", tt.example, status, got)
		}
		_ = json.Unmarshal([]byte(tt.want), &want)
		for name, value := range want {
			if answer[name] != value {
				t.Errorf("%s: %s is %v, want %v", tt.example, name, answer[name], value)
			}
		}
	}
}

// Jobs of a topic with a url are delivered to it, with what the original gives to receivers.
func TestDelivery(t *testing.T) {
	s := newServer(t)
	var topic struct{}
	s.v1("PUT", "/v1/topics/order", `{"url":"`+s.Receiver.URL+`/order"}`, &topic)
	s.want("POST", "/push", `{"topic":"order","id":"o 1/ü","bizKey":"8812 é","subtopic":"vip","ttl":12,"delay":1,"body":"täxt"}`, ok(`"o 1/ü"`))
	d := s.Await("/order", func(fronts.Delivery) bool { return true })
	got := map[string]string{"body": string(d.Content)}
	for _, name := range []string{"Content-Type", "Duehook-Topic", "Mykit-Id", "Mykit-Subtopic", "Mykit-Biz-Key", "Mykit-Ttl"} {
		got[name] = d.Header.Get(name)
	}
	if diff := cmp.Diff(map[string]string{
		"body": "täxt", "Content-Type": "text/plain; charset=utf-8", "Duehook-Topic": "order", "Mykit-Id": "o%201%2F%C3%BC", "Mykit-Subtopic": "vip",
		"Mykit-Biz-Key": "8812%20%C3%A9", "Mykit-Ttl": "12",
	}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	testenv.Eventually(t, 20*time.Second, func() bool {
		var all jobs
		s.v1("GET", "/v1/jobs?state=delivered", "", &all)
		return len(all.Data) == 1
	}, "delivered")
	// An ended job runs again, by the id of the client.
	s.want("GET", "/reStoreJob?jobId=o+1%2F%C3%BC", "", ok("null"))
	s.Await("/order", func(d fronts.Delivery) bool { return d.Header.Get("Mykit-Id") == "o%201%2F%C3%BC" })
}

type jobs struct {
	Data []struct {
		Topic, ID, State, Dialect string
		BizKey                    string `json:"biz_key"`
		DueAt                     string `json:"due_at"`
		Pull                      bool
	}
}

// Consumers fetch the jobs of a topic without a url.
func TestPull(t *testing.T) {
	s := newServer(t)
	created := job.InstantOf(time.Now())
	s.want("POST", "/push", fmt.Sprintf(`{"topic":"later","id":"o-9","bizKey":"b","createTime":%d,"delay":600000,"priority":5}`, created), ok(`"o-9"`))
	s.want("POST", "/push", `{"topic":"order","id":"o-1","subtopic":"vip","createTime":1767258000000,"delay":60000,"body":"x"}`, ok(`"o-1"`))
	var listed jobs
	s.v1("GET", "/v1/jobs?dialect=mykit&topic=later", "", &listed)
	if len(listed.Data) != 1 || listed.Data[0].DueAt != created.Add(10*time.Minute+5*time.Millisecond).RFC3339() || listed.Data[0].BizKey != "b" || listed.Data[0].Dialect != "mykit" {
		t.Errorf("listed as %+v", listed)
	}
	var pulled struct {
		Jobs []struct {
			Receipt  string
			BodyText string `json:"body_text"`
			Headers  map[string]string
		}
	}
	s.v1("POST", "/v1/topics/order/pull", `{"wait":"10s"}`, &pulled)
	if len(pulled.Jobs) != 1 || pulled.Jobs[0].BodyText != "x" || pulled.Jobs[0].Headers["Mykit-Subtopic"] != "vip" {
		t.Fatalf("pulled %+v", pulled)
	}
	s.want("POST", "/push", `{"topic":"order","id":"o-1","delay":1}`, failed("job_in_flight: An attempt of order/o-1 (uid "+s.uid("order", "o-1")+
		") is in flight, so the job can be neither replaced nor moved. Try again when the attempt has ended."))
	// A deleted job is not fetched again; a restored one is.
	s.want("GET", "/delete?jobId=o-1", "", ok("null"))
	s.v1("POST", "/v1/pull/nack", `{"receipts":[{"receipt":"`+pulled.Jobs[0].Receipt+`","delay":"0s"}]}`, &struct{}{})
	s.state("o-1", "cancelled")
	s.want("GET", "/reStoreJob?jobId=o-1", "", ok("null"))
	s.v1("POST", "/v1/topics/order/pull", `{"wait":"10s"}`, &pulled)
	if len(pulled.Jobs) != 1 {
		t.Fatalf("pulled %+v", pulled)
	}
	// reStore runs what waits for a retry.
	s.v1("POST", "/v1/pull/nack", `{"receipts":[{"receipt":"`+pulled.Jobs[0].Receipt+`","delay":"1h"}]}`, &struct{}{})
	s.state("o-1", "retrying")
	for _, target := range []string{"/reStore?expire=false", "/reStore?expire=TRUE"} {
		if status, text := s.call("GET", target, ""); status != http.StatusOK || !strings.Contains(text, "恢复 2 行数据") {
			t.Errorf("%s: %d %s", target, status, text)
		}
		if target == "/reStore?expire=false" {
			s.state("o-1", "retrying")
		}
	}
	s.v1("POST", "/v1/topics/order/pull", `{"wait":"10s"}`, &pulled)
	if len(pulled.Jobs) != 1 {
		t.Fatalf("pulled %+v", pulled)
	}
}

func (s *server) uid(topic, id string) string {
	s.T.Helper()
	var j struct{ UID string }
	s.v1("GET", "/v1/jobs/"+topic+"/"+id, "", &j)
	return j.UID
}

func (s *server) state(id, want string) {
	s.T.Helper()
	testenv.Eventually(s.T, 20*time.Second, func() bool {
		var j struct{ State string }
		s.v1("GET", "/v1/jobs/order/"+id, "", &j)
		return j.State == want
	}, want)
}

// The same id replaces the job that waits, in its topic; calls by id find all of them, and only those of
// the dialect.
func TestIDs(t *testing.T) {
	s := newServer(t)
	for _, body := range []string{
		`{"topic":"order","id":"a:1","delay":600000}`, `{"topic":"order","id":"a:1","delay":900000,"body":"new"}`, `{"topic":"a","id":"a:1","delay":600000}`,
	} {
		s.want("POST", "/push", body, ok(`"a:1"`))
	}
	s.v1("POST", "/v1/jobs", `{"topic":"own","id":"a:1","delay":"1h","pull":true}`, &struct{}{})
	s.want("GET", "/delete?jobId=a:1", "", ok("null"))
	var left jobs
	s.v1("GET", "/v1/jobs?state=waiting", "", &left)
	if len(left.Data) != 1 || left.Data[0].Topic != "own" {
		t.Errorf("left are %+v", left)
	}
	s.v1("GET", "/v1/jobs?state=cancelled", "", &left)
	if len(left.Data) != 2 {
		t.Errorf("cancelled are %+v", left)
	}
	// An id that the server made.
	_, text := s.call("POST", "/push", `{"topic":"order","bizKey":"b 1","delay":600000}`)
	var made struct{ Data string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || !strings.HasPrefix(made.Data, "order:127.0.0.1:") {
		t.Fatalf("made %s", text)
	}
	s.want("GET", "/delete?jobId="+made.Data, "", ok("null"))
	s.state(made.Data, "cancelled")
}

// A job that is pushed again in the same form counts its delay anew.
func TestPushedAgain(t *testing.T) {
	s := newServer(t)
	uid := func() string {
		s.want("POST", "/push", `{"topic":"order","id":"again","delay":600000}`, ok(`"again"`))
		var j struct{ UID string }
		s.v1("GET", "/v1/jobs/order/again", "", &j)
		return j.UID
	}
	first := uid()
	testenv.Eventually(t, 20*time.Second, func() bool { return uid() != first }, "a push of a later millisecond replaces the job")
}

func TestRefused(t *testing.T) {
	s := newServer(t)
	for body, want := range map[string]string{
		`{"topic":"a/b","delay":1}`:                               "invalid_request: topic may contain letters, digits and . _ : @ - only",
		`{"topic":"order","id":"x","delay":1,"status":9}`:         "java.lang.IllegalArgumentException: 任务x状态异常",
		`{"topic":"order","createTime":99999999999999,"delay":1}`: "invalid_request: createTime + delay must be at most 366d ahead",
		`{"topic":"order","delay":9223372036854775807}`:           "invalid_request: delay must be from 0s to 366d",
	} {
		s.want("POST", "/push", body, failed(want))
	}
	s.want("POST", "/push?dry_run=maybe", `{"topic":"order","id":"1","delay":600000}`, failed(`invalid_request: dry_run must be true or false`))
	for _, body := range []string{``, `[]`, `{`, `{"topic":{}}`, `{"topic":"order","body":{"a":1}}`, `{"topic":"order","delay":true}`, `{"topic":"\ud800"}`} {
		if status, text := s.call("POST", "/push", body); status != http.StatusBadRequest || !strings.Contains(text, `"path":"/push"`) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	s.v1("PUT", "/v1/topics/order", `{"capacity":1}`, &struct{}{})
	s.want("POST", "/push", `{"topic":"order","id":"1","delay":600000}`, ok(`"1"`))
	s.want("POST", "/push", `{"topic":"order","id":"2","delay":600000}`, failed("topic_full: The topic has as many unfinished jobs as its capacity allows. Try again when one of them has ended."))
}

// Every call but the probe needs a key that may write, and stays in the topics of its key.
func TestEveryRouteAsksForAKey(t *testing.T) {
	s := newServer(t)
	s.want("POST", "/push", `{"topic":"other","id":"o","delay":600000}`, ok(`"o"`))
	for _, r := range mykit.New(mykit.Options{}).Routes {
		for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, s.Reader: http.StatusForbidden, s.Consumer: http.StatusForbidden} {
			s.Token = token
			if r.Path == "/health" {
				want = http.StatusOK
			}
			status, text := s.call(r.Method, r.Path+"?jobId=o", `{"topic":"order"}`)
			if status != want || want != http.StatusOK && !strings.Contains(text, fmt.Sprintf(`"status":%d`, want)) {
				t.Errorf("%s %s with %q: %d %s", r.Method, r.Path, token, status, text)
			}
		}
	}
	s.Token = s.Restricted
	if status, text := s.call("POST", "/push", `{"topic":"other","id":"p","delay":600000}`); status != http.StatusForbidden {
		t.Errorf("pushed to another topic: %d %s", status, text)
	}
	s.want("POST", "/push", `{"topic":"order","id":"p","delay":600000}`, ok(`"p"`))
	s.want("GET", "/delete?jobId=o", "", ok("null"))
	s.want("GET", "/reStoreJob?jobId=o", "", failed("Job不存在!"))
	if status, text := s.call("GET", "/clearAll", ""); status != http.StatusOK || !strings.Contains(text, "删除 1 行数据") {
		t.Errorf("clearAll: %d %s", status, text)
	}
	// A page of another site cannot make a call that changes something, although it is a GET.
	status, text := s.Call("GET", "/clearAll", http.Header{"Sec-Fetch-Site": {"cross-site"}}, "")
	if status != http.StatusForbidden {
		t.Errorf("from another site: %d %s", status, text)
	}
}

// TestPushOnce: with ?on_conflict=once, an import can be repeated and tried as a dry run.
func TestPushOnce(t *testing.T) {
	s := newServer(t)
	push := func(query, result, answer string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Base+"/push"+query, strings.NewReader(`{"topic":"order","id":"o-1","delay":3600000}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+s.Token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if got := resp.Header.Get("Duehook-Result"); got != result || strings.TrimSpace(string(body)) != answer {
			t.Errorf("push%s: %q %s, want %q %s", query, got, body, result, answer)
		}
	}
	push("?on_conflict=once&dry_run=true", "created", ok(`"o-1"`))
	push("?on_conflict=once", "created", ok(`"o-1"`))
	push("?on_conflict=once", "kept", ok(`"o-1"`))
	s.want(http.MethodGet, "/delete?jobId=o-1", "", ok("null"))
	push("?on_conflict=once", "kept", ok(`"o-1"`))
	push("?on_conflict=once&dry_run=true", "kept", ok(`"o-1"`))
	push("", "created", ok(`"o-1"`))
	push("?on_conflict=often", "", failed(`invalid_request: on_conflict must be \"reject\", \"ignore\", \"replace\", \"later\", \"sooner\", \"renew\" or \"once\"`))
}
