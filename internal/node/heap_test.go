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
