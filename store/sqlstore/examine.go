package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoTables is the error of OpenReader for a schema that no node has used yet.
var ErrNoTables = errors.New("the schema has no tables yet")

// OpenReader opens a store for reading. It makes no tables.
func OpenReader(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(ctx, o)
	if err != nil {
		return nil, err
	}
	found, err := s.inspect(ctx)
	switch {
	case err != nil:
	case !found.exists && !found.mayCreate:
		err = s.rights(errors.New("the role may not create the schema"))
	case found.version == 0:
		err = ErrNoTables
	case len(found.lacks) > 0:
		err = s.lacks(found.lacks)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.tables.done.Store(true) // newer or older ones: they can be read
	return s, nil
}

// Facts are facts about a server that may harm the store, for people.
type Facts struct {
	Version string
	// Unsafe are settings with which a crash of the server may lose or damage what was acknowledged.
	Unsafe []string
	// Holder is what keeps the server from removing old versions of rows the longest: for Held, or since HeldXIDs
	// transactions began. Empty: nothing does.
	Holder   string
	PID      int // of its connection; 0: none, or unknown
	Held     time.Duration
	HeldXIDs int64
	// DeadRows are old versions of rows, by table.
	DeadRows map[string]int64
	// Autovacuum is false if nothing removes them.
	Autovacuum bool
	// Notifications is the share of the queue of notifications that is in use, from 0 to 1.
	Notifications float64
	// Connections are those in use, of all programs, and MaxConnections is how many there may be.
	Connections, MaxConnections int
	// Lacks are statements that give the role the rights that it lacks.
	Lacks []string
	// Blind: the role does not see transactions of others.
	Blind bool
	role  string
}

// What Troubles reports: younger transactions, fewer dead rows and a queue with more room do little harm.
const (
	longHeld  = 5 * time.Minute
	manyXIDs  = 1_000_000
	manyDead  = 500_000
	fullQueue = 0.1
)

// Facts reads them.
func (s *Store) Facts(ctx context.Context) (f Facts, err error) {
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		f = Facts{DeadRows: map[string]int64{}, role: s.role()}
		b.Queue(`SELECT current_setting('server_version'), pg_notification_queue_usage(),
	(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), current_setting('max_connections')::int,
	array_remove(ARRAY[
		CASE WHEN current_setting('fsync') <> 'on' THEN 'fsync' END,
		CASE WHEN current_setting('full_page_writes') <> 'on' THEN 'full_page_writes' END,
		CASE WHEN current_setting('synchronous_commit') = 'off' THEN 'synchronous_commit' END], NULL),
	current_setting('autovacuum') = 'on', NOT pg_has_role('pg_read_all_stats', 'USAGE')`).QueryRow(func(row pgx.Row) error {
			return row.Scan(&f.Version, &f.Notifications, &f.Connections, &f.MaxConnections, &f.Unsafe, &f.Autovacuum, &f.Blind)
		})
		s.askRights(b, &f.Lacks)
		collect(b.Queue(`SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = $1`, s.schema), func(row pgx.Rows) error {
			var table string
			var n int64
			err := row.Scan(&table, &n)
			f.DeadRows[table] = n
			return err
		})
		collect(b.Queue(`SELECT held_by, pid, coalesce(extract(epoch FROM clock_timestamp() - since), 0)::float8, age FROM (
	SELECT format('a %s of %s (pid %s, %s)', CASE backend_type WHEN 'walsender' THEN 'standby' ELSE 'transaction' END, usename, pid,
		coalesce(nullif(application_name, ''), 'an unnamed program')) AS held_by, pid, xact_start AS since, greatest(age(backend_xmin), age(backend_xid))::bigint AS age
	FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type IN ('client backend', 'walsender')
		AND (datname = current_database() OR backend_type = 'walsender') AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
	UNION ALL SELECT format('the prepared transaction %s of %s', gid, owner), 0, prepared, age(transaction) FROM pg_prepared_xacts WHERE database = current_database()
	UNION ALL SELECT format('the replication slot %s', slot_name), 0, NULL, greatest(age(xmin), age(catalog_xmin)) FROM pg_replication_slots
		WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
) AS held ORDER BY age > $1 DESC, since LIMIT 1`, manyXIDs), func(row pgx.Rows) error {
			var seconds float64
			if err := row.Scan(&f.Holder, &f.PID, &seconds, &f.HeldXIDs); err != nil {
				return err
			}
			f.Held = time.Duration(seconds * float64(time.Second))
			return nil
		})
	})
	return f, err
}

