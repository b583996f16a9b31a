package qstash

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/internal/job"
)

func TestDelays(t *testing.T) {
	for expression, want := range map[string][]time.Duration{
		"":                                  {12182 * time.Millisecond, 148413 * time.Millisecond, 1808042 * time.Millisecond, 22026465 * time.Millisecond, 24 * time.Hour},
		"1000 * (1 + retried)":              {time.Second, 2 * time.Second, 3 * time.Second},
		"pow(2, retried) * 1000":            {time.Second, 2 * time.Second, 4 * time.Second},
		"max(-5, retried - 1) + 1":          {time.Millisecond, time.Millisecond, 2 * time.Millisecond},
		"7 % 4 + sqrt(16) / 2":              {5 * time.Millisecond},
		"floor(2.9) + ceil(0.1)":            {3 * time.Millisecond},
		"round(min(2.5, 9)) + abs(-exp(0))": {4 * time.Millisecond},
		"1 / 0":                             {24 * time.Hour},
		"sqrt(-1)":                          {time.Millisecond},
		"1e12":                              {24 * time.Hour},
		"-retried * 1000.5":                 {time.Millisecond, time.Millisecond},
	} {
		delay, err := delays(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		for retried, d := range want {
			if got := delay(retried); got != d {
				t.Errorf("%s, retried %d: %v, want %v", expression, retried, got, d)
			}
		}
	}
	for _, wrong := range []string{
		"(", "tried", "a.b", "pow(1)", "sqrt(1, 2)", `"1"`, "1 << 2", "+1", "!retried", "func(){}()", "os.Exit(1)", "retried[0]", "1; 2", "1000 // ms", "max(1, )" + "x",
		strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300), "'a'", "1i", "max(tried, 1)", "max(1, tried)", "abs(tried)", "(tried)", "-tried", "tried + 1",
	} {
		if _, err := delays(wrong); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1d10h30m": 34*time.Hour + 30*time.Minute, "2.5s": 2500 * time.Millisecond, "90": 90 * time.Second, "6m5s": 365 * time.Second, "300ms": 300 * time.Millisecond, " 1h ": time.Hour, "0": 0,
	} {
		if got, ok := parseDuration(text); !ok || got != want {
			t.Errorf("%s: %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "s", "1", "-1s", "1w", "1s ago", "1.s", "..", strings.Repeat("9", 60) + "d" + strings.Repeat("1d", 20)} {
		if got, ok := parseDuration(text); ok && text != "1" {
			t.Errorf("%q is %v", text, got)
		}
	}
	if got, ok := parseDuration(strings.Repeat("9", 60) + "d"); !ok || got < 10_000*time.Hour {
		t.Errorf("a huge one is %v, %t", got, ok)
	}
}

func TestJudge(t *testing.T) {
	now := job.InstantOf(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC))
	for _, tt := range []struct {
		status int
		header string
		kind   job.OutcomeKind
		after  time.Duration
	}{
		{200, "", job.OutcomeDelivered, 0},
		{299, "Duehook-Action: snooze", job.OutcomeDelivered, 0},
		{302, "", job.OutcomeFailed, 0},
		{410, "", job.OutcomeFailed, 0},
		{500, "Webhook-Delivery: abort-message", job.OutcomeFailed, 0},
		{500, "Retry-After: 7", job.OutcomeFailed, 7 * time.Second},
		{500, "Retry-After: 0", job.OutcomeFailed, time.Millisecond},
		{500, "Retry-After: Thu, 01 Jan 2026 09:01:00 GMT", job.OutcomeFailed, time.Minute},
		{500, "Retry-After: Thu, 01 Jan 2026 08:01:00 GMT", job.OutcomeFailed, time.Millisecond},
		{500, "Retry-After: 86401", job.OutcomeFailed, 0},
		{500, "Retry-After: soon", job.OutcomeFailed, 0},
		{429, "X-RateLimit-Reset-Tokens: 6m5s", job.OutcomeFailed, 365 * time.Second},
		{489, "", job.OutcomeFailed, 0},
		{489, "Upstash-NonRetryable-Error: True", job.OutcomeRefused, 0},
		{500, "Upstash-NonRetryable-Error: true", job.OutcomeFailed, 0},
	} {
		h := http.Header{}
		if name, value, ok := strings.Cut(tt.header, ": "); ok {
			h.Set(name, value)
		}
		if o := judge(tt.status, h, now); o.Kind != tt.kind || o.After != tt.after {
			t.Errorf("%d %s: %v after %v", tt.status, tt.header, o.Kind, o.After)
		}
	}
}

func TestPaths(t *testing.T) {
	for from, want := range map[string]string{
		"/v2/queues/": "/v2/queues", "/v2/Schedules/x/pause": "/v2/schedules/x/pause", "/v2/FLOWCONTROL/a/": "/v2/flowControl/a/",
		"/v2/publish/https://h/": "/v2/publish/https://h/", "/v2/schedules/https://h/": "/v2/schedules/https://h/", "/v2/other/": "/v2/other", "/v2/": "/v2/",
	} {
		if got := path(from); got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
	}
}

func TestWebURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://h//a%2Fb": "https://h//a%2Fb", "https:/h/x": "https://h/x", "HTTP://h": "HTTP://h", "ftp://h": "", "group": "", "": "",
	} {
		if got, ok := webURL(text); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t", text, got, ok)
		}
	}
}

