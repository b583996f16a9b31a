package documents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// keyring is that of a node with sealed notes. Nobody removes the note "stays".
func keyring(docs store.Documents, log *slog.Logger, keys ...MasterKey) *Keyring[note, string] {
	return NewKeyring(KeyringOptions[note, string]{
		Options: Options[note]{Store: docs, Kind: "note", Seal: NewSeal(keys...)},
		What:    "notes", Of: func(v *note) string { return v.Text }, Logger: log,
		Lasting: func(name string) bool { return name == "stays" },
	})
}

// running keeps a keyring up to date until the bubble of the test ends.
func running(t *testing.T, k *Keyring[note, string]) {
	t.Helper()
	ended, ctx := make(chan error, 1), t.Context()
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() { must.OK(t, <-ended) }) // the context has ended by then
}

// pass waits, in a bubble.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	must.OK(t, job.Sleep(t.Context(), job.SystemClock(), d))
	synctest.Wait()
}

// text is what a keyring knows of a document; "-" without one.
func text(k *Keyring[note, string], name string) string {
	h, ok := k.All()[name]
	if !ok {
		return "-"
	}
	last, err := h.Last()
	if err != nil {
		return err.Error()
	}
	return last
}

// Every node uses a change of another one within Freshness, and then does what it knows, whatever
// becomes of the store. An outage is logged once.
func TestKeyringsLearnFromEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, key, out := testenv.NewDocuments(t), masterKey(t), &bytes.Buffer{}
		a, b := keyring(docs, slog.New(slog.DiscardHandler), key), keyring(docs, slog.New(slog.NewTextHandler(out, nil)), key)
		running(t, b)
		var lists atomic.Int32
		for age, n := time.Duration(0), 0; age < Freshness; age, n = age+500*time.Millisecond, n+1 {
			pass(t, age)
			is := fmt.Sprint(n)
			_, err := a.Update(t.Context(), "n", write(is))
			must.OK(t, err)
			must.Equal(t, "this node", text(a, "n"), is)
			pass(t, Freshness)
			must.Equal(t, "another node", text(b, "n"), is)
			docs.Fail(store.ErrUnavailable, "list")
			pass(t, time.Hour)
			must.Equal(t, "in an outage", text(b, "n"), is)
			docs.Hook(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
			pass(t, time.Hour)
			must.Equal(t, "with a store that hangs", text(b, "n"), is)
			docs.Hook(func(_ context.Context, call string) error {
				if call == "list" {
					lists.Add(1)
				}
				return nil
			})
			must.OK(t, a.Remove(t.Context(), "n"))
			must.Equal(t, "removed here", text(a, "n"), "-")
			pass(t, Freshness)
			must.Equal(t, "removed there", text(b, "n"), "-")
			for _, message := range []string{"failing; retrying", "working again"} {
				must.Equal(t, message, strings.Count(out.String(), message), n+1)
			}
		}
		lists.Store(0)
		pass(t, time.Minute)
		if n := lists.Load(); n < 10 || n > 30 {
			t.Errorf("%d lists in a minute", n)
		}
	})
}

// Ending in the middle of a read is no failure.
func TestKeyringsStopWhileTheyRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, out := testenv.NewDocuments(t), &bytes.Buffer{}
		docs.Hook(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		k := keyring(docs, slog.New(slog.NewTextHandler(out, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil || out.Len() > 0 {
			t.Errorf("%v; logged %s", err, out)
		}
	})
}

func TestKeyringsAreReadyOnceTheyWereRead(t *testing.T) {
	docs := testenv.NewDocuments(t)
	k := keyring(docs, slog.New(slog.DiscardHandler), masterKey(t))
	docs.Fail(store.ErrUnavailable, "list")
	if err := k.Load(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("in an outage: %v", err)
	}
	if err := k.Ready(); !errors.Is(err, ErrUnread) || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "notes") {
		t.Errorf("before a read: %v", err)
	}
	docs.Hook(nil)
	must.OK(t, k.Load(t.Context()))
	must.OK(t, k.Ready())
}

