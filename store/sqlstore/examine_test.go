package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

func TestOpenReader(t *testing.T) {
	o := newOptions()
	if _, err := OpenReader(t.Context(), o); !errors.Is(err, ErrNoTables) {
		t.Errorf("before the first node: %v", err)
	}
	openStore(t, o)
	s, err := OpenReader(t.Context(), o)
	must.OK(t, err)
	defer func() { must.OK(t, s.Close()) }()
	must.OK(t, s.Hears(t.Context()))
	must.OK(t, s.Takes(t.Context()))
	facts, err := s.Facts(t.Context())
	must.OK(t, err)
	must.Same(t, "settings of a server that does not wait for its disk", facts.Unsafe, []string{"fsync", "full_page_writes"})
	if facts.Version == "" || facts.Connections < 1 || facts.MaxConnections != 400 || facts.Notifications > 0.1 {
		t.Errorf("%+v", facts)
	}
}

// The transaction that keeps old versions of rows is named.
func TestFactsNameTheHolder(t *testing.T) {
	s := openStore(t, newOptions())
	other, err := pgx.Connect(t.Context(), server.URL("postgres")+"&application_name=report")
	must.OK(t, err)
	defer func() { must.OK(t, other.Close(t.Context())) }()
	_, err = other.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1`)
	must.OK(t, err)
	exec(t, s, `INSERT INTO duehook.meta VALUES ('a', 'b')`)
	facts, err := s.Facts(t.Context())
	must.OK(t, err)
	must.Equal(t, "holder", facts.Holder, fmt.Sprintf("a transaction of postgres (pid %d, report)", other.PgConn().PID()))
	must.Equal(t, "its process", facts.PID, int(other.PgConn().PID()))
	if facts.Held <= 0 || facts.HeldXIDs < 1 {
		t.Errorf("held for %v and %d transactions", facts.Held, facts.HeldXIDs)
	}
	must.Equal(t, "a young one is a trouble", slices.ContainsFunc(facts.Troubles(), func(t Trouble) bool { return t.Code == TroubleVacuumHeld }), false)

	_, err = other.Exec(t.Context(), `COMMIT`)
	must.OK(t, err)
	_, err = other.Exec(t.Context(), `BEGIN`)
	must.OK(t, err)
	facts, err = s.Facts(t.Context())
	must.OK(t, err)
	must.Equal(t, "holder without a snapshot", facts.Holder, "")
}

func TestTroubles(t *testing.T) {
	f := Facts{
		Unsafe: []string{"fsync"}, Holder: "a transaction of a (pid 7, report)", PID: 7, Held: 10 * time.Minute, HeldXIDs: 12, DeadRows: map[string]int64{"job": manyDead, "lane": 1},
		Notifications: 0.5, Lacks: []string{"GRANT USAGE ON SCHEMA s TO r", "GRANT X"}, role: "r",
	}
	var all []string
	for _, trouble := range f.Troubles() {
		all = append(all, trouble.Code+" "+trouble.About+": "+trouble.Message)
	}
	must.Same(t, "troubles", all, []string{
		"unsafe fsync: its fsync is off: a crash may lose jobs that were acknowledged; switch it on",
		"rights GRANT USAGE ON SCHEMA s TO r: the role r lacks rights: let an administrator run GRANT USAGE ON SCHEMA s TO r",
		"rights GRANT X: the role r lacks rights: let an administrator run GRANT X",
		"vacuum_held a transaction of a (pid 7, report): a transaction of a (pid 7, report) keeps PostgreSQL from removing old versions of rows for 10m0s or 12 transactions, so that tables grow: end it, or run SELECT pg_terminate_backend(7)",
		"autovacuum autovacuum: autovacuum is off: tables grow, and takes get slower; switch it on",
		"dead_rows job: the table job has 500000 old versions of rows that autovacuum has not removed: end what holds them, or give autovacuum more workers or less delay",
		"notifications queue: the queue of notifications is 50 % full: a program that listens is idle in a transaction; end it",
	})
	slot := Facts{Holder: "the replication slot x", HeldXIDs: manyXIDs, Autovacuum: true}
	must.Equal(t, "a slot", slot.Troubles()[0].Message, "the replication slot x keeps PostgreSQL from removing old versions of rows for 0s or 1000000 transactions, so that tables grow: end it")
	must.Same(t, "nothing", (&Facts{Autovacuum: true, Held: longHeld - 1}).Troubles(), nil)
}

// A role without rights gets the statements that an administrator runs.
func TestLackingRights(t *testing.T) {
	o := newOptions()
	s := openStore(t, o)
	exec(t, s, `CREATE ROLE "`+o.Schema+`-poor" LOGIN`)
	o.URL = strings.Replace(o.URL, "postgres@", o.Schema+"-poor@", 1)
	_, err := Open(t.Context(), o)
	if err == nil || IsAway(err) || !strings.Contains(err.Error(), `OWNER TO "`+o.Schema+`-poor"`) {
		t.Fatalf("open without any right: %v", err)
	}
	exec(t, s, `GRANT USAGE ON SCHEMA `+o.Schema+` TO "`+o.Schema+`-poor"`)
	exec(t, s, `GRANT SELECT ON ALL TABLES IN SCHEMA `+o.Schema+` TO "`+o.Schema+`-poor"`)
	_, err = Open(t.Context(), o)
	want := `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ` + o.Schema + ` TO "` + o.Schema + `-poor"`
	if err == nil || IsAway(err) || !strings.Contains(err.Error(), want) {
		t.Fatalf("open: %v", err)
	}
	exec(t, s, want)
	poor := openStore(t, o)
	exec(t, s, `REVOKE DELETE ON `+o.Schema+`.delta FROM "`+o.Schema+`-poor"`)
	facts, err := poor.Facts(t.Context())
	must.OK(t, err)
	must.Same(t, "lacking rights", facts.Lacks, []string{want})
	must.Equal(t, "sees no transactions of others", facts.SeeOthers(), `GRANT pg_read_all_stats TO "`+o.Schema+`-poor"`)
}

// A server that takes no writes takes no jobs, and does so again when that is over.
func TestTakesOfReadOnlyServer(t *testing.T) {
	o := newOptions()
	s := openStore(t, o)
	exec(t, s, `CREATE ROLE `+o.Schema+` LOGIN`)
	exec(t, s, `GRANT ALL ON SCHEMA `+o.Schema+` TO `+o.Schema)
	exec(t, s, `GRANT ALL ON ALL TABLES IN SCHEMA `+o.Schema+` TO `+o.Schema)
	o.URL = strings.Replace(o.URL, "postgres@", o.Schema+"@", 1)
	own := openStore(t, o)
	must.OK(t, own.Takes(t.Context()))
	exec(t, s, `ALTER ROLE `+o.Schema+` SET default_transaction_read_only = on`)
	own.pool.Reset()
	if err := own.Takes(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("read-only: %v", err)
	}
	exec(t, s, `ALTER ROLE `+o.Schema+` RESET default_transaction_read_only`)
	must.OK(t, own.Takes(t.Context()))
}
