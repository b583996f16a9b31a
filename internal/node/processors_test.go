package node

import (
	"os"
	"runtime"
	"testing"
)

func TestAddProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })

	t.Setenv("GOMAXPROCS", "1") // restores the variable, too
	AddProcessor()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS is set and became %d, want %d", got, before)
	}

	if err := os.Unsetenv("GOMAXPROCS"); err != nil {
		t.Fatal(err)
	}
	AddProcessor()
	if got := runtime.GOMAXPROCS(0); got != before+1 {
		t.Errorf("GOMAXPROCS is not set and became %d, want %d", got, before+1)
	}
}
