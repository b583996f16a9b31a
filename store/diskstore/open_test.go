package diskstore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/storetest"
)

func TestRaceConformanceOnDisk(t *testing.T) {
	storetest.Run(t, storetest.Harness{OneShard: true, Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, diskstore.Options{Dir: filepath.Join(t.TempDir(), "new", "data"), Retention: o.Retention})
	}})
}

// filled is a closed store with a job, in a directory.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, diskstore.Options{Dir: dir})
	if _, err := s.Register(t.Context(), []store.Registration{newReg("t", "a", job.Spec{})}); err != nil {
		t.Fatal(err)
	}
	must.OK(t, s.Close())
	return dir
}

// refuses expects that a directory cannot be opened, and which words the error has.
func refuses(t *testing.T, o diskstore.Options, words ...string) {
	t.Helper()
	s, err := diskstore.Open(o)
	if err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error lacks %q: %v", word, err)
		}
	}
}

// Rows of another form are refused: by the inventory, and by the rows if that was moved away.
func TestOpenRefusesAnotherForm(t *testing.T) {
	for _, form := range []string{"duehook 0", "duehook 99"} {
		dir := filled(t)
		db, err := pebble.Open(filepath.Join(dir, "jobs"), &pebble.Options{FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}})
		must.OK(t, err)
		must.OK(t, db.Set([]byte("Sform"), []byte(form), pebble.Sync))
		must.OK(t, db.Close())
		must.OK(t, os.Remove(filepath.Join(dir, "jobs.files")))
		refuses(t, diskstore.Options{Dir: dir}, "another version", form, "another directory")
	}
}

// quiet is a logger of the engine.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	s := open(t, diskstore.Options{Dir: dir})
	refuses(t, diskstore.Options{Dir: dir}, "another duehook", "--data-dir")
	must.OK(t, s.Close())
}

func TestOpenRefusesAReadOnlyDirectory(t *testing.T) {
	denied := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return &os.PathError{Op: "open", Path: op.Path, Err: syscall.EACCES}
		}
		return nil
	})
	refuses(t, diskstore.Options{Dir: "data", FS: errorfs.Wrap(vfs.NewMem(), denied)}, "data", "permission denied")
}

// A disk that takes no more ends the store: no call is acknowledged from then on, and
// another store on the same files has all that was.
func TestADiskThatFails(t *testing.T) {
	fs := vfs.NewMem()
	full := errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.EIO
		}
		return nil
	})}
	var log bytes.Buffer
	s := open(t, diskstore.Options{Dir: "data", FS: errorfs.Wrap(fs, &full), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	reg := func(id string) error {
		_, err := s.Register(t.Context(), []store.Registration{newReg("t", id, job.Spec{})})
		return err
	}
	must.OK(t, reg("a"))
	full.On()
	for _, id := range []string{"b", "c"} {
		if err := reg(id); err == nil {
			t.Errorf("%s was acknowledged", id)
		}
	}
	<-s.Failed()
	if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("Ping: %v", err)
	}
	if !strings.Contains(log.String(), "free space") {
		t.Errorf("the log says %s", &log)
	}
	full.Off()
	_ = s.Close() // it says that the disk failed
	s = open(t, diskstore.Options{Dir: "data", FS: fs})
	if _, err := s.Get(t.Context(), job.Key{Topic: "t", ID: "a"}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// While the disk is full, what began waits, and new jobs are refused. Then all goes on.
func TestRaceAFullDisk(t *testing.T) {
	t.Run("any write", func(t *testing.T) {
		aFullDisk(t, func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite })
	})
	t.Run("only the note of what is on the disk", func(t *testing.T) {
		aFullDisk(t, func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWriteAt })
	})
}

func aFullDisk(t *testing.T, fails func(errorfs.Op) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		full := errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
			if fails(op) {
				return syscall.ENOSPC
			}
			return nil
		})}
		s := open(t, diskstore.Options{Dir: "data", FS: errorfs.Wrap(vfs.NewMem(), &full)})
		register := func(id string) store.RegisterOutcome {
			results, err := s.Register(t.Context(), []store.Registration{newReg("t", id, job.Spec{})})
			must.OK(t, err)
			return results[0].Outcome
		}
		register("there")
		full.On()
		waits := make(chan store.RegisterOutcome)
		go func() { waits <- register("a") }()
		synctest.Wait() // the write of a waits
		must.Equal(t, "outcome", register("b"), store.StoreFull)
		must.OK(t, s.Ping(t.Context()))
		if err := s.Takes(t.Context()); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "free space") {
			t.Errorf("a full disk takes jobs: %v", err)
		}
		grows := func(j *job.Job, _ job.Instant) error { j.Spec.Body = []byte("larger"); return nil }
		if _, err := s.Update(t.Context(), job.Key{Topic: "t", ID: "there"}, grows); !errors.Is(err, store.ErrFull) {
			t.Errorf("a larger body while the disk is full: %v", err)
		}
		count := store.Count{Key: job.Key{Topic: "t", ID: "there"}, Adds: []job.Add{{N: 1, Key: "k"}}}
		if _, err := s.Count(t.Context(), count); !errors.Is(err, store.ErrFull) {
			t.Errorf("the key of a count while the disk is full: %v", err)
		}
		full.Off()
		must.Equal(t, "outcome", <-waits, store.Created)
		must.Equal(t, "outcome", register("b"), store.Created)
		must.OK(t, s.Takes(t.Context()))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A job is not sent before its registration is on the disk: a kill would take it back, and its
