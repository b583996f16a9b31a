package camellia_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi/camellia"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/fronts"
	"github.com/duehook/duehook/internal/testing/testenv"
)

const base = "/camellia/delayQueue/"

type server struct{ *fronts.Server }

func newServer(t *testing.T) server {
	t.Helper()
	return server{fronts.Start(t, camellia.Name, "mine*")}
}

// post makes a call as the SDK does, and reads the answer.
func (s server) post(call, form string) (int, map[string]any) {
	s.T.Helper()
	status, text := s.Call(http.MethodPost, base+call, http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}, form)
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		s.T.Fatalf("%s %s: %d %s", call, form, status, text)
	}
	return status, answer
}

// want makes a call whose answer has the code.
func (s server) want(code int, call, form string) map[string]any {
	s.T.Helper()
	status, answer := s.post(call, form)
	if status != http.StatusOK || answer["code"] != float64(code) {
		s.T.Fatalf("%s %s: %d %v, want the code %d", call, form, status, answer, code)
	}
	return answer
}

// message is the message of an answer.
func message(answer map[string]any) string {
	m, _ := answer["delayMsg"].(map[string]any)
	return fmt.Sprint(m["msgId"], " ", m["msg"], " retry ", m["retry"], " status ", m["status"])
}

// wantMessage looks a message up until it is as wanted.
func (s server) wantMessage(topic, id, want string) {
	s.T.Helper()
	testenv.Eventually(s.T, testenv.Patience, func() bool {
		return strings.HasSuffix(message(s.want(200, "getMsg", "topic="+topic+"&msgId="+id)), want)
	}, id+" is "+want)
}

// leased are the ids of messages that are due, as of pulled. Only if the machine sets its clock back, the first pull finds none.
func (s server) leased(form string) (ids []string) {
	s.T.Helper()
	testenv.Eventually(s.T, testenv.Patience, func() bool {
		ids = s.pulled("pullMsg", form)
		return ids != nil
	}, form+" has a message")
	return ids
}

// pulled are the ids of messages that a call returns, with their deliveries.
func (s server) pulled(call, form string) (ids []string) {
	s.T.Helper()
	for _, m := range s.want(200, call, form)["delayMsgList"].([]any) {
		m := m.(map[string]any)
		ids = append(ids, fmt.Sprint(m["msgId"], m["retry"], m["status"]))
	}
	return ids
}

var (
	aTime = regexp.MustCompile(`\b1[78]\d{11}\b|"\d{4}-\d\d-\d\dT[^"]*\+00:00"`)
	anID  = regexp.MustCompile(`"[0-9a-f]{32}"`)
)

