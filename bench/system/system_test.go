package system

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
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
	got, err := CPUTime(p.PID())
	if err != nil || got < tick {
		t.Errorf("used %v, %v", got, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (a (b) c) S 7 1 1 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 100 1 1")
	if err != nil {
		t.Fatal(err)
	}
	want := stat{parent: 7, self: 2 * time.Second, waitedFor: 500 * time.Millisecond}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := parseStat("42 (a) S 7"); err == nil {
		t.Error("half a line is accepted")
	}
}

func TestResident(t *testing.T) {
	got, err := Resident(os.Getpid())
	if err != nil || got < 1<<20 || got > 1<<32 {
		t.Errorf("this test takes %d bytes, %v", got, err)
	}
}
