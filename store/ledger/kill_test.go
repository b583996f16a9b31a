package ledger_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

func childProcess(t *testing.T, url, run string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	noError(t, "Executable", err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childLedger+"="+url, childLedger+"_RUN="+run)
	return cmd
}

// child registers and delivers jobs until it is killed. It tells what it does:
// "registered id", after the answer; "claiming id", before it may be; "sent id", in the place of a request;
// "settled id", once that is committed.
func child(url, run string) error {
	ctx := context.Background()
	inner, err := openStore(time.Hour)
	if err != nil {
		return err
	}
	s, err := ledger.Open(ctx, ledger.Options{URL: url, Store: inner, StoreRetention: time.Hour, Pace: ledger.Pace{SecondLook: time.Millisecond}})
	if err != nil {
		return err
	}
	if _, err := s.CompareOnce(ctx); err != nil {
		return err
	}
	var mu sync.Mutex
	tell := func(what, id string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(os.Stdout, what, id) // to a pipe that ends with the parent
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
	for _, h := range hints {
		tell("claiming", h.ID)
	}
	claims, err := claimAtLast(ctx, s, hints, store.ClaimOptions{Nonce: nonce, Lease: time.Minute, By: "worker"})
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
	// A settlement waits for its commit half a second at most, which a busy server may need longer for.
	if err := s.FlushAll(ctx); err != nil {
		return err
	}
	for _, st := range settlements {
		tell("settled", st.Key.ID)
	}
	return nil
}

// audit is what the children told.
type audit struct {
	registered    map[string]bool
	sent          map[string]int
	settled       map[string]bool
	inFlight      map[string]int // kills that the job was in flight at
	claiming      map[string]bool
	expiredLeases map[string]int // kills that it may have been claimed at
}

func (a *audit) hear(line string) {
	what, id, _ := strings.Cut(line, " ")
	switch what {
	case "registered":
		a.registered[id] = true
	case "sent":
		a.sent[id]++
	case "claiming":
		a.claiming[id] = true
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
	for id := range a.claiming {
		if !a.settled[id] {
			a.expiredLeases[id]++
		}
	}
}

// However often the node is killed, and the store with it: what was answered is there, and nothing
// comes twice but what was in flight.
func TestRaceKill(t *testing.T) {
	t.Parallel()
	for _, b := range servers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			testKill(t, b)
		})
	}
}

func testKill(t *testing.T, b *backend) {
	t.Helper()
	url := b.Fresh(t)
	a := &audit{
		registered: map[string]bool{}, sent: map[string]int{}, settled: map[string]bool{}, inFlight: map[string]int{},
		claiming: map[string]bool{}, expiredLeases: map[string]int{},
	}
	for run := range 3 {
		runChild(t, url, run, a)
		a.killed()
	}
	r := newRig(t, b, url, time.Hour)
	for id := range a.registered {
		j := r.last(id).Job
		if a.settled[id] != (j.State == job.Delivered) && !(j.State == job.Delivered && a.inFlight[id] > 0) {
			t.Errorf("%s is %v; settled: %v", id, j.State, a.settled[id])
		}
		if j.ExpiredLeases > a.expiredLeases[id] {
			t.Errorf("%s has %d expired leases, and may have been claimed at %d kills", id, j.ExpiredLeases, a.expiredLeases[id])
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

// runChild runs a child and kills it after a few hundred lines.
func runChild(t *testing.T, url string, run int, a *audit) {
	t.Helper()
	cmd := childProcess(t, url, strconv.Itoa(run))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	noError(t, "StdoutPipe", err)
	noError(t, "Start", cmd.Start())
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		a.hear(lines.Text())
		if n == 200+100*run {
			noError(t, "Kill", cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || complaints.Len() > 0 {
		t.Fatalf("the child ended by itself: %v, %s", err, complaints.String())
	}
}
