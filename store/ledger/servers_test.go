package ledger_test

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// A batch of the largest bodies fits into what a server takes in one packet,
// and into the ledger.
func TestLargeBatch(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		var regs []store.Registration
		for i := range 100 { // 25 MiB; MariaDB takes 16 MiB at a time
			g := reg(fmt.Sprint(i), time.Hour)
			g.Spec.Body = make([]byte, 256<<10)
			regs = append(regs, g)
		}
		r.RegisterAs(store.Created, regs...)
		equal(t, "bodies", r.Count("SELECT count(*) FROM payload WHERE length(body) = 262144"), "100")
	})(t)
}

// What an administrator has set for people or for other programs does not
// change what the ledger says to its server.
func TestSettingsOfTheServer(t *testing.T) {
	for _, c := range []struct {
		b    *backend
		text string // {} is the database
	}{
		{mariadb, "SET GLOBAL sql_mode = 'ANSI,ORACLE,EMPTY_STRING_IS_NULL,NO_BACKSLASH_ESCAPES'"},
		{mariadb, "SET GLOBAL time_zone = '+05:30'"},
		{mariadb, "SET GLOBAL tx_isolation = 'READ-COMMITTED'"},
		{mariadb, "ALTER DATABASE {} CHARACTER SET latin1"},
		{postgres, "ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'"},
		{postgres, "ALTER DATABASE {} SET TimeZone = 'Asia/Kolkata'"},
		{postgres, "ALTER DATABASE {} SET standard_conforming_strings = off"},
	} {
		t.Run(c.b.Name+": "+c.text, func(t *testing.T) {
			name := newName()
			url := withDatabase(t, c.b, name)
			set(t, c.b, strings.ReplaceAll(c.text, "{}", name))
			r := newRig(t, c.b, url, retention)
			r.Add(reg("a", time.Hour))
			want := r.All()
			equal(t, "the jobs", r.Restart().All(), want)
		})
	}
}

// A user's limits are for people. What the URL sets is meant for duehook.
func TestTimeoutsOfPostgres(t *testing.T) {
	name := newName()
	url := withDatabase(t, postgres, name)
	for _, setting := range []string{"statement_timeout", "idle_session_timeout"} {
		set(t, postgres, fmt.Sprintf("ALTER DATABASE %s SET %s = '1h'", name, setting))
	}
	is := func(r *rig, setting, want string) {
		t.Helper()
		noError(t, setting+" is not "+want, r.Exec(t.Context(),
			fmt.Sprintf("SELECT 1 / CASE WHEN current_setting('%s') = '%s' THEN 1 ELSE 0 END", setting, want)))
	}
	r := newRig(t, postgres, url, 0)
	for setting, want := range map[string]string{
		"statement_timeout": "0", "idle_session_timeout": "0", "lock_timeout": "3s", "idle_in_transaction_session_timeout": "5s",
	} {
		is(r, setting, want)
	}
	noError(t, "Close", r.Close())
	is(newRig(t, postgres, url+"&statement_timeout=7000", 0), "statement_timeout", "7s")
}

func TestEncodingOfPostgres(t *testing.T) {
	for encoding, want := range map[string]string{"LATIN1": "is LATIN1, which cannot store all names", "SQL_ASCII": "", "UTF8": ""} {
		name := newName()
		set(t, postgres, fmt.Sprintf("CREATE DATABASE %s ENCODING '%s' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'", name, encoding))
		r, err := tryRig(t, postgres, postgres.URL(name), retention)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", encoding, err)
			}
			continue
		}
		noError(t, encoding, err)
		g := reg("订单", time.Hour)
		r.Add(g)
		equal(t, "uid", r.Restart().Job("订单").UID, g.UID)
	}
}

// withDatabase makes a database, and gives its URL.
func withDatabase(t *testing.T, b *backend, name string) string {
	t.Helper()
	set(t, b, "CREATE DATABASE "+name)
	return b.URL(name)
}

// set runs a statement on the server of a kind, and has its settings reset when
// the test ends.
func set(t *testing.T, b *backend, text string) {
	t.Helper()
	b.Exec(t, text)
	if variable, _, ok := strings.Cut(strings.TrimPrefix(text, "SET GLOBAL "), " = "); ok && b == mariadb {
		t.Cleanup(func() {
			// The session has what was the default when it began: the server's own.
			b.Exec(t, fmt.Sprintf("SET GLOBAL %s = DEFAULT", variable))
		})
	}
}

func TestSmallPackets(t *testing.T) {
	mariadb.Exec(t, "SET GLOBAL max_allowed_packet = 65536")
	defer mariadb.Exec(t, "SET GLOBAL max_allowed_packet = DEFAULT")
	_, err := tryRig(t, mariadb, mariadb.Fresh(t), 0)
	if err == nil || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("Open: %v", err)
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"mysql://u:p@h/d?tls=true":                  "",
		"mysql://u:p@h:3307/d?tls=skip-verify":      "",
		"mariadb://u:p@[::1]/d":                     "",
		"postgres://u:p@h/d?sslmode=verify-full":    "",
		"postgres://u:p@h/d?statement_timeout=3000": "",
		"mysql://u:p@h/d?tls=yes":                   "unknown parameter",
		"mysql://u:p@h/d?tls=true&tls=false":        "unknown parameter",
		"mysql://u:p@h/d?parseTime=true":            "unknown parameter",
		"postgres://u:p@h/d?sslmode=always":         "cannot be read",
		"postgres://u@h/d?password=hunter2":         "before the host",
		"mysql://u:p@h":                             "database is missing",
		"sqlite:/var/lib/duehook.db":                "write postgres://",
	} {
		err := ledger.CheckURL(url)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// A table that the tests do not know would keep the rows of one test for the next.
func TestAllTablesAreEmptied(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		u, err := url.Parse(b.Empty(t))
		noError(t, "Parse", err)
		schema := cmp.Or(u.Query().Get("search_path"), strings.TrimPrefix(u.Path, "/"))
		names := b.Query(t, u.String(),
			"SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema = '"+schema+"'")
		names = slices.DeleteFunc(names, func(name string) bool {
			return name == "writer" || name == "state" || strings.HasPrefix(name, "goose_")
		})
		slices.Sort(names)
		equal(t, "tables", slices.Sorted(slices.Values(tables)), names)
	})(t)
}
