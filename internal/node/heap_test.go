package node

import (
	"math"
	"testing"
)

func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1500},
		{4 * mb, 1500},
		{8 * mb, 700},
		{10 * mb, 540},
		{30 * mb, 100},
		{32 * mb, 100},
		{63 * mb, 100},
		{64 * mb, 100},
		{65 * mb, 100},
		{4096 * mb, 100},
		{math.MaxUint64, 100},
	} {
		got := growth(c.live)
		if got != c.want {
			t.Errorf("growth(%d MB) = %d, want %d", c.live/mb, got, c.want)
		}
		if goal := float64(c.live) * (1 + float64(got)/100); c.live < HeapFloor/2 && goal > HeapFloor {
			t.Errorf("a heap of %d MB may grow to %.0f MB", c.live/mb, goal/mb)
		}
	}
}

// The limit leaves room for half of the live heap, whatever else takes memory.
func TestSoftLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ budget, live, rest, want int64 }{
		{128, 0, 0, 320},
		{128, 200, 20, 320},
		{128, 200, 21, 352},
		{128, 4096, 0, 6144},
		{128, 10, 4000, 4032},
		{1024, 200, 20, 1216},
		{32, 30, 5, 224},
	} {
		if got := softLimit(c.budget*mb, c.live*mb, c.rest*mb); got != c.want*mb {
			t.Errorf("%d MB live and %d MB beside, with a budget of %d MB: %d MB, want %d MB", c.live, c.rest, c.budget, got/mb, c.want)
		}
	}
}
