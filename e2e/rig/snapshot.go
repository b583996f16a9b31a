package rig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// dataOfRedis is what a server of Redis keeps in its directory.
var dataOfRedis = []string{"dump.rdb", "appendonlydir"}

// Snapshot copies what a server of Redis has on disk, as an operator does it
// for a backup. While the server is down, putBack puts that in the place of
// what it has by then.
func Snapshot(t testing.TB, server *testenv.Redis) (putBack func()) {
	t.Helper()
	copies := t.TempDir()
	move(t, server.Dir(), copies)
	return func() {
		t.Helper()
		for _, name := range dataOfRedis {
			if err := os.RemoveAll(filepath.Join(server.Dir(), name)); err != nil {
				t.Fatal(err)
			}
		}
		move(t, copies, server.Dir())
	}
}

// move copies a server's data from one directory to another that has none.
func move(t testing.TB, from, to string) {
	t.Helper()
	found := false
	for _, name := range dataOfRedis {
		info, err := os.Stat(filepath.Join(from, name))
		switch {
		case os.IsNotExist(err):
			continue
		case err == nil && info.IsDir():
			err = os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(from, name)))
		case err == nil:
			var content []byte
			if content, err = os.ReadFile(filepath.Join(from, name)); err == nil {
				err = os.WriteFile(filepath.Join(to, name), content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		found = true
	}
	if !found {
		t.Fatalf("Redis has nothing in %s", from)
	}
}
