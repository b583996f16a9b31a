package qstash_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/qstash"
	"github.com/duehook/duehook/internal/testing/fronts"
)

// filled stores a group, a queue, a message and a schedule.
func filled(p *fronts.Parts) {
	for _, call := range []struct{ target, headers, body string }{
		{"topics/g/endpoints", "", `{"endpoints":[{"name":"a","url":"https://a.example/"},{"url":"https://b.example/"}]}`},
		{"queues", "", `{"queueName":"q","parallelism":2}`},
		{"enqueue/q/https://shop.example/paid", "Upstash-Delay: 1h", "x"},
		{"schedules/https://shop.example/paid", "Upstash-Cron: 30 4 * * *\nUpstash-Schedule-Id: nightly", "x"},
	} {
		p.Call(http.MethodPost, "/v2/"+call.target, fronts.Headers(call.headers), call.body)
	}
}

// Whatever a client sends, the answer is one of the contract. A refused call and a GET change nothing,
// and what was accepted can be looked up.
func FuzzCalls(f *testing.F) {
	routes := qstash.New(qstash.Options{}).Routes
	at := func(path string) uint8 {
		for i := range routes {
			if routes[i].Method+" "+routes[i].Path == path {
				return uint8(i)
			}
		}
		f.Fatal(path)
		return 0
	}
	f.Add(at("POST /v2/publish/*"), "https://shop.example/paid?a=1&upstash-retries=5", "Upstash-Delay: 90s\nUpstash-Retry-Delay: pow(2, retried) * 1000\nUpstash-Label: a,b", `{"n":1}`)
	f.Add(at("POST /v2/publish/*"), "g", "Upstash-Callback: https://h\nUpstash-Callback-Retries: 2\nUpstash-Failure-Callback: https://f\nUpstash-Failure-Callback-Retries: 2\nUpstash-Callback-Forward-X: 1", "\xff")
	f.Add(at("POST /v2/publish/*"), "https:/h", "Upstash-Flow-Control-Key: a/b\nUpstash-Flow-Control-Value: parallelism=2, rate=3, period=5s\nContent-Type: application/json", " 1 ")
	f.Add(at("POST /v2/publish/*"), "https://h", "Upstash-Flow-Control-Key: k\nUpstash-Flow-Control-Value: rate=1\nUpstash-Forward-Host: h", "")
	f.Add(at("POST /v2/publish/*"), "https://h", "Upstash-Not-Before: 99999999999\nUpstash-Content-Based-Deduplication: TRUE\nUpstash-Timeout: 1.5h", "text")
	f.Add(at("POST /v2/enqueue/{queue}/*"), "q/https://h", "Upstash-Deduplication-Id: 1", "")
	f.Add(at("POST /v2/enqueue/{queue}/*"), "new/https://h", "Upstash-Method: TRACE", "")
	f.Add(at("POST /v2/batch"), "", "", `[{"destination":"https://h","headers":{"upstash-delay":"3s"},"body":"a"},{"destination":"g"},{"destination":"https://h","queue":"new","body":null},{"destination":"ftp://x"}]`)
	f.Add(at("POST /v2/schedules/*"), "https://h", "Upstash-Cron: CRON_TZ=Asia/Shanghai */5 * * * 1-5\nUpstash-Queue-Name: q\nContent-Type: text/plain", "x")
	f.Add(at("POST /v2/schedules/*"), "https://h", "Upstash-Cron: 1 2 3 4\nUpstash-Queue-Name: new", "")
	f.Add(at("POST /v2/queues"), "", "", `{"queueName":"new","parallelism":3,"paused":true}`)
	f.Add(at("POST /v2/queues"), "", "", `{"queueName":"new","parallelism":1000000}`)
	f.Add(at("POST /v2/topics/{name}/endpoints"), "new", "", `{"endpoints":[{"url":"https://h"},{"url":"ftp://h"}]}`)
	f.Add(at("DELETE /v2/topics/{name}/endpoints"), "g", "", `{"endpoints":[{"name":"a"},{"url":"https://b.example/"}]}`)
	f.Add(at("DELETE /v2/messages"), "?label=a&label=b&fromDate=1&topicName=g&count=100&queueName=q", "", `{"messageIds":[]}`)
	f.Add(at("GET /v2/logs"), "?state=IN_PROGRESS&count=3&cursor=x~7&toDate=99&url=http://a,b", "", "")
	f.Add(at("GET /v2/logs"), "?cursor=~-1", "", "")
	f.Add(at("DELETE /v2/messages"), "?async=true", "", "")
	f.Add(at("GET /v2/dlq"), "?responseStatus=500&order=earliestFirst&callerIP=1", "", "")
	f.Add(at("POST /v2/dlq/retry"), "?dlqIds=dlq_1", "Upstash-Retries: 1", "")
	f.Add(at("POST /v2/flowControl/*"), "a%2Fb%20c/pause", "", "")
	f.Add(at("GET /v2/flowControl/*"), "a/b", "", "")
	f.Fuzz(func(t *testing.T, call uint8, rest, lines, body string) {
		p := fronts.NewParts(t, func(p *fronts.Parts) httpapi.Dialect {
			return qstash.New(qstash.Options{App: p.App, Schedules: p.Schedules, Groups: p.Groups, Topics: p.Topics, Clock: p.Clock})
		}, nil)
		filled(p)
		before, route := p.State(), &routes[int(call)%len(routes)]
		target, last := targetOf(route.Path, rest)
		status, text, ok := p.Call(route.Method, target, fronts.Headers(lines), body)
		if !ok {
			return
		}
		if status > 299 || route.Method == http.MethodGet {
			var e struct{ Error string }
			if status > 299 && (json.Unmarshal(text, &e) != nil || e.Error == "") {
				t.Errorf("%s %s: %d %s", route.Method, target, status, text)
			}
			if after := p.State(); after != before {
				t.Errorf("%s %s: %d %s, but something was changed:\n%s\n%s", route.Method, target, status, text, before, after)
			}
			return
		}
		for _, look := range lookUps(route.Path, last, text, body) {
			if status, found, _ := p.Call(http.MethodGet, "/v2/"+look, nil, ""); status != http.StatusOK {
				t.Errorf("%s %s: %s, but %s: %d %s", route.Method, target, text, look, status, found)
			}
		}
	})
}

