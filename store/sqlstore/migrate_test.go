package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// Nodes that start together create the tables once. Two schemas of a database do not disturb each other.
func TestOpenTogether(t *testing.T) {
	o, other := newOptions(), newOptions()
	results := make(chan error, 6)
	for i := range cap(results) {
		own := o
		if i%2 == 1 {
			own = other
		}
		go func() {
			s, err := Open(context.WithoutCancel(t.Context()), own)
			if err == nil {
				err = s.Ping(context.WithoutCancel(t.Context()))
				_ = s.Close()
			}
			results <- err
		}()
	}
	for range cap(results) {
		must.OK(t, <-results)
	}
	first, second := openStore(t, o), openStore(t, other)
	exec(t, first, `INSERT INTO duehook.meta VALUES ('a', 'b')`)
	var n int
	must.OK(t, second.pool.QueryRow(t.Context(), second.sql(`SELECT count(*) FROM duehook.meta WHERE key = 'a'`)).Scan(&n))
	must.Equal(t, "rows in the other schema", n, 0)
}

// A database that cannot be used is refused with what to do.
func TestOpenRefuses(t *testing.T) {
	newer := newOptions()
	s := openStore(t, newer)
	exec(t, s, `INSERT INTO duehook.migration (version_id, is_applied) VALUES (99, true)`)
	exec(t, s, `UPDATE duehook.meta SET value = '98' WHERE key = 'readable_by'`)
	damaged := newOptions()
	exec(t, openStore(t, damaged), `DELETE FROM duehook.meta`)
	changed := newOptions()
	own := openStore(t, changed)
	exec(t, own, `ALTER TABLE duehook.job DROP COLUMN settled_by`)
	exec(t, own, `ALTER TABLE duehook.topic ALTER COLUMN served TYPE numeric`)
	exec(t, own, `DROP INDEX `+changed.Schema+`.job_uid`)
	exec(t, own, `CREATE INDEX theirs ON duehook.job (timeout)`)
	foreign := newOptions()
	exec(t, s, `CREATE SCHEMA `+foreign.Schema)
	exec(t, s, `CREATE TABLE `+foreign.Schema+`.theirs (a int)`)
	exec(t, s, `CREATE ROLE weak LOGIN`)
	weak, reader := newOptions(), newOptions()
	weak.URL = strings.Replace(weak.URL, "postgres@", "weak@", 1)
	own = openStore(t, reader)
	exec(t, own, `GRANT USAGE ON SCHEMA `+reader.Schema+` TO weak`)
	exec(t, own, `GRANT SELECT ON ALL TABLES IN SCHEMA `+reader.Schema+` TO weak`)
	reader.URL = weak.URL
	old, other := newOptions(), newOptions()
	for at, function := range map[*Options]string{
		&old:   `current_setting(name text) RETURNS text LANGUAGE sql AS $$ SELECT CASE name WHEN 'server_version_num' THEN '130022' ELSE pg_catalog.current_setting(name) END $$`,
		&other: `version() RETURNS text LANGUAGE sql AS $$ SELECT 'CockroachDB CCL v25.4.1 (linux)'::text $$`,
	} {
		name := at.Schema + "_older"
		exec(t, s, `CREATE SCHEMA `+name)
		exec(t, s, `CREATE FUNCTION `+name+`.`+function)
		at.URL += "&search_path=" + name + ",pg_catalog"
	}
	latin := newOptions()
	exec(t, s, `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0`)
	latin.URL = server.URL("latin")
	stranger, missing := newOptions(), newOptions()
	stranger.URL = strings.Replace(stranger.URL, "postgres@", "stranger@", 1)
	missing.URL = server.URL("missing")
	badURL, badSchema := newOptions(), newOptions()
	badURL.URL = "postgres://a:secret@[/"
	badSchema.Schema = "Jobs"
	for name, test := range map[string]struct {
		o    Options
		says string
	}{
		"newer tables":          {newer, "run the newer duehook"},
		"damaged tables":        {damaged, "restore a backup"},
		"changed tables":        {changed, "missing or different: column job.settled_by bigint, column topic.served bigint, index job_uid"},
		"another program's":     {foreign, "choose another schema with --postgres-schema"},
		"an old server":         {old, "the server is PostgreSQL 13: duehook needs PostgreSQL 14 or later"},
		"another server":        {other, "the server is CockroachDB: duehook needs PostgreSQL itself"},
		"another encoding":      {latin, "has the encoding LATIN1: create one with ENCODING 'UTF8'"},
		"no right to create":    {weak, "CREATE SCHEMA IF NOT EXISTS " + weak.Schema},
		"no right to write":     {reader, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + reader.Schema},
		"no such role":          {stranger, "correct user and password in --postgres-url"},
		"no such database":      {missing, "name another database in --postgres-url, or create it"},
		"a URL that is none":    {badURL, "write postgres://"},
		"a schema that is none": {badSchema, `the schema "Jobs" must`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), test.o)
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v; want %q", err, test.says)
			}
		})
	}
}

// A node works with tables of a newer version that allow it.
func TestOpenNewerTables(t *testing.T) {
	o := newOptions()
	exec(t, openStore(t, o), `INSERT INTO duehook.migration (version_id, is_applied) VALUES (99, true)`)
	must.OK(t, openStore(t, o).Ping(t.Context()))
}

// A store opens while its server is away, and makes its tables when the server answers.
func TestOpenWhileAway(t *testing.T) {
	o := newOptions()
	proxy := testenv.StartProxy(t, server.Addr())
	o.URL = strings.Replace(o.URL, server.Addr(), proxy.Addr(), 1)
	proxy.Refuse(true)
	s := openStore(t, o)
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "connect to PostgreSQL") {
		t.Errorf("ping: %v", err)
	}
	proxy.Refuse(false)
	must.OK(t, s.Ping(t.Context()))
	exec(t, s, `SELECT FROM duehook.job`)
}

func TestClosed(t *testing.T) {
	s := openStore(t, newOptions())
	must.OK(t, s.Close())
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ping: %v", err)
	}
	err := s.change(t.Context(), func(context.Context, *txn) error { return nil })
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a change: %v", err)
	}
}