// The codes of troubles.
const (
	TroubleUnsafe        = "unsafe"
	TroubleRights        = "rights"
	TroubleVacuumHeld    = "vacuum_held"
	TroubleDeadRows      = "dead_rows"
	TroubleAutovacuum    = "autovacuum"
	TroubleNotifications = "notifications"
)

// Trouble is something outside of duehook that harms the store.
type Trouble struct {
	Code    string
	About   string // what causes it, or what suffers: the same while it lasts
	Message string // with figures, and what to do
}

// Troubles are the facts that harm the store.
func (f *Facts) Troubles() (all []Trouble) {
	add := func(code, about, format string, args ...any) {
		all = append(all, Trouble{code, about, fmt.Sprintf(format, args...)})
	}
	for _, name := range f.Unsafe {
		add(TroubleUnsafe, name, "its %s is off: a crash may lose jobs that were acknowledged; switch it on", name)
	}
	for _, grant := range f.Lacks {
		add(TroubleRights, grant, "the role %s lacks rights: let an administrator run %s", f.role, grant)
	}
	if f.Held >= longHeld || f.HeldXIDs >= manyXIDs {
		end := ""
		if f.PID != 0 {
			end = fmt.Sprintf(", or run SELECT pg_terminate_backend(%d)", f.PID)
		}
		add(TroubleVacuumHeld, f.Holder, "%s keeps PostgreSQL from removing old versions of rows for %v or %d transactions, so that tables grow: end it%s",
			f.Holder, f.Held.Round(time.Second), f.HeldXIDs, end)
	}
	if !f.Autovacuum {
		add(TroubleAutovacuum, "autovacuum", "autovacuum is off: tables grow, and takes get slower; switch it on")
	}
	for _, table := range slices.Sorted(maps.Keys(f.DeadRows)) {
		if n := f.DeadRows[table]; n >= manyDead {
			add(TroubleDeadRows, table, "the table %s has %d old versions of rows that autovacuum has not removed: end what holds them, or give autovacuum more workers or less delay", table, n)
		}
	}
	if f.Notifications > fullQueue {
		add(TroubleNotifications, "queue", "the queue of notifications is %.0f %% full: a program that listens is idle in a transaction; end it", 100*f.Notifications)
	}
	return all
}

// SeeOthers is the statement that shows the role transactions of others; empty: it sees them.
func (f *Facts) SeeOthers() string {
	if !f.Blind {
		return ""
	}
	return "GRANT pg_read_all_stats TO " + f.role
}

// role is the role of the URL, quoted for SQL.
func (s *Store) role() string { return pgx.Identifier{s.pool.Config().ConnConfig.User}.Sanitize() }

// askRights asks which rights on existing tables the role lacks.
func (s *Store) askRights(b *pgx.Batch, lacks *[]string) {
	b.Queue(`SELECT coalesce(has_schema_privilege(to_regnamespace($1), 'USAGE'), true), NOT EXISTS (
	SELECT FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND NOT (has_table_privilege(oid, 'SELECT')
		AND has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')))`, s.schema).
		QueryRow(func(row pgx.Row) error {
			var usage, tables bool
			if err := row.Scan(&usage, &tables); err != nil {
				return err
			}
			if *lacks = nil; !usage {
				*lacks = append(*lacks, fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", s.schema, s.role()))
			}
			if !tables {
				*lacks = append(*lacks, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %s", s.schema, s.role()))
			}
			return nil
		})
}
