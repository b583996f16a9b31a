package diskstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// TestRows makes random changes and compares what get and scan find, before and after the changes
// are written, with a map.
func TestRows(t *testing.T) {
	s := opened(t, Options{})
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		name := func() string { return fmt.Sprintf("%c%d", 'X'+rune(r.IntN(3)), r.IntN(6)) }
		want := rowsOf(t, s.db, []byte("X"), []byte("["))
		change := rows{db: s.db}
		if r.IntN(2) == 0 {
			must.OK(t, change.fetch([][]byte{[]byte("X3"), []byte("X1"), []byte("X2")}))
		}
		for range 30 {
			switch key := name(); r.IntN(8) {
			case 0:
				change.add(pebble.InternalKeyKindDelete, []byte(key), nil)
				delete(want, key)
			case 1:
				if from, to := key[:1]+"2", key[:1]+"4"; seed%2 == 0 { // half of the seeds delete ranges
					change.add(pebble.InternalKeyKindRangeDelete, []byte(from), []byte(to))
					maps.DeleteFunc(want, func(key, _ string) bool { return from <= key && key < to })
				}
			case 2:
				change.add(pebble.InternalKeyKindSet, []byte(key), nil)
				want[key] = ""
			case 3:
				all, err := change.reader()
				must.OK(t, err)
				if diff := cmp.Diff(want, rowsOf(t, all, []byte("X"), []byte("["))); diff != "" {
					t.Fatalf("seed %d: the search (-want +got):\n%s", seed, diff)
				}
			case 4, 5:
				value, err := change.get([]byte(key))
				if is, ok := want[key]; err != nil || ok != (value != nil) || is != string(value) {
					t.Fatalf("seed %d: %s is %q, %v, want %q, %t", seed, key, value, err, is, ok)
				}
			default:
				value := fmt.Sprint(r.IntN(100))
				change.add(pebble.InternalKeyKindSet, []byte(key), []byte(value))
				want[key] = value
			}
		}
		must.OK(t, change.close())
		b, err := change.batch()
		must.OK(t, err)
		must.OK(t, s.db.Apply(b, pebble.NoSync))
		if diff := cmp.Diff(want, rowsOf(t, s.db, []byte("X"), []byte("["))); diff != "" {
			t.Fatalf("seed %d: the rows (-want +got):\n%s", seed, diff)
		}
	}
}

func rowsOf(t *testing.T, r pebble.Reader, from, to []byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	if err := scan(r, from, to, func(key, value []byte) bool {
		found[string(key)] = string(value)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestFetchIsBounded: what exceeds the bytes of a batch is read when it is needed.
func TestFetchIsBounded(t *testing.T) {
	s := opened(t, Options{})
	var keys [][]byte
	for i := range 5 {
		key := fmt.Appendf(nil, "X%d", i)
		must.OK(t, s.db.Set(key, make([]byte, store.BatchBytes/2), pebble.NoSync))
		keys = append(keys, key)
	}
	r := rows{db: s.db}
	must.OK(t, r.fetch(slices.Clone(keys)))
	must.Equal(t, "fetched", len(r.fetched), 2)
	for _, key := range keys {
		if value, err := r.get(key); len(value) != store.BatchBytes/2 || err != nil {
			t.Errorf("%s has %d bytes, %v", key, len(value), err)
		}
	}
}

// TestHeldRecords: the records of small running jobs are held until they are settled or changed.
func TestHeldRecords(t *testing.T) {
	s := opened(t, Options{Retention: time.Hour})
	add(t, s, newReg("small", job.Spec{}), newReg("changed", job.Spec{}), newReg("large", job.Spec{Body: make([]byte, store.SmallRecord+1)}))
	claims := take(t, s, time.Minute)
	heldIDs := func() (ids []string) {
		bytes := 0
		for key, f := range s.flights {
			if f.record != nil {
				ids, bytes = append(ids, key.ID), bytes+f.record.row
			}
		}
		must.Equal(t, "held", bytes, s.held)
		slices.Sort(ids)
		return ids
	}
	if got := heldIDs(); !slices.Equal(got, []string{"changed", "small"}) {
		t.Errorf("held: %q", got)
	}
	changed := job.Key{Topic: "t", ID: "changed"}
	if _, err := s.Update(t.Context(), changed, func(j *job.Job, _ job.Instant) error { j.CancelRequested = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := heldIDs(); !slices.Equal(got, []string{"small"}) {
		t.Errorf("held after a change: %q", got)
	}
	for i := range claims {
		settle(t, s, claims[i], job.OutcomeFailed)
	}
	if got := heldIDs(); len(got) > 0 || s.held != 0 {
		t.Errorf("held after settling: %q, %d bytes", got, s.held)
	}
	if v, err := s.Get(t.Context(), changed); err != nil || v.State != job.Cancelled {
		t.Errorf("the job that was to be cancelled is %v, %v", v.State, err)
	}
}

// A damaged record is an error, not a panic.
func FuzzDecodeRecord(f *testing.F) {
	rec := newRecord(&job.Job{
		Key: job.Key{Topic: "t", ID: "a"}, UID: "u", Spec: job.Spec{Destination: url, OrderKey: "k"}, State: job.Retrying, NextAt: 1,
		LastAttempt: &job.Attempt{Number: 1, Status: 503},
	})
	f.Add(rec.encode())
	rec.State, rec.EndedAt, rec.Reason = job.Dead, 2, "r"
	rec.settledBy, rec.settled = 3, store.Settled{To: job.Dead, Reason: "r"}
	row := rec.encode()
	f.Add(row)
	f.Add(row[:len(row)-1])
	f.Fuzz(func(_ *testing.T, row []byte) {
		rec, err := decodeRecord(row)
		if err != nil {
			return
		}
		_, _ = rec.job()
		_, _ = rec.attempts()
	})
}
