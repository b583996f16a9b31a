package node

import (
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// schema makes a schema and gives its URL: each namespace has a ledger of its own.
func schema(t *testing.T, server *testenv.SQLServer, name string) string {
	t.Helper()
	url := server.URL("postgres")
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE SCHEMA IF NOT EXISTS "+name); err != nil {
		t.Fatal(err)
	}
	return url + "&search_path=" + name + "&application_name=" + name
}

// TestOneNamespaceForALedger: a second namespace on a ledger is told what to do,
// instead of having all jobs delivered twice.
func TestOneNamespaceForALedger(t *testing.T) {
	server, err := testenv.StartPostgres(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() }) // nothing depends on it any more
	store := testenv.StartRedis(t)
	args := func(namespace, ledger string) []string {
		return []string{"--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--redis-url", store.URL(), "--namespace", namespace, "--ledger-url", schema(t, server, ledger)}
	}
	shop := start(t, load(t, args("shop", "one")...))
	err = Run(t.Context(), Options{Config: load(t, args("mail", "one")...), Logger: slog.New(slog.DiscardHandler)})
	const want = `it keeps the jobs of "shop", not of "mail"; give each namespace a schema or database of its own (--ledger-url)`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("a second namespace: %v", err)
	}
	mail := start(t, load(t, args("mail", "two")...))
	for _, r := range []*running{mail, shop} {
		if err := r.shutdown(); err != nil {
			t.Error("stopping:", err)
		}
	}
}

// TestLedgerDown: while the ledger's server is away, registrations are refused with a time to
// come back, probes learn why, and deliveries go on.
func TestLedgerDown(t *testing.T) {
	t.Parallel()
	server, err := testenv.StartPostgres(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() }) // nothing depends on it any more
	store := testenv.StartRedis(t)
	url, ids := hook(t)
	r := start(t, load(t, "--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--workers=8", "--data-dir", t.TempDir(), "--redis-url", store.URL(),
		"--ledger-url", schema(t, server, "down")))
	register := func(id, delay string, want int) {
		t.Helper()
		status, header, body := r.call(http.MethodPost, "/v1/jobs", fmt.Sprintf(`{"topic":"t","id":%q,"delay":%q,"url":%q}`, id, delay, url))
		if status != want || status == http.StatusServiceUnavailable && header.Get("Retry-After") == "" {
			t.Errorf("registering %s: %d, Retry-After %q: %s", id, status, header.Get("Retry-After"), body)
		}
	}
	register("first", "0s", http.StatusCreated)
	await(t, ids, "first") // the signing secret is known
	client := redis.NewClient(&redis.Options{Addr: store.Addr()})
	defer func() { _ = client.Close() }() // nothing depends on it
	testenv.Eventually(t, patience, func() bool {
		return client.Exists(t.Context(), "duehook:{default:0}:whole").Val() == 1
	}, "the shard lacks no job, so it needs no ledger to deliver")
	register("before", "3s", http.StatusCreated)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	// The server's processes end one after the other, so some may still answer.
	n := 0
	testenv.Eventually(t, patience, func() bool {
		n++
		r.call(http.MethodPost, "/v1/jobs", fmt.Sprintf(`{"topic":"probe","id":"%d","delay":"1h","url":%q}`, n, url))
		_, _, body := r.call(http.MethodGet, "/metrics", "")
		return strings.Contains(body, "duehook_ledger_down 1\n")
	}, "the metrics say that the ledger is down")
	register("meanwhile", "0s", http.StatusServiceUnavailable)
	if status, _, body := r.call(http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "ledger") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	await(t, ids, "before")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() bool {
		status, _, _ := r.call(http.MethodGet, "/readyz", "")
		return status == http.StatusOK
	}, "duehook is ready, with the ledger")
	register("after", "0s", http.StatusCreated)
	await(t, ids, "after")
	if err := r.shutdown(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}