// Everything that the dialect does not have is refused, and says why.
func TestSettingsRefused(t *testing.T) {
	for _, tt := range []struct{ destination, headers, why string }{
		{"shop.example/paid", "", "invalid scheme"},
		{"mailto:a", "", "invalid scheme"},
		{"a b", "", "url group name"},
		{"api/llm", "", "LLM and email"},
		{"g", "Upstash-Delay: soon", "Upstash-Delay"},
		{"g", "Upstash-Not-Before: tomorrow", "Upstash-Not-Before"},
		{"g", "Upstash-Retries: -1", "Upstash-Retries"},
		{"g", "Upstash-Retry-Delay: x", "Upstash-Retry-Delay"},
		{"g", "Upstash-Timeout: x", "Upstash-Timeout"},
		{"g", "Upstash-Flow-Control-Value: rate=1", "needs Upstash-Flow-Control-Key"},
		{"g", "Upstash-Flow-Control-Key: k|Upstash-Flow-Control-Value: rate=0", "rate=0"},
		{"g", "Upstash-Flow-Control-Key: k|Upstash-Flow-Control-Value: period=8d", "period=8d"},
		{"g", "Upstash-Flow-Control-Key: k|Upstash-Flow-Control-Value: speed=1", "speed=1"},
		{"g", "Upstash-Flow-Control-Key: k|Queue: q", "both a queue and a flow-control key"},
		{"g", "Upstash-Flow-Control-Key: " + strings.Repeat("/", 50), "too long"},
		{"g", "Queue: a/b", "queue name"},
		{"g", "Upstash-Callback: ftp://h", "Upstash-Callback: invalid"},
		{"g", "Upstash-Callback: https://h|Upstash-Callback-Delay: 1s", "Upstash-Callback-Delay is not possible"},
		{"g", "Upstash-Callback: https://h|Upstash-Callback-Retries: x", "Upstash-Callback-Retries"},
		{"g", "Upstash-Callback: https://h|Upstash-Failure-Callback: https://h|Upstash-Callback-Retries: 1", "same Retries"},
		{"g", "Upstash-Redact-Fields: body", "Upstash-Redact-Fields is not supported"},
		{"g", "Upstash-Workflow-Runid: 1", "Upstash-Workflow-Runid is not supported"},
		{"g", "Upstash-Cron: * * * * *", "Upstash-Cron belongs to schedules"},
		{"g", "Upstash-Schedule-Id: nightly", "Upstash-Schedule-Id belongs to schedules"},
		{"g", "Upstash-Queue-Name: q", "Upstash-Queue-Name belongs to schedules"},
		{"g", "Upstash-Content-Based-Deduplication: maybe", "Upstash-Content-Based-Deduplication"},
		{"g", "Upstash-Header-Forward: true", "Upstash-Header-Forward is not supported"},
	} {
		h, queue := http.Header{}, ""
		for pair := range strings.SplitSeq(tt.headers, "|") {
			name, value, _ := strings.Cut(pair, ": ")
			if name == "Queue" {
				queue = value
			} else if name != "" {
				h.Set(name, value)
			}
		}
		if _, err := readMessage(h, tt.destination, nil, queue, ""); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s %s: %v", tt.destination, tt.headers, err)
		}
	}
}

