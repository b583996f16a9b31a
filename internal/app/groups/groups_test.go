package groups_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// Any node knows a group as another one left it.
func TestManager(t *testing.T) {
	clock := testenv.NewClock(time.UnixMilli(1000))
	ctx, mem := t.Context(), testenv.Store(t, diskstore.Options{})
	one, two := groups.New(mem, app.Guard(nil).Check, clock), groups.New(mem, app.Guard(nil).Check, clock)
	if _, err := one.Get(ctx, "g"); !errors.Is(err, groups.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	put := func(m *groups.Manager, created bool, version uint64, of []groups.Member, allow ...documents.Allow) {
		t.Helper()
		got, isNew, err := m.Put(ctx, groups.Group{Name: "g", Members: of}, allow...)
		if err != nil || isNew != created || got.Version != version {
			t.Errorf("put %+v, created %v: %v", got, isNew, err)
		}
	}
	put(one, true, 1000, members("a"))
	put(two, false, 1001, members("b/eu", "a"), documents.Unchanged(1000))
	got, err := one.Get(ctx, "g")
	if diff := cmp.Diff(groups.Group{Name: "g", Stamp: documents.Stamp{CreatedAt: 1000, UpdatedAt: 1000, Version: 1001}, Members: members("b/eu", "a")}, got); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got)\n%s", err, diff)
	}
	if again, created, err := one.Put(ctx, groups.Group{Name: "g", Members: members("b/eu", "a")}); err != nil || created || again.Version != 1001 {
		t.Errorf("equal content: %+v, created %v, error %v", again, created, err)
	}
	no := errors.New("no")
	refuse := func(bool, uint64) error { return no }
	if _, _, err := one.Put(ctx, groups.Group{Name: "g"}, refuse); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
	if err := one.Delete(ctx, "g", refuse); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
	for _, want := range []error{nil, groups.ErrNotFound} {
		if err := two.Delete(ctx, "g"); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
}

func TestBounds(t *testing.T) {
	clock := testenv.NewClock(time.UnixMilli(1000))
	ctx, mem := t.Context(), testenv.Store(t, diskstore.Options{})
	m := groups.New(mem, app.Guard(nil).Check, clock)
	put := func(name string, bytes int) error {
		value := strings.Repeat("x", bytes/2)
		_, _, err := m.Put(ctx, groups.Group{Name: name, Members: []groups.Member{{Headers: []job.Header{{Value: value}, {Value: value}}}}})
		return err
	}
	var wrong *job.ValidationError
	if err := put("large", groups.MaxBytes); !errors.As(err, &wrong) || wrong.Fields[0].Field != "members" {
		t.Errorf("error %v", err)
	}
	const each, most = groups.MaxBytes - 1024, groups.MaxAllBytes / groups.MaxBytes
	if err := put("0", each); err != nil {
		t.Fatal(err)
	}
	// The others are copied in the store, which takes less time than putting them.
	first, err := store.ReadDocument(ctx, mem, "group", "0")
	if err != nil {
		t.Fatal(err)
	}
	copies := make([]store.Document, most-2)
	for i := range copies {
		copies[i] = store.Document{Kind: first.Kind, Name: fmt.Sprint(i + 1), Data: first.Data}
	}
	if _, err := mem.PutDocuments(ctx, copies); err != nil {
		t.Fatal(err)
	}
	m = groups.New(mem, app.Guard(nil).Check, clock) // which has counted nothing yet
	if err := put("last", each); err != nil {
		t.Errorf("the last group has no room: %v", err)
	}
	if err := put("more", each); !errors.Is(err, groups.ErrTooMany) {
		t.Errorf("error %v", err)
	}
	if err := put("0", each); err != nil {
		t.Errorf("a group cannot be replaced: %v", err)
	}
	page, next, err := m.List(ctx, "", 100)
	if n := len(page); err != nil || n < 2 || n > store.PageBytes/each+2 || next != page[n-1].Name {
		t.Errorf("a page of %d groups, next %q: %v", n, next, err)
	}
	total := len(page)
	for next != "" {
		if page, next, err = m.List(ctx, next, 100); err != nil {
			t.Fatal(err)
		}
		total += len(page)
	}
	if total != most {
		t.Errorf("%d groups are listed", total)
	}
}