// targetOf is a path of a route, whose parameters are the parts of rest, and the first of them.
func targetOf(path, rest string) (target, first string) {
	path, query, asked := path, "", false
	if !strings.HasSuffix(path, "/*") {
		rest, query, asked = strings.Cut(rest, "?")
	}
	for i := 0; ; i++ {
		open, end := strings.IndexByte(path, '{'), strings.IndexByte(path, '}')
		if open < 0 {
			break
		}
		part, more, _ := strings.Cut(rest, "/")
		path, rest = path[:open]+part+path[end+1:], more
		if i == 0 {
			first = part
		}
	}
	if begin, all := strings.CutSuffix(path, "*"); all {
		path = begin + rest
	}
	if asked {
		path += "?" + query
	}
	return path, first
}

// lookUps are the paths by which what a call has made can be looked up.
func lookUps(route, first string, answer []byte, body string) (paths []string) {
	switch route {
	case "/v2/publish/*", "/v2/enqueue/{queue}/*", "/v2/batch":
		for _, m := range accepteds(answer) {
			paths = append(paths, "messages/"+m.MessageID)
		}
	case "/v2/schedules/*":
		var s struct{ ScheduleID string }
		_ = json.Unmarshal(answer, &s)
		paths = append(paths, "schedules/"+s.ScheduleID)
	case "/v2/queues":
		var q struct{ QueueName string }
		_ = json.Unmarshal([]byte(body), &q)
		paths = append(paths, "queues/"+q.QueueName)
	case "/v2/queues/{name}/pause", "/v2/queues/{name}/resume":
		paths = append(paths, "queues/"+first)
	}
	return paths
}

// accepteds are the messages of an answer: one, several, or those of groups among them.
func accepteds(answer []byte) (all []accepted) {
	var one accepted
	if json.Unmarshal(answer, &one) == nil {
		if one.MessageID != "" {
			all = append(all, one)
		}
		return all
	}
	var several []json.RawMessage
	_ = json.Unmarshal(answer, &several)
	for _, raw := range several {
		all = append(all, accepteds(raw)...)
	}
	return all
}
