package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// childPath names the journal of a child process, which then is this test's
// program run for that.
const childPath = "JOURNAL_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		run := os.Getenv(childPath + "_RUN")
		play := child
		if run == diskFull {
			play = fullDisk
		}
		if err := play(path, run); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(journaltest.WithServers(m))
}

// diskFull is the run of a child that plays fullDisk.
const diskFull = "disk-full"

// fullDisk registers jobs, until the files may not grow any more, and again when
// they may.
func fullDisk(path, _ string) error {
	ctx := context.Background()
	inner, err := journaltest.OpenStore(0)
	if err != nil {
		return err
	}
	s, err := journal.Open(ctx, journal.Options{URL: "sqlite:" + path, Store: inner})
	if err != nil {
		return err
	}
	for i := range fullDiskJobs {
		if _, err := s.Register(ctx, []store.Registration{reg(strconv.Itoa(i), time.Hour)}); err != nil {
			return err
		}
	}
	if err := s.Flush(ctx); err != nil {
		return err
	}
	wal, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	unlimited, err := limitFiles(uint64(wal.Size()))
	if err != nil {
		return err
	}
	if _, err := s.Register(ctx, []store.Registration{reg("refused", time.Hour)}); !errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("Register on a full disk: %w", err)
	}
	if err := s.Ping(ctx); !errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("Ping on a full disk: %w", err)
	}
	if _, err := limitFiles(unlimited); err != nil {
		return err
	}
	if err := s.Ping(ctx); err != nil {
		return err
	}
	if _, err := s.Register(ctx, []store.Registration{reg("last", time.Hour)}); err != nil {
		return err
	}
	return s.Close()
}

// fullDiskJobs is how many jobs fullDisk registers before the disk is full.
const fullDiskJobs = 20

// limitFiles limits the size of this process's files and gives the limit that
// was.
func limitFiles(size uint64) (before uint64, err error) {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return 0, err
	}
	before, limit.Cur = limit.Cur, size
	return before, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	out, err := childProcess(t, path, diskFull).CombinedOutput()
	noError(t, string(out), err)
	r := newRig(t, sqliteBackend, "sqlite:"+path, 0)
	for i := range fullDiskJobs {
		r.Job(strconv.Itoa(i))
	}
	r.Job("last")
	equal(t, "jobs", len(r.All()), fullDiskJobs+1)
}

func childProcess(t *testing.T, journal, run string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	noError(t, "Executable", err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childPath+"="+journal, childPath+"_RUN="+run)
	return cmd
}

// child registers and delivers jobs until it is killed. It tells what it does:
// "registered id", after the answer; "claiming id", before it may be; "sent id", in the place of a request;
// "settled id", after the answer.
func child(url, run string) error {
	ctx := context.Background()
	inner, err := journaltest.OpenStore(time.Hour)
	if err != nil {
		return err
	}
	s, err := journal.Open(ctx, journal.Options{URL: url, Store: inner, StoreRetention: time.Hour})
	if err != nil {
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
func deliver(ctx context.Context, s *journal.Store, nonce string, tell func(what, id string)) error {
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

// However often the process is killed: what was answered is there, and nothing
// comes twice but what was in flight.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
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
		runChild(t, b, url, run, a)
		a.killed()
	}
	r := newRig(t, b, url, time.Hour)
	for id := range a.registered {
		j := r.Job(id)
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
func runChild(t *testing.T, b *backend, url string, run int, a *audit) {
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
			if run == 0 { // a server is asked for 2 s
				_, err := tryRig(t, b, url, 0)
				isError(t, "Open beside the child", err, journal.ErrInUse)
			}
			noError(t, "Kill", cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || complaints.Len() > 0 {
		t.Fatalf("the child ended by itself: %v, %s", err, complaints.String())
	}
}
