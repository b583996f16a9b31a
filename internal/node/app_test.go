package node

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// patience is how long a test waits for what is sure to come.
const patience = testenv.Patience

// running is a duehook under test.
type running struct {
	t     *testing.T
	base  string
	stop  context.CancelFunc
	ready chan string
	done  chan error // what Run returned; closed afterwards
}

// start runs duehook until stop is called or the test ends.
func start(t *testing.T, c *config.Config) *running {
	t.Helper()
	r := launch(t, c)
	select {
	case r.base = <-r.ready:
	case err := <-r.done:
		r.stop()
		t.Fatalf("duehook did not start: %v", err)
	}
	return r
}

// launch is start without waiting for the API.
func launch(t *testing.T, c *config.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, stop: cancel, ready: make(chan string, 1), done: make(chan error, 1)}
	go func() {
		r.done <- Run(ctx, Options{
			Config: c, Logger: slog.New(slog.DiscardHandler), Version: "test",
			Ready: func(base string) { r.ready <- base },
		})
		close(r.done)
	}()
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		select { // it writes into the test's directories until it has ended
		case err := <-r.done:
			if err != nil {
				t.Logf("duehook ended: %v", err)
			}
		case <-time.After(patience):
			t.Error("duehook does not stop")
		}
	})
	return r
}

// shutdown stops duehook and gives what Run returned.
func (r *running) shutdown() error {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		r.t.Fatal("duehook does not stop")
		return nil
	}
}

// call makes a request and returns status, headers and body of the answer.
func (r *running) call(method, path, body string) (int, http.Header, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(content)
}

func (r *running) state(topic, id string) string {
	r.t.Helper()
	_, _, body := r.call(http.MethodGet, "/v1/jobs/"+topic+"/"+id, "")
	var j struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(body), &j); err != nil {
		r.t.Fatal(err)
	}
	return j.State
}

// hook is a receiver that passes on the ids of the jobs that it is sent.
func hook(t *testing.T) (string, <-chan string) {
	t.Helper()
	ids := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ids <- r.Header.Get("Duehook-Job-Id")
	}))
	t.Cleanup(server.Close)
	return server.URL, ids
}

func await(t *testing.T, ids <-chan string, want string) {
	t.Helper()
	select {
	case got := <-ids:
		if got != want {
			t.Fatalf("%s was delivered, want %s", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("%s was not delivered", want)
	}
}

func embedded(t *testing.T, dir string) *config.Config {
	t.Helper()
	return load(t, "--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--workers=8", "--data-dir", dir)
}

func TestServesAndStops(t *testing.T) {
	url, ids := hook(t)
	r := start(t, embedded(t, t.TempDir()))
	status, _, body := r.call(http.MethodPost, "/v1/jobs", `{"topic":"t","id":"a","url":"`+url+`","delay":"1ms"}`)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	await(t, ids, "a")
	testenv.Eventually(t, patience, func() bool { return r.state("t", "a") == "delivered" }, "the job is delivered")

	_, _, metrics := r.call(http.MethodGet, "/metrics", "")
	for _, name := range []string{
		"duehook_build_info{version=\"test\"} 1", "go_goroutines", "process_", "duehook_store_seconds",
	} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no %s in the metrics", name)
		}
	}
	if err := r.shutdown(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://")); err == nil {
		_ = conn.Close()
		t.Error("the API still listens")
	}
}

func TestSettingsReachTheirParts(t *testing.T) {
	c := load(t, "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--max-body=2KiB", "--max-timeout=30s", "--retry-steps=1s,2s")
	r := start(t, c)
	for name, tc := range map[string]struct {
		body string
		want int
	}{
		"body beyond --max-body":            {`{"url":"http://192.0.2.1/","body_text":"` + strings.Repeat("x", 3000) + `"}`, http.StatusRequestEntityTooLarge},
		"timeout beyond --max-timeout":      {`{"url":"https://example.com/","timeout":"31s"}`, http.StatusUnprocessableEntity},
		"loopback that --allow-cidrs lacks": {`{"url":"http://127.0.0.1/"}`, http.StatusUnprocessableEntity},
		"a job that is in order":            {`{"url":"https://example.com/","delay":"1h"}`, http.StatusCreated},
	} {
		status, _, body := r.call(http.MethodPost, "/v1/jobs", tc.body)
		if status != tc.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, tc.want)
		}
		if status == http.StatusCreated && !strings.Contains(body, `"max_attempts":3`) {
			t.Errorf("%s: not the ladder of --retry-steps: %s", name, body)
		}
	}
	if err := r.shutdown(); err != nil {
		t.Error(err)
	}
}

