package importer_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/importer"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// now is before what the originals wrote is due.
var now = time.Unix(1_795_716_000, 0)

// clock stands still.
type clock struct {
	job.Clock
	at time.Time
}

func (c clock) Now() time.Time { return c.at }

func text(n int64) string { return strconv.FormatInt(n, 10) }

// opened starts a Redis.
func opened(t *testing.T) (*redis.Client, importer.Options) {
	t.Helper()
	r := testenv.StartRedis(t)
	c := redis.NewClient(&redis.Options{Addr: r.Addr()})
	t.Cleanup(func() { _ = c.Close() })
	return c, importer.Options{Clock: clock{at: now}, Address: r.URL(), URL: "https://shop.example/{topic}"}
}

func do(t *testing.T, c *redis.Client, commands ...[]any) {
	t.Helper()
	for _, command := range commands {
		if err := c.Do(t.Context(), command...).Err(); err != nil {
			t.Fatalf("%v: %v", command, err)
		}
	}
}

// read returns what can be registered by topic and id, and why the others cannot.
func read(t *testing.T, from string, o importer.Options) (jobs map[string]importer.Job, refused map[string]string) {
	t.Helper()
	source, err := importer.Open(t.Context(), from, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	jobs, refused = map[string]importer.Job{}, map[string]string{}
	for j, err := range source.Jobs {
		key := j.Registration.Topic + "/" + j.Registration.ID
		switch _, twice := jobs[key]; {
		case err != nil:
			t.Fatal(err)
		case twice:
			t.Errorf("%s was read twice", key)
		case j.Err != nil:
			refused[key] = j.Err.Error()
		default:
			jobs[key] = j
		}
	}
	return jobs, refused
}

func want(t *testing.T, got map[string]importer.Job, want ...client.Registration) {
	t.Helper()
	all := map[string]importer.Job{}
	for _, r := range want {
		r.OnConflict = client.Once
		all[r.Topic+"/"+r.ID] = importer.Job{Registration: r}
	}
	if diff := cmp.Diff(all, got, cmp.Transformer("utc", time.Time.UTC)); diff != "" {
		t.Error(diff)
	}
}

// The values of the pool are those that delay-queue wrote for POST /push.
func TestOuqiang(t *testing.T) {
	t.Parallel()
	c, o := opened(t)
	const (
		due   = "\x85\xa11\xa4mail\xa12\xa5due/1\xa13\xcek\bv\x0f\xa14\x1e\xa15\xa8plain \xc3\xa9"
		taken = "\x85\xa11\xa5taken\xa12\xa5taken\xa13\xcek\bv\x0f\xa14\xcd\x0b\xb8\xa15\xa3[1]"
		order = "\x85\xa11\xa5order\xa12\xa3o-0\xa13\xcek\b\x84\x1f\xa14x\xa15\xa8{\"n\": 0}"
	)
	const pushed, orderDue = 1_795_716_623, 1_795_720_223
	do(t, c, []any{"SET", "due/1", due}, []any{"RPUSH", "dq_queue_mail", "due/1"},
		[]any{"SET", "taken", taken}, []any{"ZADD", "dq_bucket_2", pushed + 3000, "taken"},
		[]any{"SET", "o-0", order}, []any{"ZADD", "dq_bucket_1", pushed, "o-0", orderDue, "deleted"},
		[]any{"SET", "odd", "\x01"}, []any{"ZADD", "dq_bucket_3", pushed, "odd"})
	o.Clock = clock{at: time.Unix(pushed+1, 0)}
	jobs, refused := read(t, "ouqiang", o)
	want(t, jobs,
		client.Registration{Topic: "mail", ID: ":due:2f1", URL: "https://shop.example/mail", At: time.Unix(pushed, 0), BodyText: "plain é", Timeout: client.Duration(30 * time.Second)},
		client.Registration{Topic: "taken", ID: "taken", URL: "https://shop.example/taken", At: time.Unix(pushed+3000, 0), BodyText: "[1]", ContentType: "application/json", Timeout: client.Duration(time.Minute)},
		// It was pushed again with a longer delay: the bucket has an old score.
		client.Registration{Topic: "order", ID: "o-0", URL: "https://shop.example/order", At: time.Unix(orderDue, 0), BodyText: `{"n": 0}`, ContentType: "application/json", Timeout: client.Duration(time.Minute)})
	if diff := cmp.Diff(map[string]string{"/odd": "it is no job of delay-queue"}, refused); diff != "" {
		t.Error(diff)
	}
	o.Set = map[string]string{"bucket_name": "mine_%d", "queue_name": "mine_%s"}
	wantError(t, "ouqiang", o, importer.ErrNothing, "databases with keys: 0")
}

// wantError opens and reads a source, and wants an error.
func wantError(t *testing.T, from string, o importer.Options, reason error, text string) {
	t.Helper()
	source, err := importer.Open(t.Context(), from, o)
	if err == nil {
		defer func() { _ = source.Close() }()
		for _, err = range source.Jobs {
		}
	}
	if err == nil || reason != nil && !errors.Is(err, reason) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want an error with %q", err, text)
	}
}

