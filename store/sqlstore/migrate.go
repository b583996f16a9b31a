package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/duehook/duehook/store"
)

// migrations change the tables of one version to those of the next. A node must work with the tables of the next
// version, too; otherwise that migration raises readable_by in the table meta.
//
//go:embed migrations/*.sql
var migrations embed.FS

var versions = []string{"migrations/00001_tables.sql", "migrations/00002_views.sql"}

// oldestServer is the oldest major version of PostgreSQL that duehook is made for.
const oldestServer = 14

// preparation makes the tables ready.
type preparation struct {
	done    atomic.Bool
	mu      sync.Mutex
	current *preparing // nil: none runs
}

// preparing is one try, which all calls of its time wait for.
type preparing struct {
	ended chan struct{} // closed when it has ended, for err
	err   error
}

// prepareWithin bounds a try.
const prepareWithin = 2 * time.Minute

// ready creates or migrates the tables if that was not done yet, because the server was away.
func (s *Store) ready(ctx context.Context) error {
	if s.tables.done.Load() {
		return nil
	}
	s.tables.mu.Lock()
	p := s.tables.current
	if p == nil {
		p = &preparing{ended: make(chan struct{})}
		s.tables.current = p
		s.work.Go(func() { s.prepare(p) })
	}
	s.tables.mu.Unlock()
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("%w: wait for the tables: %w", store.ErrUnavailable, ctx.Err())
	}
}

func (s *Store) prepare(p *preparing) {
	ctx, cancel := context.WithTimeout(s.done, prepareWithin)
	defer cancel()
	p.err = s.migrate(ctx)
	s.tables.done.Store(p.err == nil)
	s.tables.mu.Lock()
	s.tables.current = nil
	s.tables.mu.Unlock()
	close(p.ended)
}

// IsAway reports whether an error means that the server may answer later, without a change of the settings or of the server.
func IsAway(err error) bool {
	var refused *pgconn.PgError
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOtherLayout) {
		return false
	}
	return !errors.As(err, &refused) || strings.HasPrefix(refused.Code, "57") || strings.HasPrefix(refused.Code, "53")
}

// migrate creates the schema and its tables, or brings them to this version.
func (s *Store) migrate(ctx context.Context) error {
	found, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if found.version < len(versions) {
		if err := s.migrateLocked(ctx); err != nil {
			return err
		}
		if found, err = s.inspect(ctx); err != nil {
			return err
		}
	}
	if len(found.lacks) > 0 {
		return s.lacks(found.lacks)
	}
	return nil
}

// inspection is what inspect found.
type inspection struct {
	exists  bool     // the schema
	version int      // of its tables
	lacks   []string // statements that give the role the rights that it lacks
	// mayCreate: the role may create a schema.
	mayCreate bool
}

// inspect looks at the server and the schema, and returns an error if duehook must not use them.
func (s *Store) inspect(ctx context.Context) (found inspection, err error) {
	var server, tables int
	var ours bool
	var version, encoding string
	_, err = s.askAnyway(ctx, func(b *pgx.Batch) {
		b.Queue(`SELECT current_setting('server_version_num')::int, to_regnamespace($1) IS NOT NULL,
			(SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace($1)), to_regclass($2) IS NOT NULL,
			has_database_privilege(current_database(), 'CREATE'), version(), current_setting('server_encoding')`,
			s.schema, s.schema+".migration").QueryRow(func(row pgx.Row) error {
			return row.Scan(&server, &found.exists, &tables, &ours, &found.mayCreate, &version, &encoding)
		})
	})
	product, _, _ := strings.Cut(version, " ")
	switch {
	case err != nil:
		return found, notConnected(err)
	case product != "PostgreSQL": // others may lock nothing where it must
		return found, fmt.Errorf("%w: the server is %s: duehook needs PostgreSQL itself", store.ErrOtherLayout, product)
	case server/10_000 < oldestServer:
		return found, fmt.Errorf("%w: the server is PostgreSQL %d: duehook needs PostgreSQL %d or later", store.ErrOtherLayout, server/10_000, oldestServer)
	case encoding != "UTF8":
		return found, fmt.Errorf("%w: the database has the encoding %s: create one with ENCODING 'UTF8' TEMPLATE template0, and name it in --postgres-url", store.ErrOtherLayout, encoding)
	case !ours && tables > 0:
		return found, fmt.Errorf("%w: the schema %s has tables of another program: choose another schema with --postgres-schema", store.ErrOtherLayout, s.schema)
	case !ours:
		return found, nil
	}
	readable := 0
	var changed []string
	_, err = s.askAnyway(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql(`SELECT coalesce(max(version_id), 0) FROM duehook.migration WHERE is_applied`)).QueryRow(func(row pgx.Row) error {
			return row.Scan(&found.version)
		})
	})
	if err == nil && found.version > 0 {
		_, err = s.askAnyway(ctx, func(b *pgx.Batch) {
			s.askRights(b, &found.lacks)
			b.Queue(s.sql(`SELECT coalesce((SELECT value FROM duehook.meta WHERE key = 'readable_by'), '')`)).QueryRow(func(row pgx.Row) error {
				var text string
				if err := row.Scan(&text); err != nil {
					return err
				}
				readable, _ = strconv.Atoi(text) // 0 is refused
				return nil
			})
			b.Queue(s.sql(changedShape), s.schema).Query(textColumn(&changed))
		})
	}
	switch {
	case err != nil:
		return found, fmt.Errorf("read the version of the tables: %w", err)
	case found.version > 0 && readable == 0:
		return found, fmt.Errorf("%w: the table %s.meta has no readable_by: restore a backup of the schema, or choose another with --postgres-schema", store.ErrOtherLayout, s.schema)
	case readable > len(versions):
		return found, fmt.Errorf("%w: the tables of the schema %s have version %d, and this duehook knows %d: run the newer duehook that made them", store.ErrOtherLayout, s.schema, found.version, len(versions))
	case len(changed) > 0:
		return found, fmt.Errorf("%w: the tables of the schema %s were changed by hand: undo that, or restore a backup of the schema; missing or different: %s", store.ErrOtherLayout, s.schema, strings.Join(changed, ", "))
	}
	return found, nil
}