func TestChangesOfKeyrings(t *testing.T) {
	docs, key := testenv.NewDocuments(t), masterKey(t)
	k, other := keyring(docs, slog.New(slog.DiscardHandler), key), keyring(docs, slog.New(slog.DiscardHandler), key)
	down := fmt.Errorf("%w: refused", store.ErrUnavailable)
	docs.Fail(down, "put")
	for _, change := range []func() error{
		func() error { _, err := k.Create(t.Context(), "a", note{}); return err },
		func() error { _, err := k.Update(t.Context(), "a", write("x")); return err },
	} {
		if err := change(); !errors.Is(err, down) || text(k, "a") != "-" {
			t.Errorf("%v; known %q", err, text(k, "a"))
		}
	}
	docs.Hook(nil)
	_, err := k.Create(t.Context(), "a", note{Text: "one"})
	must.OK(t, err)
	must.Equal(t, "created", text(k, "a"), "one")

	// The answer counts if the store is away right after it.
	writes := 0
	docs.Hook(func(_ context.Context, call string) error {
		if call == "put" {
			writes++
		} else if writes > 0 {
			return down
		}
		return nil
	})
	_, err = k.Update(t.Context(), "a", write("two"))
	must.OK(t, err)
	must.Equal(t, "changed", text(k, "a"), "two")

	docs.Fail(down, "delete")
	if err := k.Remove(t.Context(), "a"); !errors.Is(err, down) || text(k, "a") != "two" {
		t.Errorf("%v; known %q", err, text(k, "a"))
	}
	docs.Hook(nil)
	must.OK(t, other.Remove(t.Context(), "a"))
	must.Equal(t, "removed elsewhere", text(k, "a"), "two")
	if err := k.Remove(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) || text(k, "a") != "-" {
		t.Errorf("removed twice: %v; known %q", err, text(k, "a"))
	}
}

// Two nodes change a document at the same time: the second change is made to the first.
func TestConcurrentChangesOfKeyrings(t *testing.T) {
	docs, key := testenv.NewDocuments(t), masterKey(t)
	a, b := keyring(docs, slog.New(slog.DiscardHandler), key), keyring(docs, slog.New(slog.DiscardHandler), key)
	add := func(k *Keyring[note, string], more string) error {
		_, err := k.Update(t.Context(), "n", func(d *Document[note]) error { d.Value.Text += more; return nil })
		return err
	}
	docs.Hook(func(_ context.Context, call string) error {
		if call != "put" {
			return nil
		}
		docs.Hook(nil)
		return add(b, "b")
	})
	must.OK(t, add(a, "a"))
	must.Equal(t, "known", text(a, "n"), "ba")
}

// Calls and nodes that need a document at the same time make it once.
func TestKeyringsAgree(t *testing.T) {
	docs, key := testenv.NewDocuments(t), masterKey(t)
	var all sync.WaitGroup
	var got [16]string
	for i := range got {
		k := keyring(docs, slog.New(slog.DiscardHandler), key)
		all.Go(func() {
			d, err := k.Ensure(t.Context(), "stays", func() (note, error) { return note{Text: fmt.Sprint(i)}, nil })
			if got[i] = d.Value.Text; err != nil || text(k, "stays") != got[i] {
				t.Errorf("%v; known %q", err, text(k, "stays"))
			}
			for range 20 {
				if k.Load(t.Context()) != nil || text(k, "stays") != got[i] {
					t.Errorf("known %q", text(k, "stays"))
				}
			}
		})
	}
	all.Wait()
	for _, is := range got {
		must.Equal(t, "a node has", is, got[0])
	}
	must.Equal(t, "writes", docs.Stored("note")[0].Version, 1)
	failed := errors.New("not made")
	k := keyring(docs, slog.New(slog.DiscardHandler), key)
	if _, err := k.Ensure(t.Context(), "b", func() (note, error) { return note{}, failed }); !errors.Is(err, failed) || text(k, "b") != "-" {
		t.Errorf("%v; known %q", err, text(k, "b"))
	}
}

