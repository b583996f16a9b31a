package redisstore

import (
	"slices"
	"testing"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// wholes returns which shards lack no job, and their epochs, which it changes.
func (f *filled) wholes(s *Store) (wholes []bool, epochs []string) {
	f.Helper()
	for _, sh := range s.shards {
		whole, err := s.isWhole(f.Context(), sh)
		f.ok(err)
		wholes = append(wholes, whole)
	}
	epochs, err := s.SwapEpoch(f.Context(), "next", "")
	f.ok(err)
	return wholes, epochs
}

// Shards that lack no job lack none after resharding, so jobs with order keys need not wait
// until all jobs are compared with a ledger. Of other shards nothing is known.
func TestReshardKeepsTheEpoch(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	for name, c := range map[string]struct {
		from, to int
		spoil    func(s *Store, f *filled)
		whole    bool
	}{
		"more":   {2, 3, nil, true},
		"fewer":  {3, 1, nil, true},
		"common": {1, 2, nil, true},
		"another epoch": {2, 3, func(s *Store, f *filled) {
			f.ok(swapScript.Run(f.Context(), s.db, []string{s.shards[1].epoch, s.shards[1].whole}, "other", "").Err())
		}, false},
		"a shard may lack jobs": {2, 3, func(s *Store, f *filled) {
			f.ok(s.db.Del(f.Context(), s.shards[1].whole).Err())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := fill(newNodes(t, r.URL(), c.from), 5)
			s := f.open()
			for range 2 {
				_, err := s.SwapEpoch(t.Context(), "epoch", "epoch")
				f.ok(err)
			}
			if c.spoil != nil {
				c.spoil(s, f)
			}
			_, err := f.reshard(c.to)
			f.ok(err)
			wholes, epochs := f.wholes(f.with(c.to).open())
			if slices.Contains(wholes, !c.whole) || slices.ContainsFunc(epochs, func(e string) bool { return (e == "epoch") != c.whole }) {
				t.Errorf("whole %v, epochs %q; want %v", wholes, epochs, c.whole)
			}
		})
	}
}

// A new shard that loses its data while jobs are moved loses the epoch, too.
func TestLostShardLosesTheEpoch(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	f := fill(newNodes(t, r.URL(), 2), 5)
	s := f.open()
	_, err := s.SwapEpoch(t.Context(), "epoch", "")
	f.ok(err)
	f.ok(s.db.Del(t.Context(), s.shards[1].epoch).Err())
	m := &mover{to: s, epoch: "epoch"}
	f.ok(m.confirmEpoch(t.Context()))
	wholes, epochs := f.wholes(s)
	if slices.Contains(wholes, true) || slices.Contains(epochs, "epoch") {
		t.Errorf("whole %v, epochs %q", wholes, epochs)
	}
}
