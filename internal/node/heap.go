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

const (
	liveHeap = "/gc/heap/live:bytes"
	// usualPercent is Go's own growth between two collections.
	usualPercent = 100
	// leastHeap is the live heap that Go assumes before the first collection.
	leastHeap = 4 << 20
)

// KeepHeapFloor applies HeapFloor until the process ends, unless GOGC is set. GOMEMLIMIT
// still applies.
func KeepHeapFloor() { keepHeapFloor.Do(startHeapFloor) }

var keepHeapFloor sync.Once

func startHeapFloor() {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	(&heapFloor{live: []metrics.Sample{{Name: liveHeap}}}).adjust()
}

type heapFloor struct {
	live    []metrics.Sample
	percent int // what was set last
}

// adjust sets the growth that leads to the floor. It runs again after each collection, so
// a larger heap gets no more than the default.
func (f *heapFloor) adjust() {
	metrics.Read(f.live)
	if percent := growth(f.live[0].Value.Uint64()); percent != f.percent {
		f.percent = percent
		debug.SetGCPercent(percent)
	}
	// Nothing else holds the object, so the next collection finds it.
	runtime.AddCleanup(new([64]byte), (*heapFloor).adjust, f)
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
