package node

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// HeapFloor is the heap size, in bytes, below which no garbage is collected. By default
// Go collects at twice the live heap: a node with few jobs would collect its ten
// megabytes many times a second. Larger heaps keep the default.
const HeapFloor = 64 << 20

// usualMemory is about what a node uses without clients, in bytes: HeapFloor, and the cache of a store on disk.
const usualMemory = HeapFloor + 128<<20

const (
	liveHeap = "/gc/heap/live:bytes"
	// usualPercent is Go's own growth between two collections.
	usualPercent = 100
	// leastHeap is the live heap that Go assumes before the first collection.
	leastHeap = 4 << 20
)

// total is what Go has from the system. These classes of it are heap, or were given back.
const total = "/memory/classes/total:bytes"

var heapClasses = []string{
	"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/released:bytes",
}

// TuneCollector applies HeapFloor until the process ends, unless GOGC is set. Unless GOMEMLIMIT is set, it also keeps the
// process near usualMemory and the budget of its clients, in bytes, as long as that leaves room for half of the live heap:
// without, an attack would leave garbage behind as large as what it held.
func TuneCollector(budget int) { tuneCollector.Do(func() { startTuning(int64(budget)) }) }

var tuneCollector sync.Once

func startTuning(budget int64) {
	t := &tuning{budget: budget, samples: []metrics.Sample{{Name: liveHeap}, {Name: total}}}
	for _, name := range heapClasses {
		t.samples = append(t.samples, metrics.Sample{Name: name})
	}
	_, t.ownPercent = os.LookupEnv("GOGC")
	_, t.ownLimit = os.LookupEnv("GOMEMLIMIT")
	t.adjust()
}

// tuning is of Go's garbage collector.
type tuning struct {
	budget               int64
	ownPercent, ownLimit bool // the environment has it
	samples              []metrics.Sample
	percent              int   // what was set last
	limit                int64 // what was set last
}

// adjust sets the growth that leads to the floor, and the limit. It runs again after each collection, so
// a larger heap gets no more than the default.
func (t *tuning) adjust() {
	metrics.Read(t.samples)
	live, rest := t.samples[0].Value.Uint64(), t.samples[1].Value.Uint64()
	for _, s := range t.samples[2:] {
		rest -= min(rest, s.Value.Uint64())
	}
	if percent := growth(live); !t.ownPercent && percent != t.percent {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
	if limit := softLimit(t.budget, int64(live), int64(rest)); !t.ownLimit && limit != t.limit {
		t.limit = limit
		debug.SetMemoryLimit(limit)
	}
	// Nothing else holds the object, so the next collection finds it.
	runtime.AddCleanup(new([64]byte), (*tuning).adjust, t)
}

// growth is the percentage by which a heap in use may grow.
func growth(live uint64) int {
	const step = 20 // setting it stops all goroutines for a moment
	if live >= HeapFloor {
		return usualPercent
	}
	live = max(live, leastHeap)
	return max(usualPercent, int((HeapFloor-live)*100/live)/step*step)
}

// softLimit is what Go may use beside a live heap and the rest, such as stacks, all in bytes. A heap near the limit would be
// collected without end.
func softLimit(budget, live, rest int64) int64 {
	const step = 32 << 20 // as with growth
	return max(usualMemory+budget, (rest+live+live/2+step-1)/step*step)
}
