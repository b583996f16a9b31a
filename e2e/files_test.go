package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Clients that take all connections leave files to deliveries and to the store.
func TestIdleClientsLeaveFilesToDeliveries(t *testing.T) {
	const files, clients, jobs = 256, 400, 20
	few := func() (string, error) {
		path, err := shipped()
		if err != nil {
			return "", err
		}
		script := filepath.Join(t.TempDir(), "duehook")
		return script, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", files, path), 0o700)
	}
	delivered := make(chan string, jobs)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		delivered <- r.Header.Get("Duehook-Attempt")
	}))
	t.Cleanup(receiver.Close)
	n := startEmbedded(t, few)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(client.CloseIdleConnections)
	answered := func(method, path, body string, want int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, n.base()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != want {
			t.Fatalf("%s %s: %d %s, %v", method, path, answer.StatusCode, text, err)
		}
	}
	answered("GET", "/readyz", "", http.StatusOK) // the connection stays
	for range clients {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(n.base(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	for i := range jobs {
		answered("POST", "/v1/jobs", fmt.Sprintf(`{"id":"%d","url":%q,"timeout":"5s"}`, i, receiver.URL), http.StatusCreated)
	}
	late := time.After(time.Minute)
	for range jobs {
		select {
		case attempt := <-delivered:
			if attempt != "1" {
				t.Errorf("delivered by attempt %s", attempt)
			}
		case <-late:
			t.Fatal("the jobs are not delivered")
		}
	}
}
