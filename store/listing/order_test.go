package listing_test

import (
	"errors"
	"fmt"
	"slices"
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

func TestOrderRefusesTooMuch(t *testing.T) {
	s := &fakeSource{}
	for i := range listing.MaxSorted {
		s.add("t", fmt.Sprint(i), "http://e", 0, job.Waiting, "", float64(i))
	}
	if jobs, _ := all(t, s, store.Query{Topic: "t", States: []job.State{job.Waiting}, Order: store.OrderCreated, Limit: 1_000}); len(jobs) != listing.MaxSorted {
		t.Errorf("%d jobs", len(jobs))
	}
	s.add("t", "one more", "http://e", 0, job.Waiting, "", -1)
	if _, err := listing.List(t.Context(), s, waiting(store.OrderCreated)); !errors.Is(err, store.ErrTooManyToSort) {
		t.Errorf("of %d jobs: %v", listing.MaxSorted+1, err)
	}
	running := waiting(store.OrderCreated)
	running.States = []job.State{job.Running}
	if _, err := listing.List(t.Context(), s, running); err != nil {
		t.Errorf("of those in flight: %v", err)
	}
	for i := range listing.MaxSortedGroups {
		s.add("t", fmt.Sprint("more", i), fmt.Sprint("http://e", i), 0, job.Waiting, "", float64(i))
	}
	if _, err := listing.List(t.Context(), s, waiting(store.OrderDue)); !errors.Is(err, store.ErrTooManyToSort) {
		t.Errorf("of %d lanes: %v", listing.MaxSortedGroups+1, err)
	}
}

func TestOrderRefusesTooManyBytes(t *testing.T) {
	s := &fakeSource{}
	body := make([]byte, 200<<10)
	for i := range 2_000 {
		s.add("t", fmt.Sprint(i), "http://e", 0, job.Waiting, "", float64(i))
		if i < 1_000 {
			s.jobs[job.Key{Topic: "t", ID: fmt.Sprint(i)}].Spec.Body = body
		}
	}
	q := waiting(store.OrderCreated)
	if page, err := listing.List(t.Context(), s, q); err != nil || len(page.Jobs) != q.Limit {
		t.Errorf("1,000 of 200 KiB: %d jobs, %v", len(page.Jobs), err)
	}
	for _, j := range s.jobs {
		j.Spec.Body = body
	}
	if _, err := listing.List(t.Context(), s, q); !errors.Is(err, store.ErrTooManyToSort) {
		t.Errorf("2,000 of 200 KiB: %v", err)
	}
}

func TestOrderTellsErrors(t *testing.T) {
	for _, what := range []string{"Names", "Entries", "Read", "Times"} {
		for _, order := range store.Orders {
			if what == "Times" && (order == store.OrderDue || order == store.OrderDueBack) {
				continue
			}
			s := &fakeSource{fail: map[string]error{what: errors.New("down")}}
			s.add("t", "a", "http://e", 0, job.Waiting, "", 1)
			if _, err := listing.List(t.Context(), s, waiting(order)); !errors.Is(err, s.fail[what]) {
				t.Errorf("%s, order %s: %v", what, order, err)
			}
		}
	}
}