func TestCamellia(t *testing.T) {
	t.Parallel()
	c, o := opened(t)
	ms := now.UnixMilli()
	message := func(id, rest string) []any {
		return []any{"SET", "camellia_delay_queue_msg|shop|a b|" + id, `{"expireTime":` + rest + `,"topic":"a b","msgId":"` + id + `"}`}
	}
	expires := text(ms + 7_200_000)
	trigger := text(ms + 3_600_000)
	do(t, c, []any{"ZADD", "camellia_delay_queue_topics|shop", ms, "a b"}, []any{"ZADD", "camellia_delay_queue_topics|default", ms, "other"},
		message("w", expires+`,"triggerTime":`+trigger+`,"maxRetry":10,"retry":0,"status":1,"msg":"{\"n\": 1}"`),
		message("r", expires+`,"triggerTime":`+text(ms-1000)+`,"maxRetry":3,"retry":1,"status":3,"msg":"x"`),
		message("a", expires+`,"triggerTime":`+text(ms-1000)+`,"maxRetry":3,"retry":3,"status":3,"msg":"x"`),
		message("late", text(ms-1)+`,"triggerTime":`+text(ms-1000)+`,"maxRetry":3,"retry":0,"status":1,"msg":"x"`),
		message("spent", expires+`,"triggerTime":`+text(ms-1000)+`,"maxRetry":0,"retry":1,"status":3,"msg":"x"`),
		message("done", expires+`,"triggerTime":`+text(ms-1000)+`,"maxRetry":0,"retry":1,"status":4,"msg":"x"`),
		[]any{"ZADD", "camellia_delay_queue_waiting|{|shop|a b|}", trigger, "w", trigger, "gone", text(ms - 1000), "late"},
		[]any{"LPUSH", "camellia_delay_queue_ready|{|shop|a b|}", "r", "spent", "done"},
		[]any{"ZADD", "camellia_delay_queue_ack|{|shop|a b|}", text(ms + 30_000), "a"})
	o.Set, o.URL = map[string]string{"namespace": "shop"}, ""
	jobs, refused := read(t, "camellia", o)
	got, sent := map[string]time.Time{}, map[string]string{}
	for key, j := range jobs {
		got[key], sent[key] = j.Registration.At, string(j.Call.Body)
		if j.Call.Path != "/camellia/delayQueue/sendMsg?on_conflict=once" {
			t.Errorf("%s calls %s", key, j.Call.Path)
		}
	}
	due := map[string]time.Time{":a:20b/w": now.Add(time.Hour), ":a:20b/r": now.Add(-time.Second), ":a:20b/a": now.Add(30 * time.Second)}
	if diff := cmp.Diff(due, got, cmp.Transformer("utc", time.Time.UTC)); diff != "" {
		t.Error(diff)
	}
	form := func(id, msg, maxRetry string) string {
		return "expireTime=" + expires + "&maxRetry=" + maxRetry + "&msg=" + msg + "&msgId=" + id + "&topic=a+b&triggerTime=" + text(due[":a:20b/"+id].UnixMilli())
	}
	if diff := cmp.Diff(map[string]string{
		":a:20b/w": form("w", "%7B%22n%22%3A+1%7D", "10"), ":a:20b/r": form("r", "x", "2"), ":a:20b/a": form("a", "x", "0"),
	}, sent); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{":a:20b/late": "it has expired", ":a:20b/spent": "its deliveries are exhausted"}, refused); diff != "" {
		t.Error(diff)
	}
	o.DryRun = true
	if jobs, _ = read(t, "camellia", o); !strings.HasSuffix(jobs[":a:20b/w"].Call.Path, "?on_conflict=once&dry_run=true") {
		t.Errorf("a dry run calls %s", jobs[":a:20b/w"].Call.Path)
	}
	o.Set["namespace"] = "none"
	wantError(t, "camellia", o, importer.ErrNothing, "namespace none")
}

