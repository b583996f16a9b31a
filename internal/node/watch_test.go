package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store/sqlstore"
)

// A trouble is logged once, and shown while it lasts.
func TestServerWatch(t *testing.T) {
	var log bytes.Buffer
	f, failed := sqlstore.Facts{Autovacuum: true, Unsafe: []string{"fsync"}, Lacks: []string{"GRANT A", "GRANT B"}, DeadRows: map[string]int64{"job": 3}, Connections: 1, MaxConnections: 4}, error(nil)
	w := &serverWatch{log: slog.New(slog.NewTextHandler(&log, nil)), facts: func(context.Context) (sqlstore.Facts, error) { return f, failed }}
	registry := prometheus.NewRegistry()
	must.OK(t, registry.Register(w))
	shows := func(want string) {
		t.Helper()
		must.OK(t, testutil.GatherAndCompare(registry, strings.NewReader(want)))
	}
	shows("")
	must.OK(t, w.look(t.Context()))
	must.OK(t, w.look(t.Context()))
	must.Equal(t, "warnings", strings.Count(log.String(), "trouble=unsafe"), 1)
	const figures = `
# HELP duehook_postgres_connections_ratio Connections of all programs, as a share of max_connections.
# TYPE duehook_postgres_connections_ratio gauge
duehook_postgres_connections_ratio 0.25
# HELP duehook_postgres_dead_rows Old versions of rows that autovacuum has not removed.
# TYPE duehook_postgres_dead_rows gauge
duehook_postgres_dead_rows{table="job"} 3
# HELP duehook_postgres_notification_queue_ratio Share of the queue of notifications that is in use.
# TYPE duehook_postgres_notification_queue_ratio gauge
duehook_postgres_notification_queue_ratio 0
# HELP duehook_postgres_vacuum_held_seconds Age of the oldest transaction that keeps PostgreSQL from removing old versions of rows.
# TYPE duehook_postgres_vacuum_held_seconds gauge
duehook_postgres_vacuum_held_seconds 0
# HELP duehook_postgres_vacuum_held_transactions Transactions since the oldest one whose old versions of rows PostgreSQL must keep.
# TYPE duehook_postgres_vacuum_held_transactions gauge
duehook_postgres_vacuum_held_transactions 0
`
	shows(figures + `
# HELP duehook_postgres_trouble 1 for what harms the store from outside, by kind, and by what causes it or suffers.
# TYPE duehook_postgres_trouble gauge
duehook_postgres_trouble{about="GRANT A",trouble="rights"} 1
duehook_postgres_trouble{about="GRANT B",trouble="rights"} 1
duehook_postgres_trouble{about="fsync",trouble="unsafe"} 1
`)
	f.Unsafe, f.Lacks = nil, nil
	must.OK(t, w.look(t.Context()))
	shows(figures)
	failed = errors.New("away")
	if err := w.look(t.Context()); !errors.Is(err, failed) {
		t.Error(err)
	}
	shows("")
	f.Unsafe, failed = []string{"fsync"}, nil
	must.OK(t, w.look(t.Context()))
	must.Equal(t, "warnings, when it is back", strings.Count(log.String(), "trouble=unsafe"), 2)
}
