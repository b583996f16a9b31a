package ledger_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// Migrating must not write to the streams of the process.
func TestOpenPrintsNothing(t *testing.T) {
	read, write, err := os.Pipe()
	noError(t, "Pipe", err)
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = write, write
	r, openErr := tryRig(t, postgres, postgres.Fresh(t), 0)
	os.Stdout, os.Stderr = stdout, stderr
	noError(t, "Open", openErr)
	noError(t, "Close", r.Close())
	noError(t, "close the pipe", write.Close())
	printed, err := io.ReadAll(read)
	noError(t, "read", err)
	equal(t, "printed", string(printed), "")
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"of a newer version": {"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)", "newer duehook"},
		"a table is missing": {"DROP TABLE flow CASCADE", "flow"},
		"of the wrong shape": {"ALTER TABLE message RENAME COLUMN snoozes TO naps", "snoozes"},
	} {
		r := newRig(t, postgres, postgres.Fresh(t), retention)
		noError(t, c.text, r.Exec(t.Context(), c.text))
		noError(t, "Close", r.Close())
		if _, err := tryRig(t, postgres, r.URL, retention); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
	if _, err := ledger.Open(t.Context(), ledger.Options{URL: postgres.Empty(t)}); err == nil {
		t.Error("opened without a store")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := ledger.Open(ctx, ledger.Options{URL: postgres.Empty(t), Store: newStore(t, 0)})
	isError(t, "Open, given up", err, context.Canceled)
}

func TestCloseTwice(t *testing.T) {
	r := freshRig(t, postgres, 0)
	noError(t, "Close", r.Close())
	noError(t, "Close", r.Close())
	_, err := r.Purge(t.Context(), 1)
	unavailable(t, "Purge", err)
}

func TestRaceCloseWaitsForCalls(t *testing.T) {
	inBubble(func(t *testing.T) {
		h, option := hook()
		r := freshRig(t, postgres, retention, option)
		closed := make(chan error, 1)
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			go func() { closed <- r.Close() }()
			synctest.Wait()
			r.Pass(time.Millisecond)
			return call()
		}
		want := r.Add(reg("a", time.Hour))
		noError(t, "Close", <-closed)
		equal(t, "the job", r.restored(r.URL).Job("a"), want)
	})(t)
}

// Closing while calls are under way loses nothing that was answered.
func TestRaceCloseUnderWay(t *testing.T) {
	r := freshRig(t, postgres, retention)
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
	r = r.restored(r.URL)
	for _, id := range ids {
		r.Job(id)
	}
}