func TestFlowTopics(t *testing.T) {
	for _, key := range []string{"acme", "a/b c", "ü:1", "", "a.b_c@d-e"} {
		topic := flowTopic(key)
		if got, ok := flowKeyOf(topic); got != key || !ok || job.CheckName(topic) != nil {
			t.Errorf("%q became %q, %q, %t", key, topic, got, ok)
		}
	}
	for _, topic := range []string{"qstash", "other:flow:a", flowPrefix + "a:", flowPrefix + "a:zz", flowPrefix + ":1"} {
		if key, ok := flowKeyOf(topic); ok {
			t.Errorf("%s is the key %q", topic, key)
		}
	}
	for perSecond, want := range map[float64][2]int64{0: {0, 0}, 5: {5, 1}, 10.0 / 60: {10, 60}, 3.0 / 5: {36, 60}, 1.0 / 3600: {1, 3600}, math.Pi: {1900035, 604800}} {
		if rate, period := wholeRate(perSecond); int64(rate) != want[0] || period != want[1] {
			t.Errorf("%v: %d per %d s", perSecond, rate, period)
		}
	}
}

func TestURLs(t *testing.T) {
	got := urls([]string{"https://a/?x=1,2,http://b", "https://c"})
	if strings.Join(got, " ") != "https://a/?x=1,2 http://b https://c" {
		t.Errorf("got %q", got)
	}
}

// A message that can be read is one that the domain can check, and its settings survive.
func FuzzReadMessage(f *testing.F) {
	f.Add("https://shop.example/paid?a=1", "Upstash-Delay: 90s\nUpstash-Retries: 5\nUpstash-Retry-Delay: pow(2, retried) * 1000\nUpstash-Label: a,b", []byte(`{"n":1}`), "")
	f.Add("group", "Upstash-Callback: https://h\nUpstash-Callback-Retries: 2\nUpstash-Failure-Callback: https://f\nUpstash-Callback-Forward-X: 1", []byte{0xff}, "q1")
	f.Add("https:/h", "Upstash-Flow-Control-Key: a/b\nUpstash-Flow-Control-Value: parallelism=2, rate=3, period=5s\nContent-Type: application/json", []byte(" 1 "), "")
	f.Add("x", "Upstash-Not-Before: 99999999999\nUpstash-Content-Based-Deduplication: TRUE\nUpstash-Timeout: 1.5h", []byte("text"), "")
	f.Fuzz(func(t *testing.T, destination, lines string, body []byte, queue string) {
		h := http.Header{}
		for line := range strings.Lines(lines) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			h.Add(name, strings.TrimSpace(value))
		}
		m, err := readMessage(h, destination, body, queue, "192.0.2.1")
		if err != nil {
			if text := err.Error(); text == "" || len(text) > 1500 {
				t.Errorf("refused with %q", text)
			}
			return
		}
		limits := job.Bounds{}.WithDefaults()
		if m.draft.Group != nil {
			_, err = m.draft.ForGroup(limits, 0)
		} else {
			_, err = m.draft.Registration(limits, 0)
		}
		set := settingsOf(m.draft.Dialect)
		before, _ := json.Marshal(m.settings)
		after, _ := json.Marshal(set)
		if string(before) != string(after) || set.CallerIP != "192.0.2.1" {
			t.Errorf("%s became %s", before, after)
		}
		if err != nil {
			return
		}
		if r := m.draft.Retry; *r.Limit > 0 && len(r.Steps) == 0 {
			t.Error("retries without delays")
		}
		if m.draft.Body != nil && m.draft.Body.Form == job.BodyText && !utf8.Valid(body) {
			t.Error("a text is not UTF-8")
		}
	})
}

// The query of a destination stays as it is, less the settings.
func FuzzTarget(f *testing.F) {
	f.Add("https://h/a?x=1&qstash_token=t&upstash-retries=3&y=%zz")
	f.Add("q/https://h?upstash-=1&upstash-delay=1s&&")
	f.Add("?0qstash_token=&qstash%5Ftoken=t")
	f.Add("https://h?qstash_token=t%zz")
	f.Fuzz(func(t *testing.T, rest string) {
		if strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }) {
			return
		}
		if _, err := url.ParseRequestURI("/v2/publish/" + rest); err != nil {
			return
		}
		r := httptest.NewRequest(http.MethodPost, "/v2/publish/"+rest, http.NoBody)
		destination, h := split(r, 1)
		_, query, _ := strings.Cut(destination, "?")
		for parameter := range strings.SplitSeq(query, "&") {
			name, _, _ := strings.Cut(parameter, "=")
			if name, err := url.QueryUnescape(name); err == nil && name == tokenParameter {
				t.Errorf("%s passes the token on", destination)
			}
		}
		if !strings.Contains(rest, "?") && destination != rest {
			t.Errorf("%s became %s", rest, destination)
		}
		_ = h
	})
}
