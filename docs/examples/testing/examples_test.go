// Package testing_test runs the examples with the runtimes that this machine has.
package testing_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestExamples(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "duehook")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, command := range [][]string{
		{"node", "--test", "order.test.mjs"},
		{"node", "--test", "../tutorial/shop.test.mjs"},
		{"python3", "-m", "unittest", "test_order.py"},
		{"python3", "-m", "unittest", "discover", "-s", "../tutorial", "-p", "test_shop.py"},
		{"java", "OrderTest.java"},
	} {
		path, err := exec.LookPath(command[0])
		if err != nil {
			t.Logf("%s is not here: its example does not run", command[0])
			continue
		}
		t.Run(command[0]+" "+filepath.Base(command[len(command)-1]), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), path, command[1:]...)
			cmd.Env = append(os.Environ(), "DUEHOOK="+binary, "PYTHONDONTWRITEBYTECODE=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
