package node

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// HeapFloor is how large the heap may grow before garbage is collected, in
// bytes. By Go's own measure, which is twice what is in use, a node with few
// jobs in memory would collect its ten megabytes many times a second. Larger
// heaps are left to that.
const HeapFloor = 64 << 20

const (
	liveHeap = "/gc/heap/live:bytes"
	// usualPercent is Go's own growth between two collections.
	usualPercent = 100
	// leastHeap is what Go takes for in use before the first collection.
	leastHeap = 4 << 20
)

// KeepHeapFloor sets the garbage collector's pace by HeapFloor, from now until
// the process ends, unless the environment has GOGC. GOMEMLIMIT goes on to count.
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

// adjust sets the growth that leads to the floor, and comes again after the
// next collection: so a heap that has grown is never given too much.
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
