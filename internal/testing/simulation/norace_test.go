//go:build !race

package simulation

import "testing"

// These are for `make soak PART=simulation`, which runs without the race detector: it makes
// the scheduler choose at random, and miniredis slow.

// TestSoakReplay runs seeds twice and compares what happened, and when. A little is
// left to the scheduler, so that some may differ; a source of chance that the
// seed does not govern makes most of them differ.
func TestSoakReplay(t *testing.T) {
	const runs, enough = 20, 15
	same := 0
	for seed := *firstSeed; seed < *firstSeed+runs; seed++ {
		var traces [2]uint64
		for i := range traces {
			simulate(t, newPlan(seed, 1), inMemory, func(h *history) { traces[i] = h.hash() })
		}
		if traces[0] == traces[1] {
			same++
		}
	}
	t.Logf("%d of %d seeds gave the same trace twice", same, runs)
	if same < enough {
		t.Errorf("only %d of %d seeds gave the same trace twice", same, runs)
	}
}

// TestSoakLadderOnRedis is TestPlainLadder on redisstore and miniredis.
func TestSoakLadderOnRedis(t *testing.T) { runLadder(t, inRedis) }
