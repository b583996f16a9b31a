package sqlstore

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// server is the PostgreSQL of the tests. Each has a schema of its own.
var server *testenv.SQLServer

func TestMain(m *testing.M) {
	var err error
	if server, err = testenv.StartPostgres(false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var schemas atomic.Int64

// newOptions are those of a store in a new schema.
func newOptions() Options {
	return Options{
		URL: server.URL("postgres"), Schema: fmt.Sprint("test_", schemas.Add(1)), Retention: time.Hour, MaxConns: 6,
	}
}

// openStore opens a store that is closed when the test ends.
func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// exec runs a statement.
func exec(t *testing.T, s *Store, text string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(context.WithoutCancel(t.Context()), s.sql(text), args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
