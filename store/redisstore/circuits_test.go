package redisstore

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/rules"
)

// Circuits of endpoints without jobs, which carrying never looks at, do not stay.
func TestPurgeForgetsOpenCircuits(t *testing.T) {
	t.Parallel()
	s, err := prepare(Options{URL: testenv.StartRedis(t).URL()}, true)
	ok(t, "prepare", err)
	t.Cleanup(func() { _ = s.Close() })
	ms := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10) }
	const hour = time.Hour
	circuits := map[string]string{
		"http://open:80":      ms(hour) + " " + ms(2*hour),
		"http://half-open:80": ms(-hour) + " " + ms(hour),
		"http://free:80":      ms(-2*hour) + " " + ms(-hour),
		"http://ramps:80":     ms(0),
		"http://ramped:80":    ms(-hour),
	}
	stored := s.shards[0].circuits
	ok(t, "HSet", s.db.HSet(t.Context(), stored, circuits).Err())
	if d, err := listing.Depth(t.Context(), s); err != nil || d.OpenCircuits != 1 {
		t.Errorf("%d open circuits, %v; want 1", d.OpenCircuits, err)
	}
	for range 2 {
		if _, err := s.Purge(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	left, err := s.db.HGetAll(t.Context(), stored).Result()
	ok(t, "HGetAll", err)
	want := []string{"http://half-open:80", "http://open:80", "http://ramps:80"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(left))); diff != "" {
		t.Error(diff)
	}
}

// A SetCircuit that was broken off half-way can be repeated.
func TestUnholdCanBeRepeated(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	ctx := t.Context()
	endpoint := sc.hint.Lane.Endpoint
	ok(t, "SetCircuit", sc.s.SetCircuit(ctx, endpoint, store.CircuitOpen, time.Hour))
	carried, err := sc.s.Carry(ctx, 0, carryAll)
	ok(t, "Carry", err)
	if len(carried.Carried) != 0 {
		t.Fatalf("carried %v while open", carried.Carried)
	}
	for _, sh := range sc.s.shards {
		ok(t, "the first half", sc.s.changeCircuit(ctx, sh, endpoint, rules.ClosedCircuit))
	}
	ok(t, "SetCircuit", sc.s.SetCircuit(ctx, endpoint, store.CircuitClosed, 0))
	testenv.Eventually(t, testenv.Patience, func() bool {
		free, err := sc.s.Carry(ctx, 0, carryAll)
		ok(t, "Carry", err)
		return len(free.Carried) > 0
	}, "jobs to be carried after the hold")
}