func TestMykit(t *testing.T) {
	t.Parallel()
	c, o := opened(t)
	ms := text(now.UnixMilli())
	do(t, c, []any{
		"HSET", "io.mykit.delay:jobs:pools",
		"o-1", `{"bizKey":"8812","body":"{}","buckedName":"io.mykit.delay:jobs:1","createTime":` + ms + `,"delay":60000,"id":"o-1","status":1,"topic":"order","ttl":0}`,
		"o-2", `{"createTime":` + ms + `,"delay":1,"id":"o-2","status":3,"topic":"order"}`,
		"o-3", "\x01",
	})
	o.Set = map[string]string{"name": "jobs"}
	jobs, refused := read(t, "mykit", o)
	j := jobs["order/o-1"]
	const push = `{"bizKey":"8812","body":"{}","createTime":1795716000000,"delay":60000,"id":"o-1","topic":"order","ttl":0}`
	if j.Call == nil || j.Call.Path != "/push?on_conflict=once" || string(j.Call.Body) != push || !j.Registration.At.Equal(now.Add(time.Minute)) || len(jobs) != 1 {
		t.Errorf("%+v %+v", j.Registration, j.Call)
	}
	if diff := cmp.Diff(map[string]string{"default/o-3": "it is no job of mykit-delay"}, refused); diff != "" {
		t.Error(diff)
	}
	o.Set = nil
	wantError(t, "mykit", o, importer.ErrUsage, "--set name=NAME")
	o.Set = map[string]string{"name": "none"}
	wantError(t, "mykit", o, importer.ErrNothing, "jobs in io.mykit.delay:none:pools")
}

func TestServer(t *testing.T) {
	t.Parallel()
	answers := map[string]struct {
		status       int
		result, body string
	}{
		"new":     {200, "created", `{"success":true}`},
		"known":   {200, "kept", `{"success":true}`},
		"refused": {200, "", `{"success":false,"message":"no"}`},
		"wrong":   {400, "", `{"message":"not so"}`},
		"locked":  {401, "", `{"message":"a key is missing"}`},
		"missing": {404, "", `{}`},
		// In the form of camellia-delay-queue.
		"bad":  {200, "", `{"code":400,"msg":"maxRetry is wrong","delayMsg":null}`},
		"full": {200, "", `{"code":500,"msg":"the topic is full","delayMsg":null}`},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a := answers[string(body)]
		if r.Header.Get("Authorization") != "Bearer T" || r.Method != http.MethodPost || r.URL.String() != "/push?on_conflict=once&dry_run=true" {
			t.Errorf("%s %s, Authorization %s", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		w.Header().Set("Duehook-Result", a.result)
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	defer s.Close()
	server := importer.NewServer(s.URL, "T")
	job := func(body string) importer.Job {
		return importer.Job{Call: &importer.Call{Dialect: "mykit", Path: "/push?on_conflict=once&dry_run=true", Body: []byte(body)}}
	}
	got, err := server.Register(t.Context(), []importer.Job{job("new"), job("known"), job("refused"), job("wrong"), job("bad")})
	if err != nil || len(got) != 5 || got[4].Err == nil || got[4].Err.Error() != "maxRetry is wrong" || !got[0].Created || got[1].Created || got[1].Err != nil || got[2].Err.Error() != "no" || got[3].Err.Error() != "not so" {
		t.Errorf("%+v, %v", got, err)
	}
	for body, text := range map[string]string{"locked": "401 Unauthorized: a key is missing", "missing": "--dialects mykit", "full": "500: the topic is full"} {
		if _, err := server.Register(t.Context(), []importer.Job{job(body)}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	o := importer.Options{Clock: clock{at: now}, Address: "redis://127.0.0.1:1"}
	wantError(t, "asynq", o, importer.ErrUnreachable, "--source")
	wantError(t, "kafka", o, importer.ErrUsage, "asynq, camellia, ")
	o.Set = map[string]string{"colour": "red"}
	wantError(t, "asynq", o, importer.ErrUsage, "it has sets")
	wantError(t, "asynq", importer.Options{Address: "http://shop.example"}, importer.ErrUsage, "rediss://")
	wantError(t, "asynq", importer.Options{URL: "http://a", Pull: true}, importer.ErrUsage, "either")
	wantError(t, "asynq", importer.Options{URL: "http://a/{queue}"}, importer.ErrUsage, "{queue}")
	c, locked := opened(t)
	do(t, c, []any{"CONFIG", "SET", "requirepass", "secret"})
	wantError(t, "asynq", locked, nil, "refuses the password")
	with := strings.Replace(strings.TrimSuffix(locked.Address, "/0"), "://", "://:secret@", 1)
	wantError(t, "asynq", importer.Options{Clock: clock{at: now}, Address: with + "/99"}, importer.ErrUsage, "no such database")
	wantError(t, "asynq", importer.Options{Clock: clock{at: now}, Address: with}, importer.ErrNothing, "no other database")
	wantError(t, "asynq", importer.Options{Clock: clock{at: now}, Address: with, Set: map[string]string{"sets": "all"}}, importer.ErrUsage, "separated by commas")
}
