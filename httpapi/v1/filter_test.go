package v1

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/testing/everyfield"
	"github.com/duehook/duehook/store"
)

// A part that answers leave out would make an operation look as if it changed more jobs.
func TestEveryPartOfAFilterIsShown(t *testing.T) {
	notFilters := []string{"[Order]", "[Limit]", "[Cursor]", "[IndexedID]"} // the last is for dialects
	written := func(q *store.Query) string { return string(jsonio.AppendObject(nil, jsonio.Shown(writeFilter, q))) }
	none := written(&store.Query{})
	for at, q := range everyfield.Alone[store.Query]() {
		if got := written(q); (got != none) == slices.Contains(notFilters, at) {
			t.Errorf("a filter with %s is written %s", at, got)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(filterParts)), slices.Sorted(slices.Values(filterNames))); diff != "" {
		t.Errorf("(-parts +names)\n%s", diff)
	}
}

// An operation has the filters of a listing.
func TestOperationsSelectLikeListings(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"one", "other"} {
		a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"`+id+`","url":"https://shop.example/hook","delay":60,"order_key":"k-`+id+`"}`)
	}
	uid := a.stored("t", "one").UID
	for filter, want := range map[string]float64{
		`"id":"on"`: 1, `"uid":"` + strings.ToLower(uid) + `"`: 1, `"order_key":"k-other"`: 1, `"id":"o"`: 2,
		`"created_from":"2026-01-01t09:00:00z"`: 2, `"created_from":1767258001`: 0, `"created_to":1767258000000.0`: 0, `"created_to":"2026-01-01T09:00:00.001Z"`: 2,
		`"due_from":1767258060`: 2, `"due_to":1.76725806e9`: 0,
	} {
		got := a.want(200, "POST", "/v1/operations?dry_run=true", `{"action":"cancel","filter":{`+filter+`}}`)
		if got["matched"] != want {
			t.Errorf("%s matches %v, want %v", filter, got["matched"], want)
		}
	}
}
