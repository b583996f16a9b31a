package journal_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a dir?with=odd&names#%41", "data")
	r := newRig(t, sqliteBackend, "sqlite:"+filepath.Join(dir, "duehook.db"), 0)
	r.Add(reg("a", 0))
	files, err := os.ReadDir(dir)
	noError(t, "ReadDir", err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		info, err := f.Info()
		noError(t, "Info", err)
		equal(t, "permissions of "+f.Name(), info.Mode().Perm(), os.FileMode(0o600))
	}
	equal(t, "files", names, []string{"duehook.db", "duehook.db-shm", "duehook.db-wal", "duehook.db.lock"})
	info, err := os.Stat(dir)
	noError(t, "Stat", err)
	equal(t, "permissions of the directory", info.Mode().Perm(), os.FileMode(0o700))
}

func TestOneProcessAtATime(t *testing.T) {
	r := freshRig(t, sqliteBackend, 0)
	_, err := tryRig(t, r.B, r.URL, 0)
	if !errors.Is(err, journal.ErrInUse) || !strings.Contains(err.Error(), filepath.Dir(strings.TrimPrefix(r.URL, "sqlite:"))) {
		t.Fatalf("second Open: %v", err)
	}
	r.Restart(0)
}

func TestPragmas(t *testing.T) {
	inBubble(func(t *testing.T) {
		r := newRig(t, sqliteBackend, sqliteBackend.Fresh(t), 0)
		r.Add(reg("a", 0))
		synctest.Wait()
		for pragma, want := range map[string]string{"journal_mode": "wal", "busy_timeout": "5000"} {
			equal(t, pragma, r.Pragma(t, pragma), want)
		}
		const full, normal = "2", "1"
		noError(t, "Flush", r.Flush())
		equal(t, "synchronous of a commit that somebody waits for", r.Pragma(t, "synchronous"), full)
		c := r.TakeOne()
		synctest.Wait()
		equal(t, "synchronous of a commit that nobody waits for", r.Pragma(t, "synchronous"), normal)
		r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
		equal(t, "synchronous of a settlement", r.Pragma(t, "synchronous"), full)
	})(t)
}

// Migrating must not write to the streams of the process.
func TestOpenPrintsNothing(t *testing.T) {
	read, write, err := os.Pipe()
	noError(t, "Pipe", err)
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = write, write
	r, openErr := tryRig(t, sqliteBackend, sqliteBackend.Fresh(t), 0)
	os.Stdout, os.Stderr = stdout, stderr
	noError(t, "Open", openErr)
	noError(t, "Close", r.Close())
	noError(t, "close the pipe", write.Close())
	printed, err := io.ReadAll(read)
	noError(t, "read", err)
	equal(t, "printed", string(printed), "")
}

func TestOpenFails(t *testing.T) {
	file := func(t *testing.T, content string) string {
		t.Helper()
		path := newPath(t)
		noError(t, "WriteFile", os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	fileWith := func(t *testing.T, text string) string {
		t.Helper()
		r := freshRig(t, sqliteBackend, retention)
		r.RegisterAs(store.Created, reg("a", 0), reg("b", time.Hour))
		r.RunOne(job.OutcomeFailed, time.Hour)
		noError(t, text, r.Exec(t.Context(), text))
		noError(t, "Close", r.Close())
		return strings.TrimPrefix(r.URL, "sqlite:")
	}
	for name, c := range map[string]struct {
		path func(t *testing.T) string
		want string
	}{
		"no path":                    {func(*testing.T) string { return "" }, "write sqlite:path"},
		"a directory that is a file": {func(t *testing.T) string { return filepath.Join(file(t, ""), "x.db") }, "data directory"},
		"no lock file": {func(t *testing.T) string {
			path := newPath(t)
			noError(t, "Mkdir", os.Mkdir(path+".lock", 0o700))
			return path
		}, "lock the journal"},
		"a file that is a directory": {func(t *testing.T) string {
			path := newPath(t)
			noError(t, "Mkdir", os.Mkdir(path, 0o700))
			return path
		}, "open the journal"},
		"not a database": {func(t *testing.T) string { return file(t, strings.Repeat("no database ", 1000)) }, "not a database"},
		"of a newer version": {func(t *testing.T) string {
			return fileWith(t, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)")
		}, "newer duehook"},
		"a table is missing": {func(t *testing.T) string { return fileWith(t, "DROP TABLE flow") }, "no such table"},
		"of the wrong shape": {func(t *testing.T) string {
			return fileWith(t, "ALTER TABLE message RENAME COLUMN snoozes TO naps")
		}, "snoozes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := c.path(t)
			_, err := tryRig(t, sqliteBackend, "sqlite:"+path, retention)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Open: %v, want %q in it", err, c.want)
			}
		})
	}
	t.Run("no store", func(t *testing.T) {
		if _, err := journal.Open(t.Context(), journal.Options{URL: sqliteBackend.Fresh(t)}); err == nil {
			t.Fatal("opened")
		}
	})
	t.Run("the store does not restore", func(t *testing.T) {
		path := fileWith(t, "SELECT 1")
		s := journaltest.NewStore(t, 0)
		noError(t, "Close", s.Close())
		_, err := journal.Open(t.Context(), journal.Options{URL: "sqlite:" + path, Store: s})
		unavailable(t, "Open", err)
		newRig(t, sqliteBackend, "sqlite:"+path, retention) // nothing is locked
	})
	t.Run("given up", func(t *testing.T) {
		path := fileWith(t, "SELECT 1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := journal.Open(ctx, journal.Options{URL: "sqlite:" + path, Store: journaltest.NewStore(t, 0)}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Open: %v", err)
		}
	})
}

func TestCloseTwice(t *testing.T) {
	r := freshRig(t, sqliteBackend, 0)
	noError(t, "Close", r.Close())
	noError(t, "Close", r.Close())
	_, err := r.Purge(t.Context(), 1)
	unavailable(t, "Purge", err)
}

func TestCloseWaitsForCalls(t *testing.T) {
	inBubble(func(t *testing.T) {
		h, option := hook()
		r := freshRig(t, sqliteBackend, retention, option)
		closed := make(chan error, 1)
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			go func() { closed <- r.Close() }()
			synctest.Wait()
			r.Pass(time.Millisecond)
			return call()
		}
		want := r.Add(reg("a", time.Hour))
		noError(t, "Close", <-closed)
		equal(t, "the job", newRig(t, r.B, r.URL, retention).Job("a"), want)
	})(t)
}

// Closing while calls are under way loses nothing that was answered.
func TestCloseUnderWay(t *testing.T) {
	r := freshRig(t, sqliteBackend, retention)
	answered := make(chan string, 1000)
	stopped := make(chan struct{})
	for c := range 4 {
		go func() {
			defer func() { stopped <- struct{}{} }()
			for i := 0; ; i++ {
				g := reg(string(rune('a'+c))+"-"+time.Duration(i).String(), time.Hour)
				if _, err := r.Register(t.Context(), []store.Registration{g}); err != nil {
					if !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("Register: %v", err)
					}
					return
				}
				answered <- g.Key.ID
			}
		}()
	}
	ids := []string{}
	for range 50 {
		ids = append(ids, <-answered)
	}
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	for running := 4; running > 0; {
		select {
		case id := <-answered:
			ids = append(ids, id)
		case <-stopped:
			running--
		}
	}
	noError(t, "Close", <-closed)
	for len(answered) > 0 {
		ids = append(ids, <-answered)
	}
	r = newRig(t, r.B, r.URL, retention)
	for _, id := range ids {
		r.Job(id)
	}
}
