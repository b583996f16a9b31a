package rules

import (
	"cmp"

	"github.com/duehook/duehook/store"
)

// PerFree is how many attempts a topic may run for each free worker. So no topic has all
// workers: alone it has eight of nine, two have eight of seventeen each, and a topic without
// an attempt finds a worker. The rule is the dynamic threshold of A. K. Choudhury and
// E. L. Hahne for the queues that share the buffer of a switch.
const PerFree = 8

// More is how many more places a topic may take that has some, while some are free: it may have
// perFree of them for each one that stays free. A topic that has none may take one.
func More(perFree float64, has, free int) int {
	if free <= 0 {
		return 0
	}
	n := int((perFree*float64(free) - float64(has)) / (perFree + 1))
	if has == 0 {
		n = max(n, 1)
	}
	return max(0, n)
}

// HintPlaces is how many places for hints the topics of a shard share. With the default weight,
// a topic may have one for each place that stays free: alone it has CarryOptions.Cap. Consumers of
// pull queues share nothing.
func HintPlaces(o *store.CarryOptions) int {
	if o.Pull != nil {
		return o.Cap
	}
	return 2 * o.Cap
}

// MoreHints is how many more jobs of a topic may become ready beside those that it has, and those
// of the shard. A topic has hints by its weight: of the jobs on a list, most are of the topic with
// the most hints.
func MoreHints(l *store.Limits, o *store.CarryOptions, has, ready int) int {
	return moreHints(weightOf(l), has, HintPlaces(o)-ready)
}

// moreHints gives a topic without a hint a place in any case: the number of topics has no limit.
func moreHints(weight, has, free int) int {
	return More(float64(weight)/store.DefaultWeight, has, max(1, free))
}

func weightOf(l *store.Limits) int { return cmp.Or(l.Weight, store.DefaultWeight) }
