package documents

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// mirrored counts how often the value of each document was made.
func mirrored(c *Collection[note]) (*Mirror[note, string], map[string]int) {
	made := map[string]int{}
	return NewMirror(c, func(d *Document[note], old string) string {
		if made[d.Name]++; d.Err != nil {
			return old + "?"
		}
		return d.Value.Text
	}), made
}

// Versions begin anew in a store that lost its documents, so that of another content may be the same.
func TestMirrorsSeeOtherContentOfTheSameVersion(t *testing.T) {
	c, _ := open(t, nil)
	m, _ := mirrored(c)
	for _, text := range []string{"before", "after the loss"} {
		d, err := c.Create(t.Context(), "a", note{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Refresh(t.Context()); err != nil || d.Version != 1 || m.All()["a"] != text {
			t.Errorf("version %d is %q, %v; want %q", d.Version, m.All()["a"], err, text)
		}
		if err := c.Delete(t.Context(), &d); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMirrorsDecodeWhatChanged(t *testing.T) {
	c, s := open(t, nil)
	m, made := mirrored(c)
	ctx := t.Context()
	put := func(name, text string) *Document[note] {
		t.Helper()
		d, err := c.Update(ctx, name, write(text))
		if err != nil {
			t.Fatal(err)
		}
		return &d
	}
	want := func(what string, all, times map[string]any) {
		t.Helper()
		is := map[string]any{}
		for name, v := range m.All() {
			is[name] = v
		}
		if !maps.Equal(is, all) {
			t.Errorf("%s: %v, want %v", what, is, all)
		}
		for name, n := range times {
			if made[name] != n {
				t.Errorf("%s: %s was made %d times, want %v", what, name, made[name], n)
			}
		}
	}
	put("a", "one")
	put("b", "two")
	if m.Complete() {
		t.Error("complete before it was read")
	}
	if err := m.Refresh(ctx); err != nil || !m.Complete() {
		t.Fatal(err)
	}
	put("b", "three")
	if err := m.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	want("refreshed", map[string]any{"a": "one", "b": "three"}, map[string]any{"a": 1, "b": 2})
	m.Keep(put("b", "four"))
	m.Wrote(put("a", "unseen")) // the caller knows
	if err := m.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	want("kept", map[string]any{"a": "one", "b": "four"}, map[string]any{"a": 1, "b": 3})
	raw, err := store.ReadDocument(ctx, s, "note", "b")
	if err != nil {
		t.Fatal(err)
	}
	raw.Data = []byte("?")
	if _, err := store.PutDocument(ctx, s, raw); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "none"} {
		if err := m.Read(ctx, name); err != nil {
			t.Error(err)
		}
	}
	want("unreadable", map[string]any{"a": "one", "b": "four?"}, nil)
	if err := c.Remove(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := m.Read(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	m.Keep(&Document[note]{Head: Head{Name: "b"}})
	want("deleted", map[string]any{}, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Read(ctx, "a"), m.Refresh(ctx)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a closed store: %v", err)
	}
}

// A mirror learns of changes by messages, and without them by reading all now and then.
func TestMirrorsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := open(t, nil)
		m, _ := mirrored(c)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- m.Run(ctx, Following{
				What: "reading notes", From: s, Channel: "notes", Every: time.Minute, Clock: job.SystemClock(), Logger: slog.New(slog.DiscardHandler),
			})
		}()
		put := func(text string) {
			t.Helper()
			if _, err := c.Update(ctx, "a", write(text)); err != nil {
				t.Fatal(err)
			}
		}
		is := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := m.All()["a"]; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		synctest.Wait()
		put("one")
		is("")
		if err := s.Publish(ctx, "notes", []byte("a")); err != nil {
			t.Fatal(err)
		}
		is("one")
		put("two")
		_ = job.Sleep(ctx, job.SystemClock(), 59*time.Second)
		is("one")
		_ = job.Sleep(ctx, job.SystemClock(), 2*time.Second)
		is("two")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
