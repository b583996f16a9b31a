package httpapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/camellia"
	"github.com/duehook/duehook/httpapi/mykit"
	"github.com/duehook/duehook/httpapi/qstash"
	pb "github.com/duehook/duehook/httpapi/rpc/duehookv1"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/testing/fronts"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// marked is in every place where a client can put a secret.
const marked = "hush-hush-0001"

// shows reports whether a text has the secret, as it is or in base64.
func shows(text []byte) bool {
	for i := range 3 { // by the place within three bytes
		code := base64.StdEncoding.EncodeToString([]byte("xx"[:i%3] + marked))
		if bytes.Contains(text, []byte(code[4:len(code)-4])) {
			return true
		}
	}
	return bytes.Contains(text, []byte(marked))
}

// logged is the log of a node.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// scene is a node with everything that can carry a secret.
type scene struct {
	*fronts.Server
	log  *logged
	dead string // the id of a dead message of qstash
	live string // the id of one that waits
}

func (s *scene) must(method, target string, h http.Header, body string) []byte {
	s.T.Helper()
	if h == nil {
		h = http.Header{"Content-Type": {"application/json"}}
	}
	status, text := s.Call(method, target, h, body)
	if status >= 300 {
		s.T.Fatalf("%s %s: %d %s", method, target, status, text)
	}
	return text
}

const form = "application/x-www-form-urlencoded"

// newScene plants the secret by every front.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{log: &logged{}}
	s.Server = fronts.StartLogging(t, s.log, "camellia,mykit,qstash", "elsewhere", "--log-level=debug", "--log-format=json", "--signing=on", "--inbox-url="+inboxes(t))
	fails := s.Receiver.URL + "/moved?token=" + marked
	headers := `"headers":{"Authorization":"Bearer ` + marked + `","X-Own":"` + marked + `"}`
	callbacks := `"callbacks":{"dead":{"url":"` + fails + `",` + headers + `},"delivered":{"url":"` + fails + `",` + headers + `},"include_request":true}`
	spec := `"url":"` + fails + `",` + headers + `,` + callbacks + `,"body":{"pin":"` + marked + `"},"retry":{"limit":0}`

	s.must("PUT", "/v1/topics/topic", nil, `{"url":"`+fails+`",`+headers+`,`+callbacks+`}`)
	s.must("PUT", "/v1/groups/thing", nil, `{"members":[{"name":"m","url":"`+fails+`",`+headers+`}]}`)
	s.must("PUT", "/v1/alerts/rules/thing", nil, `{"metric":"backlog","topic":"topic","above":1,"url":"`+fails+`"}`)
	s.must("PUT", "/v1/schedules/thing", nil, `{"every":"1h","job":{"topic":"topic",`+spec+`}}`)
	s.must("POST", "/v1/jobs", nil, `{"topic":"topic","id":"thing","delay":"1h",`+spec+`}`)
	s.must("POST", "/v1/jobs", nil, `{"topic":"topic","id":"dies",`+spec+`}`)
	s.must("POST", "/v1/jobs", nil, `{"topic":"pulled","id":"thing","pull":true,`+headers+`,"body_text":"`+marked+`"}`)
	s.must("POST", "/v1/operations", nil, `{"action":"replay","filter":{"topic":"pulled","state":["dead"]},"set":{`+headers+`}}`)

	qstashHeaders := http.Header{
		"Content-Type": {"text/plain"}, "Upstash-Forward-Authorization": {"Bearer " + marked}, "Upstash-Retries": {"0"},
		"Upstash-Callback": {fails}, "Upstash-Failure-Callback": {fails}, "Upstash-Callback-Forward-X-Own": {marked}, "Upstash-Failure-Callback-Forward-X-Own": {marked},
	}
	with := func(name, value string) http.Header {
		h := qstashHeaders.Clone()
		h.Set(name, value)
		return h
	}
	s.dead = s.id(s.must("POST", "/v2/publish/"+fails, qstashHeaders, marked))
	s.live = s.id(s.must("POST", "/v2/publish/"+fails, with("Upstash-Delay", "1h"), marked))
	s.must("POST", "/v2/enqueue/thing/"+fails, with("Upstash-Delay", "1h"), marked)
	s.must("POST", "/v2/schedules/"+fails, with("Upstash-Cron", "0 0 1 1 *"), marked)
	s.must("POST", "/v2/topics/urls/endpoints", nil, `{"endpoints":[{"name":"m","url":"`+fails+`"}]}`)
	s.must("POST", "/camellia/delayQueue/sendMsg", http.Header{"Content-Type": {form}}, "topic=topic&msgId=camel&delayMillis=3600000&ttlMillis=3600000&msg="+marked)
	s.must("POST", "/push", nil, `{"topic":"topic","id":"kit","delay":3600000,"body":"`+marked+`"}`)

	testenv.Eventually(t, 20*time.Second, func() bool {
		var dlq struct{ Messages []struct{ DLQID string } }
		if err := json.Unmarshal(s.must("GET", "/v2/dlq", nil, ""), &dlq); err != nil {
			t.Fatal(err)
		}
		text := s.must("GET", "/v1/jobs?state=dead", nil, "")
		if !bytes.Contains(s.must("GET", "/v1/inboxes", nil, ""), []byte(`"failed":2`)) {
			return false
		}
		return len(dlq.Messages) > 1 && strings.Count(string(text), `"callback_of":`) > 1 // callbacks died, too
	}, "the jobs and their callbacks are dead letters, and the rows have failed")
	return s
}

