package ledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/memstore"
)

// childPath names the journal of a child process, which then is this test's
// program run for that.
const childPath = "LEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := child(path, os.Getenv(childPath+"_RUN")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child registers and delivers jobs until it is killed. It tells what it does:
// "registered id", after the answer; "sent id", in the place of a request;
// "settled id", after the answer.
func child(path, run string) error {
	ctx := context.Background()
	s, err := ledger.Open(ctx, ledger.Options{
		Path: path, Store: memstore.New(memstore.Options{Retention: time.Hour}), StoreRetention: time.Hour,
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	tell := func(what, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, id)
	}
	failed := make(chan error)
	for c := range 4 {
		go func() {
			for i := 0; ; i++ {
				g := reg(fmt.Sprintf("%s-%d-%d", run, c, i), time.Duration(i%50)*time.Millisecond)
				g.UID = g.Key.ID
				if _, err := s.Register(ctx, []store.Registration{g}); err != nil {
					failed <- err
				}
				tell("registered", g.Key.ID)
			}
		}()
	}
	for w := range 2 {
		go func() {
			for i := 0; ; i++ {
				if err := deliver(ctx, s, fmt.Sprintf("%s-%d-%d", run, w, i), tell); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// deliver takes what is due, and settles half of it: the rest is in flight.
func deliver(ctx context.Context, s *ledger.Store, nonce string, tell func(what, id string)) error {
	if _, err := s.Carry(ctx, 0, store.CarryOptions{Cap: 20, Visibility: time.Minute, By: "carrier"}); err != nil {
		return err
	}
	hints, err := s.Pop(ctx, 0, 10, time.Millisecond)
	if err != nil {
		return err
	}
	claims, err := s.Claim(ctx, 0, hints, store.ClaimOptions{Nonce: nonce, Lease: time.Minute, By: "worker"})
	if err != nil {
		return err
	}
	var settlements []job.Settlement
	for _, c := range claims {
		tell("sent", c.Job.ID)
		settlements = append(settlements, settlement(c, job.OutcomeDelivered, 0))
	}
	settlements = settlements[:(len(settlements)+1)/2]
	if _, err := s.Settle(ctx, settlements); err != nil {
		return err
	}
	for _, st := range settlements {
		tell("settled", st.Key.ID)
	}
	return nil
}

// audit is what the children told.
type audit struct {
	registered map[string]bool
	sent       map[string]int
	settled    map[string]bool
	inFlight   map[string]int // kills that the job was in flight at
}

func (a *audit) hear(line string) {
	what, id, _ := strings.Cut(line, " ")
	switch what {
	case "registered":
		a.registered[id] = true
	case "sent":
		a.sent[id]++
	case "settled":
		a.settled[id] = true
	}
}

func (a *audit) killed() {
	for id := range a.sent {
		if !a.settled[id] {
			a.inFlight[id]++
		}
	}
}

// However often the process is killed: what was answered is there, and nothing
// comes twice but what was in flight.
func TestKill(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	a := &audit{registered: map[string]bool{}, sent: map[string]int{}, settled: map[string]bool{}, inFlight: map[string]int{}}
	for run := range 5 {
		runChild(t, path, run, a)
		a.killed()
	}
	r := newRig(t, path, time.Hour)
	for id := range a.registered {
		j := r.get(id)
		if a.settled[id] != (j.State == job.Delivered) && !(j.State == job.Delivered && a.inFlight[id] > 0) {
			t.Errorf("%s is %v; settled: %v", id, j.State, a.settled[id])
		}
		if j.Lapses > a.inFlight[id] {
			t.Errorf("%s lapsed %d times, and was in flight at %d kills", id, j.Lapses, a.inFlight[id])
		}
	}
	for id, n := range a.sent {
		if n > 1+a.inFlight[id] {
			t.Errorf("%s was sent %d times, and was in flight at %d kills", id, n, a.inFlight[id])
		}
	}
	again := 0
	for _, n := range a.sent {
		again += n - 1
	}
	t.Logf("registered %d, settled %d, sent again %d", len(a.registered), len(a.settled), again)
}

// runChild runs a child and kills it after some hundred lines.
func runChild(t *testing.T, path string, run int, a *audit) {
	t.Helper()
	exe, err := os.Executable()
	noError(t, "Executable", err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childPath+"="+path, childPath+"_RUN="+strconv.Itoa(run))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	noError(t, "StdoutPipe", err)
	noError(t, "Start", cmd.Start())
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		a.hear(lines.Text())
		if n == 300+100*run {
			if _, err := tryRig(t, path, 0); !errors.Is(err, ledger.ErrInUse) {
				t.Errorf("Open beside the child: %v", err)
			}
			noError(t, "Kill", cmd.Process.Kill())
		}
	}
	if cmd.Wait(); complaints.Len() > 0 {
		t.Fatal(complaints.String())
	}
}
