package node

import (
	"os"
	"runtime"
)

// AddProcessor adds one to GOMAXPROCS, unless the environment sets it. A sync of the disk blocks a
// thread, and Go runs other goroutines in its place only some time later: a core would be idle.
func AddProcessor() {
	if _, set := os.LookupEnv("GOMAXPROCS"); !set {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
