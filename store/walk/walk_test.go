package walk_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/redisstore"
	"github.com/duehook/duehook/store/sqlstore"
	"github.com/duehook/duehook/store/storetest"
	"github.com/duehook/duehook/store/walk"
)

// postgres is the server of the tests.
var postgres *testenv.SQLServer

func TestMain(m *testing.M) {
	var err error
	if postgres, err = testenv.StartPostgres(false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := postgres.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// opened numbers the stores that share a server.
var opened atomic.Int64

func TestEveryWay(t *testing.T) {
	server := testenv.StartRedis(t)
	storetest.RunWalk(t,
		storetest.End{Name: "disk", Harness: storetest.Harness{Open: func(t testing.TB, o storetest.Options) store.Store {
			s, err := diskstore.Open(diskstore.Options{Dir: t.TempDir(), Clock: job.SystemClock(), Retention: o.Retention})
			must.OK(t, err)
			return s
		}}},
		storetest.End{Name: "Redis", Shards: 3, Harness: storetest.Harness{ReadyList: true, Open: func(t testing.TB, o storetest.Options) store.Store {
			s, err := redisstore.Open(t.Context(), redisstore.Options{
				URL: server.URL(), Namespace: fmt.Sprint("walk", opened.Add(1)), Shards: o.Shards, Retention: o.Retention,
			})
			must.OK(t, err)
			return s
		}}},
		storetest.End{Name: "PostgreSQL", Harness: storetest.Harness{Open: func(t testing.TB, o storetest.Options) store.Store {
			s, err := sqlstore.Open(t.Context(), sqlstore.Options{
				URL: postgres.URL("postgres"), Schema: fmt.Sprint("walk_", opened.Add(1)), Retention: o.Retention, MaxConns: 6,
			})
			must.OK(t, err)
			return s
		}}})
}

func TestRefused(t *testing.T) {
	source := testenv.Store(t, diskstore.Options{})
	var text bytes.Buffer
	_, err := walk.Export(t.Context(), source.(walk.Source), &text, walk.ExportOptions{Head: walk.Head{ID: "w"}})
	must.OK(t, err)
	lines := strings.SplitAfter(text.String(), "\n")
	odd := errors.New("odd")
	for name, test := range map[string]struct {
		has  func(s store.Store) error
		text string
		want error
	}{
		"nothing":          {nil, "", walk.ErrCut},
		"a registration":   {nil, `{"topic":"t","url":"https://example.com"}`, walk.ErrForm},
		"no JSON":          {nil, lines[0] + "x", walk.ErrForm},
		"a newer form":     {nil, strings.Replace(lines[0], `"form":1`, `"form":2`, 1), walk.ErrForm},
		"a newer member":   {nil, lines[0] + `{"job":{"job":{"Newer":1}}}`, walk.ErrForm},
		"an unknown line":  {nil, lines[0] + `{}`, walk.ErrForm},
		"no last line":     {nil, lines[0], walk.ErrCut},
		"half a line":      {nil, lines[0] + lines[1][:5], walk.ErrCut},
		"a head to refuse": {nil, strings.Replace(lines[0], `"namespace":""`, `"namespace":"odd"`, 1), odd},
		"a document": {func(s store.Store) error {
			_, err := store.PutDocument(t.Context(), s, store.Document{Kind: "topic", Name: "t"})
			return err
		}, text.String(), walk.ErrNotEmpty},
		"a job": {func(s store.Store) error {
			key := job.Key{Topic: "t", ID: "a"}
			_, err := s.Register(t.Context(), []store.Registration{{Key: key, UID: store.BindUID("01J00000000000000000000000", key), Spec: job.Spec{Destination: "https://example.com"}}})
			return err
		}, text.String(), walk.ErrNotEmpty},
		"a document that may be there": {func(s store.Store) error {
			_, err := store.PutDocument(t.Context(), s, store.Document{Kind: "node", Name: "n"})
			return err
		}, text.String(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := testenv.Store(t, diskstore.Options{})
			if test.has != nil {
				must.OK(t, test.has(s))
			}
			_, err := walk.Import(t.Context(), s.(walk.Target), strings.NewReader(test.text), walk.ImportOptions{
				Passing: func(kind string) bool { return kind == "node" },
				Check: func(h *walk.Head) error {
					if h.Namespace == "odd" {
						return odd
					}
					return nil
				},
			})
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}

// A job that was changed between two runs of an import is not mixed with the one of the walk.
func TestChangedMeanwhile(t *testing.T) {
	source, target := testenv.Store(t, diskstore.Options{}), testenv.Store(t, diskstore.Options{})
	key := job.Key{Topic: "t", ID: "a"}
	_, err := source.Register(t.Context(), []store.Registration{{Key: key, UID: store.BindUID("01J00000000000000000000000", key), Spec: job.Spec{Destination: "https://example.com"}}})
	must.OK(t, err)
	var text bytes.Buffer
	_, err = walk.Export(t.Context(), source.(walk.Source), &text, walk.ExportOptions{Head: walk.Head{ID: "w"}})
	must.OK(t, err)
	cut := text.String()[:strings.LastIndex(strings.TrimSpace(text.String()), "\n")+1]
	_, err = walk.Import(t.Context(), target.(walk.Target), strings.NewReader(cut), walk.ImportOptions{})
	must.Equal(t, "broken off", errors.Is(err, walk.ErrCut), true)
	_, err = target.Update(t.Context(), key, func(j *job.Job, now job.Instant) error { return j.Run(now) })
	must.OK(t, err)
	_, err = walk.Import(t.Context(), target.(walk.Target), &text, walk.ImportOptions{})
	must.Equal(t, "changed", errors.Is(err, store.ErrConflict), true)
}

// Everything of a job is in its line.
func TestReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Make[store.Restored]().Draw(t, "job")
		want.Job.Spec = job.Spec{Destination: "https://example.com", Body: want.Job.Spec.Body}
		want.Job.LastAttempt = nil
		if n := len(want.Log); n > 0 {
			want.Job.LastAttempt = &want.Log[n-1]
		}
		got, err := walk.ReadAsWritten(&want)
		must.OK(t, err)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}
