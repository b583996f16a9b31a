package documents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// note is a document of the tests.
type note struct {
	Name string `json:"-"`
	Text string `json:"text,omitempty"`
}

// shared documents count reads and fail writes with a conflict.
type shared struct {
	store.Store
	conflicts    int
	reads, lists atomic.Int32
	listed       func() // before a list
}

func (s *shared) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if q.Name != "" {
		s.reads.Add(1)
	} else {
		s.lists.Add(1)
		s.listed()
	}
	return s.Store.ListDocuments(ctx, q)
}

func (s *shared) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	if s.conflicts > 0 {
		s.conflicts--
		return make([]uint64, len(docs)), nil
	}
	return s.Store.PutDocuments(ctx, docs)
}

func open(t *testing.T, change func(o *Options[note])) (*Collection[note], *shared) {
	t.Helper()
	s := &shared{Store: testenv.Store(t, diskstore.Options{}), listed: func() {}}
	o := Options[note]{Store: s, Kind: "note", New: func(name string) note { return note{Name: name} }}
	if change != nil {
		change(&o)
	}
	return New(o), s
}

// write is a change of Update.
func write(text string) func(d *Document[note]) error {
	return func(d *Document[note]) error {
		d.Value.Text = text
		return nil
	}
}

func TestUpdate(t *testing.T) {
	c, _ := open(t, nil)
	for version, text := range []string{"one", "two"} {
		d, err := c.Update(t.Context(), "a", write(text))
		if err != nil || d.Version != uint64(version+1) {
			t.Fatalf("%+v, error %v", d, err)
		}
		if d, err = c.Get(t.Context(), "a"); err != nil || d.Value != (note{Name: "a", Text: text}) {
			t.Errorf("%+v, error %v", d, err)
		}
	}
	d, err := c.Update(t.Context(), "a", func(*Document[note]) error { return ErrKept })
	if err != nil || d.Version != 2 {
		t.Errorf("kept: %+v, error %v", d, err)
	}
	other := errors.New("another")
	if _, err := c.Update(t.Context(), "a", func(*Document[note]) error { return other }); !errors.Is(err, other) {
		t.Errorf("refused: %v", err)
	}
	if d, err := c.Get(t.Context(), "b"); !errors.Is(err, store.ErrNotFound) || d.Value.Name != "b" || d.Version != 0 {
		t.Errorf("missing: %+v, error %v", d, err)
	}
}

func TestUpdateStartsOverAfterConflicts(t *testing.T) {
	for conflicts, want := range map[int]error{0: nil, tries - 1: nil, tries: store.ErrConflict} {
		c, s := open(t, nil)
		s.conflicts = conflicts
		_, err := c.Update(t.Context(), "a", write("x"))
		if !errors.Is(err, want) || int(s.reads.Load()) != min(conflicts+1, tries) {
			t.Errorf("%d conflicts: %d tries, error %v", conflicts, s.reads.Load(), err)
		}
	}
}

func TestFromReadsAllPages(t *testing.T) {
	c, s := open(t, nil)
	var want []string
	const size = 100
	for i := range 2*size + 50 {
		name := fmt.Sprintf("n%03d", i)
		want = append(want, name)
		if _, err := c.Update(t.Context(), name, write("x")); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for raw, err := range c.From(t.Context(), want[9], size) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, raw.Name)
	}
	if !slices.Equal(got, want[10:]) {
		t.Errorf("%d documents, %v", len(got), got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range c.From(t.Context(), "", size) {
		if n++; !errors.Is(err, store.ErrUnavailable) || n > 1 {
			t.Errorf("%d: error %v", n, err)
		}
	}
	if n != 1 {
		t.Error("a closed store shows no error")
	}
}

func TestCollectionsAreBounded(t *testing.T) {
	c, _ := open(t, func(o *Options[note]) { o.Max, o.MaxBytes = 2, 60 })
	long := strings.Repeat("x", 30)
	for _, step := range []struct {
		name, text string
		want       error
	}{
		{"a", "x", nil},
		{"b", "x", nil},
		{"c", "x", ErrFull}, // one too many
		{"b", "y", nil},     // a document that there is
		{"b", long, nil},
		{"a", long, ErrFull}, // too many bytes
		{"b", "y", nil},      // smaller
		{"a", long, nil},
	} {
		if _, err := c.Update(t.Context(), step.name, write(step.text)); !errors.Is(err, step.want) {
			t.Errorf("%s, %d bytes: error %v, want %v", step.name, len(step.text), err, step.want)
		}
	}
}

// A collection is counted now and then: when a part of its room was filled, and when the
// count is old. Nobody passes the bounds by documents of another node.
func TestABoundedCollectionIsSeldomCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1000
		var o Options[note]
		one, s := open(t, func(bounded *Options[note]) {
			bounded.Max, bounded.MaxBytes, bounded.Clock = most, 1<<20, job.SystemClock()
			bounded.Exists = func(n *note) bool { return n.Text != "deleted" }
			o = *bounded
		})
		two := New(o)
		put := func(c *Collection[note], name, text string, want error) {
			t.Helper()
			if _, err := c.Update(t.Context(), name, write(text)); !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", name, err, want)
			}
		}
		put(two, "first", "deleted", nil) // two counts nothing else
		for i := range most {
			put(one, fmt.Sprint(i), "x", nil)
		}
		if lists := s.lists.Load(); lists > 60 {
			t.Errorf("documents were listed %d times for %d new ones", lists, most)
		}
		put(one, "more", "x", ErrFull)
		_ = job.Sleep(t.Context(), job.SystemClock(), countFor+1)
		put(two, "more", "x", ErrFull)
		put(two, "7", "deleted", nil)
		put(two, "more", "x", nil)
	})
}

