package torture

import (
	"bytes"
	"os"
	"testing"
)

// TestSoakShippedCannotCrash: the shipped build has no failpoints.
func TestSoakShippedCannotCrash(t *testing.T) {
	for name, build := range map[string]func() (string, error){"shipped": shipped, "with failpoints": failing} {
		path, err := build()
		if err != nil {
			t.Fatal(err)
		}
		binary, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if knows := bytes.Contains(binary, []byte("FAILPOINT")); knows != (name == "with failpoints") {
			t.Errorf("the build %s knows failpoints: %t", name, knows)
		}
	}
}