// client would register it again with another uid. Nor is it sent again before the outcome of the
// attempt before: the number of that would come again.
func TestRaceClaimsWaitForTheDisk(t *testing.T) {
	register := func(t *testing.T, s diskstore.Embedded, id string, delay time.Duration) {
		if _, err := s.Register(t.Context(), []store.Registration{newReg("t", id, job.Spec{When: job.When{Delay: delay}})}); err != nil {
			t.Error(err)
		}
	}
	claim := func(t *testing.T, s diskstore.Embedded) []store.Claimed {
		taken, err := s.Take(t.Context(), 0, store.TakeOptions{Max: 1, Lease: time.Hour, Limits: store.FlightLimits{HalfOpenLimit: 1}})
		if err != nil || len(taken.Claims) != 1 {
			t.Errorf("%d claims, %v", len(taken.Claims), err)
		}
		return taken.Claims
	}
	later := func(t *testing.T) { _ = job.Sleep(t.Context(), job.SystemClock(), time.Millisecond) } // of the bubble
	for name, test := range map[string]struct {
		prepare, write func(t *testing.T, s diskstore.Embedded)
	}{
		"a registration": {
			func(*testing.T, diskstore.Embedded) {},
			func(t *testing.T, s diskstore.Embedded) { register(t, s, "a", 0) },
		},
		"an outcome": {func(t *testing.T, s diskstore.Embedded) {
			register(t, s, "a", 0)
			later(t)
			register(t, s, "b", time.Hour) // since then it is known that a is on the disk
		}, func(t *testing.T, s diskstore.Embedded) {
			settled := job.Settle(&claim(t, s)[0].Job, job.Outcome{Kind: job.OutcomeFailed, Named: true}, func(int) (time.Duration, bool) { return 0, true })
			if _, err := s.Settle(t.Context(), []job.Settlement{settled}); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				released := make(chan struct{})
				release := sync.OnceFunc(func() { close(released) })
				slow := errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo {
						<-released
					}
					return nil
				})}
				s := open(t, diskstore.Options{Dir: "data", FS: errorfs.Wrap(vfs.NewMem(), &slow)})
				defer release()
				test.prepare(t, s)
				later(t)
				slow.On()
				var calls sync.WaitGroup
				calls.Go(func() { test.write(t, s) })
				synctest.Wait() // its rows are on their way to the disk
				claimed := make(chan struct{})
				calls.Go(func() {
					claim(t, s)
					close(claimed)
				})
				synctest.Wait()
				select {
				case <-claimed:
					t.Errorf("claimed before %s is on the disk", name)
				default:
				}
				release()
				calls.Wait()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A restart ends the leases of consumers: their jobs wait as before, and old claims settle nothing.
func TestOpenEndsLeasesOfConsumers(t *testing.T) {
	dir := t.TempDir()
	pulled := job.Spec{Destination: job.PullQueue, OrderKey: "k"}
	claim := func(s diskstore.Embedded) store.Claimed {
		t.Helper()
		taken, err := s.Take(t.Context(), 0, store.TakeOptions{Max: 1, Lease: time.Hour, Limits: store.FlightLimits{HalfOpenLimit: 1}, Pull: []string{"t"}})
		if err != nil || len(taken.Claims) != 1 || taken.Claims[0].From != job.Waiting {
			t.Fatalf("claimed %+v, %v", taken, err)
		}
		return taken.Claims[0]
	}
	s := open(t, diskstore.Options{Dir: dir})
	if _, err := s.Register(t.Context(), []store.Registration{newReg("t", "a", pulled), newReg("t", "b", pulled)}); err != nil {
		t.Fatal(err)
	}
	first := claim(s)
	for range 2 { // also of a claim that an earlier restart has ended
		must.OK(t, s.Close())
		s = open(t, diskstore.Options{Dir: dir})
	}
	if j, err := s.Get(t.Context(), first.Job.Key); err != nil || j.State != job.Waiting || j.Attempts != 0 {
		t.Errorf("after the restart: %+v, %v", j, err)
	}
	second := claim(s)
	if second.Job.Key != first.Job.Key || second.Job.Token == first.Job.Token {
		t.Errorf("claimed %v with the token %d, before %v with %d", second.Job.Key, second.Job.Token, first.Job.Key, first.Job.Token)
	}
	for c, want := range map[*store.Claimed]store.SettleStatus{&first: store.Stale, &second: store.Applied} {
		if got, err := s.Settle(t.Context(), []job.Settlement{c.Job.Extend(time.Hour)}); err != nil || got[0].Status != want {
			t.Errorf("extended: %+v, %v", got, err)
		}
	}
	must.OK(t, s.Close())
}