// Damage to one document is that one's only. Nodes that knew it keep its last content, and say so once.
func TestUnreadableDocumentsOfKeyrings(t *testing.T) {
	docs, key, out := testenv.NewDocuments(t), masterKey(t), &bytes.Buffer{}
	a, b := keyring(docs, slog.New(slog.NewTextHandler(out, nil)), key), keyring(docs, slog.New(slog.DiscardHandler), key)
	for _, name := range []string{"n", "other"} {
		_, err := a.Update(t.Context(), name, write("x"))
		must.OK(t, err)
	}
	docs.Overwrite("note", "n", strings.Replace(string(docs.Stored("note")[0].Data), `"box":"`, `"box":"AAAA`, 1))
	for range 3 {
		must.OK(t, errors.Join(a.Load(t.Context()), b.Load(t.Context())))
	}
	must.Equal(t, "where it was known", text(a, "n"), "x")
	must.Equal(t, "another document", text(b, "other"), "x")
	for _, k := range []*Keyring[note, string]{a, b} {
		if err := k.All()["n"].Err; !errors.Is(err, ErrDamaged) {
			t.Errorf("its error is %v", err)
		}
	}
	if _, err := b.All()["n"].Last(); !errors.Is(err, ErrDamaged) {
		t.Errorf("where it was not known: %v", err)
	}
	if strings.Count(out.String(), "cannot be read") != 1 || !strings.Contains(out.String(), "name=n ") {
		t.Errorf("logged:\n%s", out)
	}
	_, err := b.Update(t.Context(), "n", write("y"))
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("overwritten: %v", err)
	}
	must.OK(t, b.Remove(t.Context(), "n"))
}

// A content that is not sealed may be of a newer version. The log does not quote it.
func TestKeyringsDoNotLogContents(t *testing.T) {
	docs, out := testenv.NewDocuments(t), &bytes.Buffer{}
	k := NewKeyring(KeyringOptions[note, string]{
		Options: Options[note]{Store: docs, Kind: "note", Check: func(v *note) error { return errors.New(v.Text) }},
		What:    "notes", Of: func(v *note) string { return v.Text }, Logger: slog.New(slog.NewTextHandler(out, nil)),
	})
	docs.Overwrite("note", "n", `{"text":"hunter2"}`)
	must.OK(t, k.Load(t.Context()))
	if !strings.Contains(out.String(), "name=n ") || strings.Contains(out.String(), "hunter2") {
		t.Errorf("logged:\n%s", out)
	}
}

// A store that lost its documents gets them back from any node that knows them.
func TestLostDocumentsArePutBack(t *testing.T) {
	docs, key := testenv.NewDocuments(t), masterKey(t)
	a, b := keyring(docs, slog.New(slog.DiscardHandler), key), keyring(docs, slog.New(slog.DiscardHandler), key)
	for _, name := range []string{"stays", "n"} {
		_, err := a.Update(t.Context(), name, write(name))
		must.OK(t, err)
	}
	must.OK(t, b.Load(t.Context()))
	docs.Lose("note")
	docs.Fail(store.ErrUnavailable, "put")
	if err := a.Load(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("putting them back: %v", err)
	}
	must.Equal(t, "meanwhile", text(a, "n"), "n")
	docs.Hook(func(_ context.Context, call string) error { // another node is faster
		if call != "put" {
			return nil
		}
		docs.Hook(nil)
		return b.Load(t.Context())
	})
	must.OK(t, a.Load(t.Context()))
	docs.Hook(nil)
	for _, k := range []*Keyring[note, string]{a, b, keyring(docs, slog.New(slog.DiscardHandler), key)} {
		must.OK(t, k.Load(t.Context()))
		must.Equal(t, "put back", text(k, "n")+text(k, "stays"), "nstays")
	}
	// What somebody removed stays away.
	must.OK(t, a.Remove(t.Context(), "n"))
	must.OK(t, b.Load(t.Context()))
	must.Equal(t, "removed", text(b, "n"), "-")
	must.Equal(t, "stored", len(docs.Stored("note")), 1)
}
