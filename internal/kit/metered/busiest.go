package metered

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Busiest decides which names are shown on their own, if there are more names than places: the busiest
// ones, without places that change hands all the time. A new name gets a free place at once. If no place is free,
// places change hands at the end of a period only, and only to names that were used more
// than twice as often in it as those that they replace. It is not safe for concurrent use.
type Busiest struct {
	places int
	period time.Duration
	until  job.Instant
	own    map[string]int64 // the names with a place, and their uses in this period
	// others are names without a place, at most as many as places: the heavy hitters of
	// Misra and Gries (1982). Their uses are lower bounds.
	others map[string]int64
}

// NewBusiest returns a Busiest without any name. Places and period are positive.
func NewBusiest(places int, period time.Duration) *Busiest {
	return &Busiest{places: places, period: period, own: map[string]int64{}, others: map[string]int64{}}
}

// Use counts a use of a name. It reports whether the name has a place now, and which names
// have just lost theirs.
func (n *Busiest) Use(name string, at job.Instant) (has bool, lost []string) {
	if n.until == 0 {
		n.until = at.Add(n.period)
	}
	if at >= n.until {
		lost = n.change()
		n.until = at.Add(n.period)
	}
	if _, has = n.own[name]; has || len(n.own) < n.places {
		n.own[name]++
		return true, lost
	}
	n.useOther(name)
	return false, lost
}

func (n *Busiest) useOther(name string) {
	if _, known := n.others[name]; known || len(n.others) < n.places {
		n.others[name]++
		return
	}
	for other := range n.others {
		n.others[other]--
	}
	maps.DeleteFunc(n.others, func(_ string, uses int64) bool { return uses == 0 })
}

// change ends a period.
func (n *Busiest) change() (lost []string) {
	for out, in := range swaps(n.own, n.others) {
		lost = append(lost, out)
		delete(n.own, out)
		n.own[in] = 0
	}
	for name := range n.own {
		n.own[name] = 0
	}
	clear(n.others)
	slices.Sort(lost)
	return lost
}

// swaps returns which names lose their place, and to whom: the least used to the most used
// other one, and so on, while that was used more than twice as often.
func swaps(own, others map[string]int64) map[string]string {
	leaving, coming := byUses(own), byUses(others)
	slices.Reverse(coming)
	found := map[string]string{}
	for i := range min(len(leaving), len(coming)) {
		if others[coming[i]] <= 2*own[leaving[i]] {
			break
		}
		found[leaving[i]] = coming[i]
	}
	return found
}

// byUses sorts names by their uses, the fewest first.
func byUses(names map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[a], names[b]), cmp.Compare(a, b))
	})
}
