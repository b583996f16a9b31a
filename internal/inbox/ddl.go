package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// DDL is what a database needs for an inbox.
type DDL struct {
	Dialect string // postgres or mysql
	// Application and Reader are the roles of the application and of duehook, which exist already. MySQL calls them accounts,
	// written user or user@host.
	Application, Reader string
	Notify              bool // a trigger notifies duehook; PostgreSQL only
}

const notifyTrigger = `
-- Wakes duehook at each commit. Transactions that notify commit one after the other.
CREATE FUNCTION duehook_inbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY duehook_inbox;
    RETURN NULL;
END
$$;
CREATE TRIGGER duehook_inbox_notify AFTER INSERT ON duehook_inbox FOR EACH STATEMENT EXECUTE FUNCTION duehook_inbox_notify();
`

// Statements make the table and grant the rights.
func (d DDL) Statements() (string, error) {
	for _, role := range []string{d.Application, d.Reader} {
		if role == "" || strings.ContainsAny(role, "\x00\\\n") {
			return "", fmt.Errorf("%q is not the name of a role", role)
		}
	}
	switch {
	case d.Dialect == mySQL.name && d.Notify:
		return "", errors.New("MySQL has no NOTIFY: duehook polls")
	case d.Dialect == mySQL.name:
		return MySQLTable + grants("`key`", mySQL.role(d.Application), mySQL.role(d.Reader)), nil
	case d.Dialect == postgres.name:
		text := PostgresTable + grants("key", postgres.role(d.Application), postgres.role(d.Reader))
		if d.Notify {
			text += notifyTrigger
		}
		return text, nil
	}
	return "", fmt.Errorf("there is no dialect %q: write postgres or mysql", d.Dialect)
}

func grants(key, application, reader string) string {
	return `
-- The application inserts. duehook reads, deletes, and writes what became of a row into columns of its own.
GRANT INSERT (request, ` + key + `) ON duehook_inbox TO ` + application + `;
` + readerGrant + reader + `;
`
}

const readerGrant = "GRANT SELECT, DELETE, UPDATE (error, failed_at, waits_for) ON duehook_inbox TO "

func quoted(s, quote string) string { return quote + strings.ReplaceAll(s, quote, quote+quote) + quote }

// account is the account of MySQL that is written user or user@host.
func account(s string) string {
	user, host := s, ""
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		user, host = s[:at], s[at+1:]
	}
	return quoted(user, "'") + "@" + quoted(cmp.Or(host, "%"), "'")
}
