package listing_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

func waiting(order store.Order) store.Query {
	return store.Query{Topic: "t", States: []job.State{job.Waiting}, Order: order, Limit: 10}
}

// A page that merges lanes examines a bounded number of entries, and ends where all
// lanes have been looked at.
func TestOrderMergesWithinBounds(t *testing.T) {
	for _, order := range []store.Order{store.OrderDue, store.OrderDueBack} {
		s := &fakeSource{}
		var want []string
		for i := range 40_000 {
			state := job.Retrying
			if i%4_000 == 0 {
				state = job.Waiting
				want = append(want, fmt.Sprintf("t/%05d", i))
			}
			s.add("t", fmt.Sprintf("%05d", i), fmt.Sprint("http://e", i%3), i%2, state, "", float64(i))
		}
		if order == store.OrderDueBack {
			slices.Reverse(want)
		}
		q := waiting(order)
		var got []string
		for pages := 0; ; pages++ {
			s.examined = 0
			page, err := listing.List(t.Context(), s, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range page.Jobs {
				got = append(got, j.Key.String())
			}
			if s.examined > 12_000 {
				t.Fatalf("a page examined %d entries", s.examined)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			if pages > 20 {
				t.Fatal("the listing does not end")
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", order, got, want)
		}
	}
}

func TestOrderRefusesTooManyGroups(t *testing.T) {
	for order, state := range map[store.Order]job.State{store.OrderDue: job.Waiting, store.OrderEndedBack: job.Dead} {
		s := &fakeSource{}
		add := func(i int) { s.add("t", fmt.Sprint(i), fmt.Sprint("http://e", i), 0, state, "", float64(i)) }
		for i := range listing.MaxSortedGroups {
			add(i)
		}
		q := store.Query{Topic: "t", States: []job.State{state}, Order: order, Limit: 1_000}
		if jobs, _ := all(t, s, q); len(jobs) != listing.MaxSortedGroups {
			t.Errorf("%s: %d jobs", order, len(jobs))
		}
		add(listing.MaxSortedGroups)
		if _, err := listing.List(t.Context(), s, q); !errors.Is(err, store.ErrTooManyToSort) {
			t.Errorf("%s of %d groups: %v", order, listing.MaxSortedGroups+1, err)
		}
	}
}

// Ended jobs are in two kinds of indexes, which an order merges.
func TestEndedJobsOfAllIndexes(t *testing.T) {
	s := &fakeSource{}
	var want []string
	for i := range 300 {
		state := []job.State{job.Dead, job.Delivered, job.Cancelled}[i%3]
		s.add(fmt.Sprint("t", i%4), fmt.Sprintf("%03d", i), fmt.Sprint("http://e", i%2), i%2, state, "", float64(i/10))
		want = append(want, fmt.Sprintf("t%d/%03d", i%4, i))
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 7, 1_000} {
		q := store.Query{States: []job.State{job.Dead, job.Delivered, job.Cancelled}, Order: store.OrderEndedBack, Limit: limit}
		got, _ := all(t, s, q)
		ended := func(key string) string { return key[len(key)-3 : len(key)-1] } // the score
		if !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(ended(b), ended(a)) }) {
			t.Errorf("in pages of %d: %v", limit, got)
		}
		slices.Sort(got)
		all := slices.Sorted(slices.Values(want))
		if !slices.Equal(got, all) {
			t.Errorf("in pages of %d: %d jobs, want %d", limit, len(got), len(all))
		}
	}
}

func TestOrderTellsErrors(t *testing.T) {
	for _, what := range []string{"Names", "Entries", "Read"} {
		for _, order := range store.Orders {
			s := &fakeSource{fail: map[string]error{what: errors.New("down")}}
			q := waiting(order)
			if order == store.OrderEndedBack {
				q.States[0] = job.Dead
			}
			s.add("t", "a", "http://e", 0, q.States[0], "", 1)
			if _, err := listing.List(t.Context(), s, q); !errors.Is(err, s.fail[what]) {
				t.Errorf("%s, order %s: %v", what, order, err)
			}
		}
	}
}