// A count reads the whole collection: calls at the same time wait for one, and who asks a full
// collection again soon after makes none.
func TestCallsShareACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 20
		c, s := open(t, func(o *Options[note]) { o.Max, o.Clock = calls, job.SystemClock() })
		counting := make(chan struct{})
		s.listed = func() { <-counting }
		var group sync.WaitGroup
		full := atomic.Int32{}
		create := func(name string) {
			_, err := c.Update(t.Context(), name, write("x"))
			if errors.Is(err, ErrFull) {
				full.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		}
		for i := range calls / spareShare {
			group.Go(func() { create(fmt.Sprint(i)) })
		}
		synctest.Wait()
		close(counting)
		group.Wait()
		if s.lists.Load() != 1 {
			t.Errorf("%d lists for calls at the same time", s.lists.Load())
		}
		for i := range calls {
			create(fmt.Sprint(i))
		}
		s.lists.Store(0)
		for i := range 100 {
			create(fmt.Sprint("more ", i))
		}
		if full.Load() != 100 || s.lists.Load() > 2 {
			t.Errorf("%d calls of 100 were refused, after %d lists", full.Load(), s.lists.Load())
		}
		if err := c.Remove(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
		create("in its place")
		if full.Load() != 100 {
			t.Error("there is no room after a deletion")
		}
	})
}

func TestBlankDocumentsAreDeleted(t *testing.T) {
	c, s := open(t, func(o *Options[note]) { o.Blank = func(n *note) bool { return n.Text == "" } })
	if d, err := c.Update(t.Context(), "a", write("")); err != nil || d.Version != 0 {
		t.Errorf("%+v, error %v", d, err)
	}
	for _, text := range []string{"x", ""} {
		if _, err := c.Update(t.Context(), "a", write(text)); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := c.All(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, error %v", all, err)
	}
	newer := store.Document{Kind: "note", Name: "b", Data: []byte(`{"text":"x","color":"red"}`)}
	if _, err := store.PutDocument(t.Context(), s, newer); err != nil {
		t.Fatal(err)
	}
	if d, err := c.Update(t.Context(), "b", write("")); err != nil || string(d.Data) != `{"color":"red"}` {
		t.Errorf("fields of a newer version: %s, error %v", d.Data, err)
	}
}

func TestUnreadableDocumentsAreNotOverwritten(t *testing.T) {
	c, s := open(t, func(o *Options[note]) {
		o.Check = func(n *note) error {
			if n.Text == "unknown" {
				return errors.New("no such text")
			}
			return nil
		}
	})
	no := errors.New("no")
	for name, data := range map[string]string{"a": "?", "b": `{"text":"unknown"}`} {
		raw, err := store.PutDocument(t.Context(), s, store.Document{Kind: "note", Name: name, Data: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Update(t.Context(), name, write("x")); !errors.Is(err, store.ErrNewer) {
			t.Errorf("%s: Update: %v", name, err)
		}
		d := c.Decode(raw)
		if err := c.Put(t.Context(), &d); !errors.Is(err, store.ErrNewer) {
			t.Errorf("%s: Put: %v", name, err)
		}
		if kept, err := store.ReadDocument(t.Context(), s, "note", name); err != nil || string(kept.Data) != data {
			t.Errorf("%s: %q, error %v", name, kept.Data, err)
		}
		if err := c.Remove(t.Context(), name, func(bool, uint64) error { return no }); !errors.Is(err, no) {
			t.Errorf("%s: Remove without leave: %v", name, err)
		}
		if err := c.Remove(t.Context(), name); err != nil {
			t.Errorf("%s: Remove: %v", name, err)
		}
		if err := c.Remove(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: Remove again: %v", name, err)
		}
	}
}
