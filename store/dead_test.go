package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/store"
)

// groups gives one group of dead letters a page.
type groups []store.DeadGroup

func (g groups) DeadGroups(_ context.Context, _ string, _ int, cursor string) (store.DeadPage, error) {
	if len(g) == 0 {
		return store.DeadPage{}, store.ErrUnavailable
	}
	page := store.DeadPage{Groups: g[len(cursor):][:1]}
	if len(cursor)+1 < len(g) {
		page.Next = cursor + "."
	}
	return page, nil
}

func TestReadDeadGroups(t *testing.T) {
	there := groups{{Count: 1}, {Count: 2}, {Count: 3}}
	for pages, want := range map[int][]store.DeadGroup{2: there[:2], 3: there, 4: there} {
		got, all, err := store.ReadDeadGroups(t.Context(), there, "", pages)
		if diff := cmp.Diff(want, got); diff != "" || all != (pages > 2) || err != nil {
			t.Errorf("%d pages: all is %v, error %v (-want +got):\n%s", pages, all, err, diff)
		}
	}
	if _, _, err := store.ReadDeadGroups(t.Context(), groups{}, "", 1); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}