// inboxes are databases whose URLs have the secret. One of them answers, and has rows that have it, too.
func inboxes(t *testing.T) string {
	t.Helper()
	server := testenv.Postgres(t, false)
	db, err := pgx.Connect(t.Context(), server.URL("postgres"))
	must.OK(t, err)
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	_, err = db.Exec(t.Context(), inbox.PostgresTable)
	must.OK(t, err)
	for _, url := range []string{"ftp://shop.example/?token=" + marked, "https://shop.example/?token=" + marked} {
		_, err = db.Exec(t.Context(), "INSERT INTO duehook_inbox (request) VALUES ($1)",
			`{"topic":"topic","url":"`+url+`","unknown":"`+marked+`","headers":{"X-Own":"`+marked+`"},"body":"`+marked+`"}`)
		must.OK(t, err)
	}
	with := func(url string) string { return strings.Replace(url, "@", ":"+marked+"@", 1) }
	return "shop=" + with(server.URL("postgres")) + ",gone=" + with("postgres://duehook@127.0.0.1:1/gone") + ",lost=" + with("mysql://duehook@127.0.0.1:1/lost")
}

func (s *scene) id(text []byte) string {
	s.T.Helper()
	var made struct{ MessageID string }
	if err := json.Unmarshal(text, &made); err != nil {
		s.T.Fatal(err)
	}
	return made.MessageID
}

// request is a call of some front.
type request struct{ method, target, contentType, body string }

// requests are calls of every route of every front, for what there is.
func (s *scene) requests() (all []request) {
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(s.must("GET", "/openapi.json", nil, ""), &document); err != nil {
		s.T.Fatal(err)
	}
	add := func(method, path string) {
		for _, id := range []string{"thing", "dies", s.live, s.dead, "dlq_" + strings.TrimPrefix(s.dead, "msg_"), "camel"} {
			for _, topic := range []string{"topic", "pulled", "qstash"} {
				target := strings.NewReplacer("{topic}", topic, "{id}", id, "{rule}", id, "{schedule}", id, "{group}", id, "{name}", "urls", "{inbox}", "shop", "*", "thing").Replace(path)
				bodies := []request{{method, target, "", ""}}
				if method != http.MethodGet {
					values := url.Values{"topic": {topic}, "msgId": {id}}
					bodies = []request{
						{method, target, "application/json", `{"topic":"` + topic + `","id":"` + id + `","jobId":"` + id + `","action":"cancel","filter":{"topic":"` + topic + `"}}`},
						{method, target, "application/json", `{"action":"cancel","filter":{"topic":"` + topic + `"}}`},
						{method, target, "application/json", `{"topic":"` + topic + `","id":"` + id + `"}`},
						{method, target, form, values.Encode()},
					}
				}
				for _, r := range bodies {
					late := strings.Contains(target, "longPoll") && (id != "thing" || topic != "topic" || r.contentType != form) // each refusal is held back
					if !slices.Contains(all, r) && !late {
						all = append(all, r)
					}
				}
			}
		}
	}
	for path, methods := range document.Paths {
		for method := range methods {
			if path == "/v1/events" || method == "parameters" {
				continue
			}
			if path == "/v1/operations" && method == "post" {
				path += "?dry_run=true"
			}
			add(strings.ToUpper(method), path)
		}
	}
	for _, d := range []httpapi.Dialect{camellia.New(camellia.Options{}), mykit.New(mykit.Options{}), qstash.New(qstash.Options{})} {
		for _, r := range d.Routes {
			add(r.Method, r.Path)
		}
	}
	services := pb.File_duehook_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			add(http.MethodPost, "/"+string(services.Get(i).FullName())+"/"+string(methods.Get(j).Name()))
		}
	}
	return all
}