// shape is what tables consist of: a line for each column, with its type, and each index.
const shape = `SELECT format('column %s.%s %s', relname, attname, format_type(atttypid, atttypmod)) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
	WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
	UNION ALL SELECT format('index %s', relname) FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'i'`

// keepShape keeps the shape that a migration made.
const keepShape = `INSERT INTO duehook.meta (key, value) SELECT 'shape', string_agg(line, E'\n' ORDER BY line) FROM (` + shape + `) AS found (line)
	ON CONFLICT (key) DO UPDATE SET value = excluded.value`

// changedShape is what is missing of the shape, or different.
const changedShape = `SELECT line FROM duehook.meta, string_to_table(value, E'\n') AS line WHERE key = 'shape' EXCEPT (` + shape + `) ORDER BY 1`

// migrateLocked runs the migrations that are missing. One node at a time does so: a transaction beside them holds a lock,
// because locks of sessions do not work through PgBouncer.
func (s *Store) migrateLocked(ctx context.Context) (err error) {
	lock, err := s.pool.Begin(ctx)
	if err != nil {
		return s.explain(err)
	}
	defer func() { err = errors.Join(err, lock.Rollback(context.WithoutCancel(ctx))) }()
	if _, err := lock.Exec(ctx, `SELECT set_config('lock_timeout', '60s', true), set_config('idle_in_transaction_session_timeout', '0', true)`); err != nil {
		return s.explain(err)
	}
	if _, err := lock.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 1))`, "duehook migration of "+s.schema); err != nil {
		return fmt.Errorf("wait for the migration by another node: %w", s.explain(err))
	}
	found, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(s.pool)
	defer func() { err = errors.Join(err, db.Close()) }()
	if !found.exists {
		if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+s.schema); err != nil {
			return s.migrationFailed(err)
		}
	}
	var all []*goose.Migration
	for i, name := range versions {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		all = append(all, goose.NewGoMigration(int64(i+1), &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, inSchema(string(text), s.schema)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, s.sql(keepShape), s.schema)
			return err
		}}, nil))
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithGoMigrations(all...),
		goose.WithTableName(s.schema+".migration"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("prepare the migration: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return s.migrationFailed(err)
	}
	return nil
}

// notConnected says what to do about a server that refuses the URL itself.
func notConnected(err error) error {
	advice := ""
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		switch refused.Code {
		case "28000", "28P01": // no such role, no rule in pg_hba.conf; a wrong password
			advice = ": correct user and password in --postgres-url, or let an administrator admit the role"
		case "3D000":
			advice = ": name another database in --postgres-url, or create it"
		}
	}
	return fmt.Errorf("connect to PostgreSQL%s: %w", advice, err)
}

func (s *Store) migrationFailed(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		return s.rights(err)
	}
	return fmt.Errorf("create the tables of the schema %s: %w", s.schema, err)
}

// rights is an error for a role that may not do what duehook needs.
func (s *Store) rights(err error) error {
	return fmt.Errorf("the role %[2]s lacks rights: let an administrator run \"CREATE SCHEMA IF NOT EXISTS %[1]s; ALTER SCHEMA %[1]s OWNER TO %[2]s\", and if the schema has tables, \"GRANT ALL ON ALL TABLES IN SCHEMA %[1]s TO %[2]s\": %[3]w",
		s.schema, s.role(), err)
}

// lacks is an error for a role that lacks rights on the tables.
func (s *Store) lacks(grants []string) error {
	return fmt.Errorf("the role %s may not change the tables: let an administrator run \"%s\"", s.role(), strings.Join(grants, "; "))
}
