package node

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestOnPostgres starts nodes that share a database.
func TestOnPostgres(t *testing.T) {
	url := testenv.Postgres(t, false).URL("postgres")
	on := func(more ...string) []string {
		return append([]string{"--data-dir", t.TempDir(), "--postgres-url", url}, more...)
	}
	db, err := pgx.Connect(t.Context(), url)
	must.OK(t, err)
	defer func() { must.OK(t, db.Close(t.Context())) }()
	exec := func(text string) {
		_, err := db.Exec(t.Context(), text)
		must.OK(t, err)
	}

	finds(t, on("--signing=off"), [3]string{"postgres", FoundOK, "the first node makes the tables in the schema duehook"}, [3]string{"settings", FoundOK, "schema duehook"})
	first := start(t, load(t, on("--addr=127.0.0.1:0", "--signing=off")...))
	second := start(t, load(t, on("--addr=127.0.0.1:0", "--signing=off")...))
	job := `{"topic":"t","id":"a","delay":"1h","url":"https://example.com/"}`
	if code, _, body := first.call(http.MethodPost, "/v1/jobs", job); code != http.StatusCreated {
		t.Fatalf("register: %d %s", code, body)
	}
	if code, _, body := second.call(http.MethodGet, "/v1/jobs/t/a", ""); code != http.StatusOK {
		t.Errorf("the other node: %d %s", code, body)
	}
	if code, _, body := second.call(http.MethodGet, "/readyz", ""); code != http.StatusOK {
		t.Errorf("ready: %d %s", code, body)
	}
	finds(t, on("--signing=off"), [3]string{"postgres", FoundOK, "answers: PostgreSQL "}, [3]string{"clock", FoundOK, "agree"},
		[3]string{"postgres", FoundProblem, "its fsync is off"})

	exec("CREATE ROLE reader LOGIN")
	finds(t, []string{"--data-dir", t.TempDir(), "--postgres-url", strings.Replace(url, "postgres@", "reader@", 1)},
		[3]string{"postgres", FoundProblem, "GRANT"})
	finds(t, []string{"--postgres-url=postgres://u:pw@127.0.0.1:1/d"}, [3]string{"postgres", FoundUnreachable, "postgres://u:***@127.0.0.1:1/d: "})
	_, err = Backup(t.Context(), load(t, on()...), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "back up PostgreSQL with its own tools") {
		t.Errorf("backup: %v", err)
	}

	// A server that takes no writes takes no jobs.
	exec("ALTER DATABASE postgres SET default_transaction_read_only = on")
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'duehook'")
	testenv.Eventually(t, testenv.Patience, func() bool {
		code, _, _ := first.call(http.MethodGet, "/readyz", "")
		return code == http.StatusServiceUnavailable
	}, "a node on a read-only server is not ready")
	exec("SET default_transaction_read_only = off")
	exec("ALTER DATABASE postgres RESET default_transaction_read_only")
	testenv.Eventually(t, testenv.Patience, func() bool {
		code, _, _ := first.call(http.MethodGet, "/readyz", "")
		return code == http.StatusOK
	}, "the node is ready again")
	must.OK(t, first.shutdown())
	must.OK(t, second.shutdown())

	exec("UPDATE duehook.meta SET value = '99' WHERE key = 'readable_by'")
	finds(t, on(), [3]string{"postgres", FoundProblem, "run the newer duehook"})
}