// Whatever route of whatever front is asked, a secret is shown only to keys that could have set it, or
// that consume the jobs. The calls of keys that may not see it change nothing.
func TestNoFrontShowsSecretsToScopesThatMayNotSeeThem(t *testing.T) {
	s := newScene(t)
	events := s.watch(s.Reader)
	admin, shown := s.Token, map[string]bool{}
	all := s.requests()
	for _, r := range all {
		for name, token := range map[string]string{"no key": "", "a reader": s.Reader, "a consumer": s.Consumer, "a writer of another topic": s.Restricted} {
			consumes := token == s.Consumer && (strings.Contains(r.target, "pull") || strings.Contains(r.target, "Pull") || strings.Contains(r.target, "longPoll"))
			if consumes { // it gets jobs whole
				continue
			}
			s.Token = token
			status, text := s.Call(r.method, r.target, http.Header{"Content-Type": {r.contentType}}, r.body)
			if shows(text) {
				t.Errorf("%s %s %s shows a secret to %s: %d %s", r.method, r.target, r.body, name, status, text)
			}
			if status >= 500 {
				t.Errorf("%s %s %s of %s: %d %s", r.method, r.target, r.body, name, status, text)
			}
		}
	}
	s.Token = admin
	for _, r := range all {
		path, _, _ := strings.Cut(r.target, "?")
		if r.method == http.MethodGet || strings.HasSuffix(path, "getMsg") || strings.HasPrefix(path, "/duehook.v1.Jobs/Get") {
			if _, text := s.Call(r.method, r.target, http.Header{"Content-Type": {r.contentType}}, r.body); shows(text) {
				shown[path] = true
			}
		}
	}
	for _, path := range []string{
		"/v1/jobs", "/v1/jobs/topic/thing", "/v1/jobs/topic/dies", "/v1/jobs/topic/dies/attempts", "/v1/jobs/topic/dies/explain", "/v1/jobs/topic/thing/registration", "/v1/topics", "/v1/topics/topic",
		"/v1/groups", "/v1/groups/thing", "/v1/groups/thing/members", "/v1/schedules", "/v1/schedules/thing", "/v1/schedules/thing/registration", "/v1/alerts/rules", "/v1/alerts/rules/thing", "/v1/inboxes/shop/rows",
		"/camellia/delayQueue/getMsg", "/v2/messages/" + s.live, "/v2/dlq", "/v2/logs", "/v2/events", "/v2/schedules", "/v2/topics", "/v2/topics/urls", "/duehook.v1.Jobs/Get",
	} {
		if !shown[path] {
			t.Errorf("%s does not show the secret to an admin, so this test does not test it", path)
		}
	}
	s.must("POST", "/v1/jobs", nil, `{"topic":"topic","id":"last","delay":"1h","url":"https://shop.example/?`+marked+`"}`)
	if text := events(); shows(text) || !bytes.Contains(text, []byte("last")) {
		t.Errorf("a reader watched %s", text)
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for line := range bytes.Lines(s.log.text.Bytes()) {
		if shows(line) {
			t.Errorf("the log shows a secret: %s", line)
		}
	}
}

// watch watches events. The returned function returns those until that of the job last.
func (s *scene) watch(token string) func() []byte {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), time.Minute)
	s.T.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Base+"/v1/events", nil)
	if err != nil {
		s.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.T.Fatal(err)
	}
	return func() []byte {
		defer func() { _ = resp.Body.Close() }()
		var all []byte
		for room := make([]byte, 4096); !bytes.Contains(all, []byte(`"last"`)); {
			n, err := resp.Body.Read(room)
			if err != nil {
				s.T.Fatalf("%v after %s", err, all)
			}
			all = append(all, room[:n]...)
		}
		return all
	}
}
