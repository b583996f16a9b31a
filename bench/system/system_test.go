package system

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/testing/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(script string) *exec.Cmd { return exec.Command("sh", "-c", script) }

func always(string) bool { return true }

func TestStartWaitsForReadiness(t *testing.T) {
	var seen []string
	p, err := Start(t.Context(), "sh", shell("echo one; echo two; echo three >&2; exec sleep 1000"), func(line string) bool {
		seen = append(seen, line)
		return line == "two"
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, seen[:2]); diff != "" {
		t.Error(diff)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStartTellsWhyAProcessEnded(t *testing.T) {
	_, err := Start(t.Context(), "sh", shell("echo the reason; exit 3"), func(string) bool { return false })
	if want := "sh ended before it was ready: exit status 3\nthe reason"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestCPUTimeCountsChildren(t *testing.T) {
	const work = `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`
	// One child has ended when the other, which lives on, is ready.
	script := fmt.Sprintf(`sh -c '%s'; sh -c '%s; echo ready; exec sleep 1000' & child=$!; trap 'kill $child' TERM; wait`, work, work)
	p, err := Start(t.Context(), "sh", shell(script), always)
	if err != nil {
		t.Fatal(err)
	}
	got, err := testenv.CPUTime(p.PID())
	if err != nil || got < 10*time.Millisecond {
		t.Errorf("used %v, %v", got, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestResident(t *testing.T) {
	got, err := Resident(os.Getpid())
	if err != nil || got < 1<<20 || got > 1<<32 {
		t.Errorf("this test takes %d bytes, %v", got, err)
	}
}
