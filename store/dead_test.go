package store_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/store"
)

func TestReadPages(t *testing.T) {
	there := []int{1, 2, 3}
	one := func(cursor string) ([]int, string, error) { // one item a page
		at, _ := strconv.Atoi(cursor)
		if at == len(there)-1 {
			return there[at:], "", nil
		}
		return there[at : at+1], strconv.Itoa(at + 1), nil
	}
	for pages, want := range map[int][]int{2: there[:2], 3: there, 4: there} {
		got, all, err := store.ReadPages(pages, one)
		if diff := cmp.Diff(want, got); diff != "" || all != (pages > 2) || err != nil {
			t.Errorf("%d pages: all is %v, error %v (-want +got):\n%s", pages, all, err, diff)
		}
	}
	fails := func(string) ([]int, string, error) { return there, "", store.ErrUnavailable }
	if _, _, err := store.ReadPages(1, fails); err == nil {
		t.Error("no error")
	}
}