// Without Redis, duehook starts, says that it is not ready, refuses jobs for
// the time being, and works as soon as Redis is there.
func TestRedisDownAtStart(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	redis.Kill()
	url, ids := hook(t)
	r := start(t, load(t, "--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--workers=8", "--data-dir", t.TempDir(), "--redis-url", redis.URL()))

	if status, _, body := r.call(http.MethodGet, "/livez", ""); status != http.StatusOK {
		t.Errorf("not alive: %d %s", status, body)
	}
	if status, _, body := r.call(http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("ready: %d %s", status, body)
	}
	job := `{"topic":"t","id":"a","url":"` + url + `"}`
	status, header, body := r.call(http.MethodPost, "/v1/jobs", job)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("%d, Retry-After %q: %s", status, header.Get("Retry-After"), body)
	}

	redis.Start()
	testenv.Eventually(t, patience, func() bool {
		status, _, _ := r.call(http.MethodGet, "/readyz", "")
		return status == http.StatusOK
	}, "duehook is ready")
	if status, _, body := r.call(http.MethodPost, "/v1/jobs", job); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	await(t, ids, "a")
	if err := r.shutdown(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// TestOldRedisAtStart: what will never do is not waited for.
func TestOldRedisAtStart(t *testing.T) {
	c := load(t, "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--redis-url=redis://"+testenv.PretendRedis(t, "redis_version:6.2.14\r\n", ""))
	err := Run(t.Context(), Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
	if want := "Redis 6.2.14 is too old"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Run gives %v, want %q", err, want)
	}
}

// TestReplicasReachTheStore: without the replicas that have to confirm a
// registration there is none, and with a 503 the client knows.
func TestReplicasReachTheStore(t *testing.T) {
	r := start(t, load(t, "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--redis-url", testenv.StartRedis(t).URL(), "--redis-min-replicas=1", "--redis-replica-wait=1ms"))
	status, header, body := r.call("POST", "/v1/jobs", `{"url":"https://example.com/","delay":60}`)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("registering gives %d %v %s", status, header, body)
	}
	if err := r.shutdown(); err != nil {
		t.Error(err)
	}
}

// TestStopBesideSlowClients: a client that does not finish its request, and a
// receiver that does not answer, share the grace, and are no failure.
func TestStopBesideSlowClients(t *testing.T) {
	began, release := make(chan struct{}, 1), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-release
	}))
	defer receiver.Close()
	defer close(release)
	r := start(t, load(t, "--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--grace=1s", "--data-dir", t.TempDir()))
	if status, _, body := r.call(http.MethodPost, "/v1/jobs", `{"topic":"t","id":"slow","url":"`+receiver.URL+`"}`); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	<-began
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const half = "POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	if _, err := io.WriteString(conn, half); err != nil {
		t.Fatal(err)
	}
	if err := r.shutdown(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if len(began) > 0 {
		t.Error("a request was begun while stopping")
	}
}

// TestWaitsForRedis: a node does not say that it serves before Redis answers.
func TestWaitsForRedis(t *testing.T) {
	redis := testenv.StartRedis(t)
	redis.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan string, 2)
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{
			Config: load(t, "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--redis-url", redis.URL()), Logger: slog.New(slog.DiscardHandler),
			Ready: func(string) { told <- "ready" },
			Waiting: func(_ string, err error) {
				if !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("waiting because of %v", err)
				}
				told <- "waiting"
			},
		})
	}()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("told %q, want %q", got, want)
			}
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		case <-time.After(patience):
			t.Fatalf("not told %q", want)
		}
	}
	next("waiting")
	redis.Start()
	next("ready")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("stopping: %v", err)
	}
}
