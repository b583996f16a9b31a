package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/node/config"
)

func load(t *testing.T, args ...string) *config.Config {
	t.Helper()
	c, err := config.Load(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBanner(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{
			"embedded",
			[]string{"--data-dir=/d"},
			[]string{
				"duehook 1.2.3", "API       http://127.0.0.1:7788", "Jobs      in /d\n",
				"--allow-cidrs 127.0.0.0/8", "curl http://127.0.0.1:7788/v1/jobs", `"url":"https://example.com/hook"`,
			},
		},
		{
			"keys",
			[]string{"--api-keys=" + keyLine},
			[]string{"Callers   need an API key", `/v1/jobs -H "Authorization: Bearer $TOKEN" -H`},
		},
		{
			"open to this machine",
			nil,
			[]string{"Callers   any program on this machine", "/v1/jobs -H 'Content-Type"},
		},
		{
			"open",
			[]string{"--addr=:1", "--insecure-no-api-keys"},
			[]string{"Callers   any client that reaches it"},
		},
		{
			"local receivers",
			[]string{"--allow-cidrs=10.0.0.0/8,127.0.0.0/8"},
			[]string{"to the internet and to 10.0.0.0/8, 127.0.0.0/8", `"url":"http://127.0.0.1:8080/hook"`},
		},
		{
			"Redis",
			[]string{"--redis-url=redis://bob:hunter2@db:6379/2", "--namespace=shop", "--shards=4"},
			[]string{"in redis://bob:***@db:6379/2, namespace shop, 4 shards"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			banner := Banner(load(t, tc.args...), "1.2.3", "http://127.0.0.1:7788")
			for _, want := range tc.want {
				if !strings.Contains(banner, want) {
					t.Errorf("no %q in:\n%s", want, banner)
				}
			}
			if strings.Contains(banner, "hunter2") {
				t.Errorf("the password is shown:\n%s", banner)
			}
		})
	}
}

func TestAnnounceInTextIsTheBanner(t *testing.T) {
	var out bytes.Buffer
	c := load(t, "--log-format=text")
	Announce(c, "1.2.3", "http://x", &out, NewLogger(c, &out))
	if out.String() != Banner(c, "1.2.3", "http://x") {
		t.Errorf("got:\n%s", &out)
	}
}

// Whoever reads logs by machine gets JSON on every line.
func TestAnnounceInJSONIsOneLine(t *testing.T) {
	var out bytes.Buffer
	c := load(t) // auto, and a buffer is no terminal
	Announce(c, "1.2.3", "http://x", &out, NewLogger(c, &out))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if line["api"] != "http://x" || line["version"] != "1.2.3" || line["level"] != slog.LevelInfo.String() {
		t.Errorf("got %v", line)
	}
}

func TestAnnounceWaiting(t *testing.T) {
	var out bytes.Buffer
	c := load(t, "--redis-url=redis://bob:hunter2@db:6379/2")
	AnnounceWaiting(c, "1.2.3", "http://x", NewLogger(c, &out), errors.New("connection refused"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if line["msg"] == "duehook is serving" || line["api"] != "http://x" || line["error"] != "connection refused" ||
		!strings.Contains(line["jobs"].(string), "in redis://") || strings.Contains(out.String(), "hunter2") {
		t.Errorf("got %v", line)
	}
}

func TestOnlyTheInsecureIsWarnedOf(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"--addr=:1", "--api-keys=" + keyLine}, false},
		{[]string{"--addr=:1", "--insecure-no-api-keys"}, true},
		{[]string{"--insecure-no-api-keys"}, true},
	} {
		var out bytes.Buffer
		c := load(t, tc.args...)
		Announce(c, "1", "http://x", &out, NewLogger(c, &out))
		if got := strings.Contains(out.String(), `"level":"WARN"`); got != tc.want {
			t.Errorf("%s: warned %v, want %v:\n%s", tc.args, got, tc.want, &out)
		}
	}
}

// Whatever a part of duehook logs, secrets stay out.
func TestLogsHideSecrets(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log := NewLogger(load(t, "--log-format="+format), &out)
		log.Info("to https://u:hunter2@shop.example/?hunter2", "error", errors.New("Get https://shop.example/?hunter2: EOF"), slog.Group("g", "secret", "whsec_hunter2"))
		if out.Len() == 0 || strings.Contains(out.String(), "hunter2") {
			t.Errorf("got %s", &out)
		}
	}
}

// A duration says its unit, whoever reads it.
func TestLogsShowUnits(t *testing.T) {
	for format, want := range map[string]string{"json": `"took":"1.5s"`, "text": "took=1.5s"} {
		var out bytes.Buffer
		log := NewLogger(load(t, "--log-format="+format), &out)
		log.With("took", 1500*time.Millisecond).Info("done", slog.Group("g", "took", 1500*time.Millisecond))
		if got := strings.Count(out.String(), "took"); got != 2 || strings.Count(out.String(), "1.5s") != 2 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", format, &out)
		}
	}
}

func TestLogLevel(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(load(t, "--log-level=warn"), &out)
	log.Info("quiet")
	if out.Len() > 0 {
		t.Errorf("info was logged at level warn: %s", &out)
	}
	log.Warn("loud")
	if out.Len() == 0 {
		t.Error("a warning was not logged")
	}
}

func TestBaseURL(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80", "0.0.0.0:80": "http://127.0.0.1:80",
		"[::]:80": "http://127.0.0.1:80", "[::1]:80": "http://[::1]:80", "192.0.2.1:80": "http://192.0.2.1:80",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&node{}).baseURL(tcp); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
		if got := (&node{cert: &certificate{}}).baseURL(tcp); got != strings.Replace(want, "http:", "https:", 1) {
			t.Errorf("%s with a certificate: %s", addr, got)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := Version("v1.2.3"); got != "1.2.3" {
		t.Errorf("stamped: %s", got)
	}
	// A test binary carries no module version.
	if got := Version(""); got != fallbackVersion {
		t.Errorf("not stamped: %s", got)
	}
	if got := BuildOf("1.2.3").String(); !strings.HasPrefix(got, "duehook 1.2.3 (") || !strings.Contains(got, "go1.") {
		t.Errorf("details: %s", got)
	}
}