// plain is JSON with equal times and equal made ids.
func plain(t *testing.T, text string) (v any) {
	t.Helper()
	text = anID.ReplaceAllString(aTime.ReplaceAllString(text, "1"), `"made"`)
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// The numbered examples of the contract. A line is an example, its request and the expected answer.
func TestExamples(t *testing.T) {
	s := newServer(t)
	file, err := os.Open("testdata/examples.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	const m = `"topic":"t","msgId":"o1","msg":"close o1","produceTime":1767258000000,"triggerTime":1767259800000,"expireTime":1767263400000,"maxRetry":10`
	lines, played := bufio.NewScanner(file), 0
	for lines.Scan() {
		parts := regexp.MustCompile(`^(\S+) (GET|POST) (\S+)(?: ([^ {]\S*))? +(?:HTTP (\d+) ?)?(\{.*)?$`).FindStringSubmatch(lines.Text())
		if parts == nil {
			if text := lines.Text(); text != "" && !strings.HasPrefix(text, "#") {
				t.Fatalf("not an example: %s", text)
			}
			continue
		}
		target := base + strings.TrimPrefix(parts[3], "/")
		if strings.HasPrefix(parts[3], "/camellia") {
			target = parts[3]
		}
		status, text := s.Call(parts[2], target, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, parts[4])
		want := map[string]string{"": "200"}[parts[5]] + parts[5]
		if fmt.Sprint(status) != want {
			t.Errorf("%s: %d %s, want %s", parts[1], status, text, want)
		} else if parts[6] != "" && !reflect.DeepEqual(plain(t, string(text)), plain(t, strings.ReplaceAll(parts[6], "{M,", "{"+m+","))) {
			t.Errorf("%s: %s, want %s", parts[1], text, parts[6])
		}
		played++
	}
	if played < 40 {
		t.Errorf("%d examples", played)
	}
}

// Examples 23 to 25, of a server with one topic. The figures of whole windows are those of TestMonitor.
func TestMonitorCalls(t *testing.T) {
	s := newServer(t)
	s.want(200, "sendMsg", "topic=t&msg=x&delayMillis=300000")
	s.want(200, "sendMsg", "topic=t&msg=x&delayMillis=0")
	s.want(200, "sendMsg", "topic=t&msg=x&delayMillis=0")
	if ids := s.leased("topic=t&batch=1"); len(ids) != 1 {
		t.Fatalf("pulled %v", ids)
	}
	get := func(call string) map[string]any {
		status, text := s.Call(http.MethodGet, base+call, nil, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", call, status, text)
		}
		return plain(t, string(text)).(map[string]any)
	}
	const sizes = `"sizeOf0To1min":0,"sizeOf1minTo10min":1,"sizeOf10minTo30min":0,"sizeOf30minTo1hour":0,"sizeOf1hourTo6hour":0,"sizeOf6hourTo1day":0,"sizeOf1dayTo7day":0,"sizeOf7dayTo30day":0,"sizeOf30dayToInfinite":0}`
	const infos = `{"code":200,"data":[{"topic":"t","waitingQueueSize":1,"waitingQueueInfo":{` + sizes + `,"readyQueueSize":1,"ackQueueSize":1}]}`
	if got := get("getTopicInfoList"); !reflect.DeepEqual(got, plain(t, infos)) {
		t.Errorf("getTopicInfoList: %v", got)
	}
	names := func(lists map[string]any) []string {
		for name, list := range lists {
			if _, is := list.([]any); !is {
				t.Errorf("%s is %v", name, list)
			}
		}
		return slices.Sorted(maps.Keys(lists))
	}
	data := get("getMonitorData")
	if got := names(data["data"].(map[string]any)); data["code"] != 200.0 || !slices.Equal(got, []string{"pullMsgTimeGapStatsList", "readyQueueTimeGapStatsList", "requestStatsList"}) {
		t.Errorf("getMonitorData: %v", data)
	}
	all := get("getMonitorString")
	if got := names(all); !slices.Equal(got, []string{"pullMsgTimeGapStats", "readyQueueTimeGapStats", "requestStats", "topicInfoStats", "waitingQueueStats"}) {
		t.Errorf("getMonitorString: %v", got)
	}
	const stats = `{"topicInfoStats":[{"topic":"t","waitingQueueSize":1,"ackQueueSize":1,"readyQueueSize":1}],"waitingQueueStats":[{"topic":"t",` + sizes + `]}`
	for name, want := range plain(t, stats).(map[string]any) {
		if !reflect.DeepEqual(all[name], want) {
			t.Errorf("%s: %v, want %v", name, all[name], want)
		}
	}
}

func TestTimes(t *testing.T) {
	s := newServer(t)
	for form, want := range map[string][2]float64{
		"delayMillis=1800000&ttlMillis=-1":  {1_800_000, 3_600_000},
		"delayMillis=80&ttlMillis=5000":     {80, 5_000},
		"delayMillis=-7&ttlMillis=":         {0, 3_600_000},
		"delayMillis=+500+&ttlMillis=86400": {500, 86_400},
	} {
		m := s.want(200, "sendMsg", "topic=t&msg=x&"+form)["delayMsg"].(map[string]any)
		got := [2]float64{m["triggerTime"].(float64) - m["produceTime"].(float64), m["expireTime"].(float64) - m["triggerTime"].(float64)}
		if got != want {
			t.Errorf("%s: %v, want %v", form, got, want)
		}
	}
}

// An import sends messages with the times that they have, once, and can try it first.
func TestImportedMessages(t *testing.T) {
	s := newServer(t)
	trigger := job.InstantOf(time.Now().Add(time.Hour))
	form := fmt.Sprintf("topic=t&msgId=a&msg=x&maxRetry=2&triggerTime=%d&expireTime=%d", trigger, trigger.Add(time.Hour))
	s.want(200, "sendMsg?on_conflict=once&dry_run=true", form)
	s.want(404, "getMsg", "topic=t&msgId=a")
	m := s.want(200, "sendMsg?on_conflict=once", form)["delayMsg"].(map[string]any)
	// The server counts the time to live from the registration, so a call's milliseconds are lost.
	if late := m["expireTime"].(float64) - float64(trigger.Add(time.Hour)); m["triggerTime"] != float64(trigger) || late < 0 || late > 10_000 {
		t.Errorf("%v, want the times of %s", m, form)
	}
	s.want(200, "deleteMsg", "topic=t&msgId=a")
	s.want(200, "sendMsg?on_conflict=once", form)
	s.wantMessage("t", "a", "x retry 0 status 7")
	s.want(200, "sendMsg", form)
	s.wantMessage("t", "a", "x retry 0 status 1")
	s.want(400, "sendMsg?on_conflict=never", form)
	if _, text := s.Call(http.MethodGet, "/v1/jobs?dialect=camellia", nil, ""); !strings.Contains(string(text), `"id":"a"`) {
		t.Errorf("the jobs of the dialect are %s", text)
	}
}

// A message that nobody acknowledges comes back, wakes a poll, and ends after its last delivery.
func TestAckTimeout(t *testing.T) {
	s := newServer(t)
	s.want(200, "sendMsg", "topic=t&msgId=a&msg=x&delayMillis=0&maxRetry=1")
	if got := s.leased("topic=t&ackTimeoutMillis=200"); !reflect.DeepEqual(got, []string{"a1 3"}) {
		t.Errorf("pulled %v", got)
	}
	if got := s.pulled("longPollingMsg", "topic=t&ackTimeoutMillis=200"); !reflect.DeepEqual(got, []string{"a2 3"}) {
		t.Errorf("polled %v", got)
	}
	s.wantMessage("t", "a", "retry 2 status 6")
	s.want(200, "sendMsg", "topic=t&msgId=a&msg=x&delayMillis=60000")
	s.wantMessage("t", "a", "retry 0 status 1")
}

// A lease outlives the time of a message; then the message is exhausted, not expired.
func TestExpiry(t *testing.T) {
	s := newServer(t)
	s.want(200, "sendMsg", "topic=leased&msgId=a&msg=x&delayMillis=0&ttlMillis=1500")
	s.leased("topic=leased&ackTimeoutMillis=2000")
	s.want(200, "sendMsg", "topic=t&msgId=a&msg=x&delayMillis=0&ttlMillis=1")
	s.wantMessage("t", "a", "retry 0 status 5")
	s.want(404, "deleteMsg", "topic=t&msgId=a")
	s.want(200, "sendMsg", "topic=t&msgId=a&msg=again&delayMillis=60000")
	s.wantMessage("t", "a", "again retry 0 status 1")
	s.wantMessage("leased", "a", "retry 1 status 6")
	if got := s.pulled("longPollingMsg", "topic=leased&longPollingTimeoutMillis=1000"); got != nil {
		t.Errorf("polled %v", got)
	}
	s.wantMessage("leased", "a", "retry 1 status 6")
}

// The id alone answers for a message, whoever has it, and late.
func TestAck(t *testing.T) {
	s := newServer(t)
	for _, id := range []string{"waits", "due", "late", "gone"} {
		delay := map[string]string{"waits": "60000"}[id] + "0"
		s.want(200, "sendMsg", "topic="+id+"&msgId=a&msg=x&delayMillis="+delay)
	}
	for _, topic := range []string{"waits", "due"} {
		s.want(200, "ackMsg", "topic="+topic+"&msgId=a&ack=no") // nobody has it: nothing happens
		if got := message(s.want(200, "getMsg", "topic="+topic+"&msgId=a")); strings.HasSuffix(got, "status 4") {
			t.Errorf("%s: %s", topic, got)
		}
		s.want(200, "ackMsg", "topic="+topic+"&msgId=a&ack=on")
		s.wantMessage(topic, "a", "retry 0 status 4")
	}
	s.leased("topic=late&ackTimeoutMillis=100")
	s.pulled("longPollingMsg", "topic=late") // another consumer has it
	s.want(200, "ackMsg", "topic=late&msgId=a&ack=true")
	s.wantMessage("late", "a", "retry 2 status 4")
	s.leased("topic=gone")
	s.want(200, "deleteMsg", "topic=gone&msgId=a&release=true") // a consumer has it
	s.want(404, "getMsg", "topic=gone&msgId=a")
	s.want(200, "sendMsg", "topic=gone&msgId=a&msg=x&delayMillis=0")
	s.leased("topic=gone")
	s.want(200, "ackMsg", "topic=gone&msgId=a&ack=true")
	s.want(404, "deleteMsg", "topic=gone&msgId=a&release=true")
	s.want(404, "getMsg", "topic=gone&msgId=a")
}

// Topics and ids may have any characters, and jobs of v1 are messages if consumers fetch them.
func TestNames(t *testing.T) {
	s := newServer(t)
	for _, id := range []string{"a/b c|1", ":a", "ü", "a:b", "."} {
		s.want(200, "sendMsg", url.Values{"topic": {"a b"}, "msgId": {id}, "msg": {"x"}, "delayMillis": {"0"}}.Encode())
		if got := s.leased("topic=a+b"); !reflect.DeepEqual(got, []string{id + "1 3"}) {
			t.Errorf("pulled %v, want %s", got, id)
		}
		s.want(200, "ackMsg", "topic=a+b&ack=true&msgId="+url.QueryEscape(id))
		s.wantMessage("a+b", url.QueryEscape(id), "status 4")
	}
	json := http.Header{"Content-Type": {"application/json"}}
	for _, body := range []string{`{"topic":"v1","id":"p","url":"https://shop.example/","delay":"1h"}`, `{"topic":"v1","id":"a","pull":true,"body":{"n":1}}`} {
		if status, text := s.Call(http.MethodPost, "/v1/jobs", json, body); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
	}
	s.want(404, "getMsg", "topic=v1&msgId=p")
	s.want(200, "ackMsg", "topic=v1&msgId=p&ack=true")
	if status, text := s.Call(http.MethodGet, "/v1/jobs/v1/p", nil, ""); status != http.StatusOK || !strings.Contains(string(text), `"waiting"`) {
		t.Errorf("a job that is not fetched: %d %s", status, text)
	}
	if got := message(s.want(200, "getMsg", "topic=v1&msgId=a")); got != `a {"n":1} retry 0 status 2` {
		t.Error(got)
	}
}

// Limits are refused with a text that names the parameter.
func TestLimits(t *testing.T) {
	s := newServer(t)
	for form, parameter := range map[string]string{
		"topic=t&msg=x&delayMillis=9223372036854775807":                 "delayMillis",
		"topic=t&msg=x&delayMillis=0&ttlMillis=999999999999":            "ttlMillis",
		"topic=t&msg=x&delayMillis=0&maxRetry=1001":                     "maxRetry",
		"topic=t&msg=%ff&delayMillis=0":                                 "msg",
		"topic=t&msg=x&delayMillis=0&msgId=" + strings.Repeat("x", 129): "msgId",
		"topic=" + strings.Repeat("%20", 99) + "&msg=x&delayMillis=0":   "topic",
	} {
		if text, _ := s.want(400, "sendMsg", form)["msg"].(string); !strings.Contains(text, parameter) {
			t.Errorf("%.60s: %q", form, text)
		}
	}
	if text := s.want(400, "sendMsg?dry_run=maybe", "topic=t&msg=x&delayMillis=0")["msg"]; text != `dry_run must be true or false` {
		t.Errorf("a dry run: %q", text)
	}
}

// Every call needs a key of its scope, and one for its topic. The token may be in the path.
func TestEveryRouteAsksForAKey(t *testing.T) {
	s := newServer(t)
	admin := s.Token
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	const ask = "topic=theirs&msgId=a&msg=x&delayMillis=0&ack=true&longPollingTimeoutMillis=1"
	reads := []string{"getMsg", "getTopicInfo", "getTopicInfoList", "getMonitorData", "getMonitorString"}
	consumes := []string{"pullMsg", "longPollingMsg", "ackMsg"}
	for _, r := range camellia.New(camellia.Options{}).Routes {
		call := path.Base(r.Path)
		if strings.HasPrefix(r.Path, "/camellia/health/") && (call == "check" || call == "status") {
			continue // load balancers have no key
		}
		expect := map[string]int{
			"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, s.Restricted: http.StatusForbidden,
			s.Reader: http.StatusForbidden, s.Consumer: http.StatusForbidden,
		}
		if slices.Contains(reads, call) {
			expect[s.Reader] = http.StatusOK
		}
		if slices.Contains(consumes, call) {
			expect[s.Consumer] = http.StatusOK
		}
		if call == "getTopicInfoList" {
			expect[s.Restricted] = http.StatusOK // of its own topics
		}
		var callers sync.WaitGroup // together: a refused long poll takes a second
		for token, want := range expect {
			caller := *s.Server
			caller.Token = token
			callers.Go(func() {
				status, text := caller.Call(r.Method, r.Path+"?"+ask, nil, "")
				var answer struct{ Message string }
				if status != want || status != http.StatusOK && (json.Unmarshal(text, &answer) != nil || answer.Message == "") {
					t.Errorf("%s %s with %q: %d %s", r.Method, r.Path, token, status, text)
				}
			})
		}
		callers.Wait()
	}
	s.Token = ""
	for _, slash := range []string{"", "/"} {
		if status, text := s.Call(http.MethodPost, "/camellia/"+s.Restricted+slash+base+"sendMsg", form, "topic=mine&msg=x&delayMillis=0"); status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
	}
	if status, text := s.Call(http.MethodPost, "/camellia/wrong"+base+"sendMsg", form, ask); status != http.StatusUnauthorized || strings.Contains(string(text), "wrong") {
		t.Errorf("%d %s", status, text)
	}
	s.Token = s.Restricted
	if status, text := s.Call(http.MethodGet, base+"getTopicInfoList", nil, ""); status != http.StatusOK || !strings.Contains(string(text), `"topic":"mine"`) {
		t.Errorf("%d %s", status, text)
	}
	s.Token = admin
	s.want(200, "sendMsg", "topic=theirs&msg=x&delayMillis=0")
}

// A page of another site takes no server offline through a browser, whatever the method.
func TestPagesOfOtherSitesTakeNoServerOffline(t *testing.T) {
	s := newServer(t)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodDelete} {
		for name, h := range map[string]http.Header{
			"names the site": {"Sec-Fetch-Site": {"cross-site"}}, "asks first": {"Origin": {"http://evil.example"}}, "has no HTTPS": {"User-Agent": {"Mozilla/5.0"}},
		} {
			if name == "has no HTTPS" && method != http.MethodGet {
				continue // other methods have an Origin
			}
			if status, text := s.Call(method, "/camellia/health/offline", h, ""); status != http.StatusForbidden {
				t.Errorf("%s from a browser that %s: %d %s", method, name, status, text)
			}
		}
	}
	if status, text := s.Call(http.MethodGet, "/camellia/health/status", nil, ""); status != http.StatusOK {
		t.Errorf("the server is offline: %d %s", status, text)
	}
}

// A message moves from one server to another as docs/migrate/camellia.md says; repeating it does no harm.
func TestMovingOver(t *testing.T) {
	original, s := newServer(t), newServer(t)
	sent := original.want(200, "sendMsg", "topic=t&msgId=o1&msg=close+o1&delayMillis=1800000&ttlMillis=7000&maxRetry=3")["delayMsg"].(map[string]any)
	var moved map[string]any
	for range 2 {
		m := original.want(200, "getMsg", "topic=t&msgId=o1")["delayMsg"].(map[string]any)
		trigger := m["triggerTime"].(float64)
		form := fmt.Sprintf("topic=t&msgId=o1&msg=close+o1&delayMillis=%.0f&ttlMillis=%.0f&maxRetry=%v", trigger-float64(job.InstantOf(job.SystemClock().Now())), m["expireTime"].(float64)-trigger, m["maxRetry"])
		moved = s.want(200, "sendMsg", form)["delayMsg"].(map[string]any)
	}
	original.want(200, "deleteMsg", "topic=t&msgId=o1")
	original.want(404, "deleteMsg", "topic=t&msgId=o1")
	late := moved["triggerTime"].(float64) - sent["triggerTime"].(float64)
	if ttl := moved["expireTime"].(float64) - moved["triggerTime"].(float64); late < 0 || late > 60_000 || ttl != 7000 || moved["maxRetry"] != sent["maxRetry"] {
		t.Errorf("%v became %v", sent, moved)
	}
	s.wantMessage("t", "o1", "close o1 retry 0 status 1")
}
