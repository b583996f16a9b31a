package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/hostile"
	"github.com/duehook/duehook/internal/testing/testenv"
)

const (
	zooTopic   = "zoo"
	zooJobs    = 100              // for each kind
	zooOver    = 12 * time.Second // from the first that is due to the last
	zooTimeout = 2 * time.Second
	// zooLate is longer than any attempt: without a deadline, the endless kinds
	// take for ever. Less would judge the machine.
	zooLate = 5 * zooTimeout
	// zooGrowth is how much memory a node may come to need for the zoo.
	zooGrowth = 50 << 20
)

// startForZoo starts a node that trusts the zoo's certificates.
func startForZoo(t testing.TB, zoo *hostile.Zoo, flags ...string) *node {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, zoo.RootsPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, shipped, "node", append([]string{"--data-dir", t.TempDir()}, flags...)...)
	n.Env = append(n.Env, "SSL_CERT_FILE="+roots)
	n.start()
	return n
}

// zooJob is the registration of a job for a kind, which is to be tried once
// and, if that fails, again long after the test.
func zooJob(number int, kind hostile.Kind, due time.Time, timeout time.Duration) map[string]any {
	r := map[string]any{
		"topic": zooTopic, "id": zooID(number), "url": kind.URL, "body": number,
		"at": due.UTC().Format(time.RFC3339Nano), "timeout": timeout.String(),
		"retry": map[string]any{"steps": []string{"2h"}, "limit": 1},
	}
	if kind.Expect != "" {
		r["expect"] = map[string]any{"body": kind.Expect}
	}
	return r
}

// registerZoo registers the jobs for all kinds, due from first on, in turns, in
// the course of over.
func registerZoo(t testing.TB, base string, zoo *hostile.Zoo, first time.Time, over, timeout time.Duration) {
	t.Helper()
	const batch = 1000
	var jobs []map[string]any
	total := len(zoo.Kinds) * zooJobs
	for i := range zooJobs {
		for k, kind := range zoo.Kinds {
			due := first.Add(over * time.Duration(len(jobs)) / time.Duration(total))
			jobs = append(jobs, zooJob(k*zooJobs+i, kind, due, timeout))
		}
	}
	for some := range slices.Chunk(jobs, batch) {
		a := must(t, http.StatusOK, "POST", base+"/v1/jobs/batch", map[string]any{"jobs": some})
		if n := strings.Count(string(a.body), `"status":201`); n != len(some) {
			t.Fatalf("%d of %d were registered: %.500s", n, len(some), a.body)
		}
	}
}

// TestSoakZooBesideHealthyDeliveries: trying 100 jobs for each hostile server takes
// less than 50 MB more memory than healthy deliveries did that kept all workers
// busy, every attempt ends by its deadline as it is to, and the healthy
// deliveries beside it all arrive. There are no breakers, which would keep most
// of the jobs from the zoo. It runs by itself, and what is too much is measured
// again: what a busy machine has under way at a time, and so in memory, is not
// the zoo's doing.
func TestSoakZooBesideHealthyDeliveries(t *testing.T) {
	zoo := hostile.Start(t)
	growth := zooGrowth
	for try := 0; growth >= zooGrowth && try < 3; try++ {
		growth = growthByZoo(t, zoo)
	}
	if growth >= zooGrowth {
		t.Errorf("the node's memory grew by %d bytes, less than %d are accepted", growth, zooGrowth)
	}
}

// growthByZoo is how much more memory a new node needs with the zoo, at most,
// than before.
func growthByZoo(t *testing.T, zoo *hostile.Zoo) int {
	t.Helper()
	n := startForZoo(t, zoo, "--breaker-failures", "0")
	atFirst := n.memory("VmRSS")
	registerZoo(t, n.base(), zoo, clock.Now().Add(time.Hour), 0, zooTimeout)
	warmUp(t, n)
	before := n.memory("VmHWM")

	r := receiver.Start(t, receiver.Accept)
	beside := &load{
		topic: "beside", url: r.URL(), jobs: int(zooOver.Seconds()) * 100,
		over: zooOver, maxDelay: time.Second, pick: n.base,
	}
	wait := beside.start(t, newRand(t))
	runZoo(t, n, zoo)
	awaitZoo(t, n, zoo)
	wait()
	audit(t, beside, r, &cuts{}, n.base())
	peak := n.memory("VmHWM")
	testenv.Eventually(t, testenv.Patience, func() bool { return n.metric("duehook_in_flight") == 0 }, "nothing is in flight")
	checkZoo(t, n, zoo)
	n.stop()
	t.Logf("%d jobs for %d kinds: memory was %d MB at first, %d MB at most with healthy deliveries, %d MB at most with the zoo",
		len(zoo.Kinds)*zooJobs, len(zoo.Kinds), atFirst>>20, before>>20, peak>>20)
	return peak - before
}

// warmUp keeps all workers busy for some seconds with healthy deliveries to
// receivers that take their time.
func warmUp(t *testing.T, n *node) {
	t.Helper()
	const receivers, jobs = 3, 700 // one receiver could not: its jobs have a limit
	slow := func(receiver.Delivery) receiver.Answer { return receiver.Answer{Hold: time.Second} }
	var done []func()
	for i := range receivers {
		r := receiver.Start(t, slow)
		l := &load{topic: fmt.Sprint("before-", i), url: r.URL(), jobs: jobs, over: time.Second, pick: n.base}
		wait := l.start(t, newRand(t))
		done = append(done, func() {
			wait()
			audit(t, l, r, &cuts{}, n.base())
		})
	}
	for _, wait := range done {
		wait()
	}
}

// runZoo makes the jobs for the zoo due, in turns of their kinds, in the course
// of zooOver.
func runZoo(t *testing.T, n *node, zoo *hostile.Zoo) {
	t.Helper()
	var numbers []int
	for i := range zooJobs {
		for k := range zoo.Kinds {
			numbers = append(numbers, k*zooJobs+i)
		}
	}
	queue := make(chan int)
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(func() {
			for number := range queue {
				url := fmt.Sprintf("%s/v1/jobs/%s/%s/run", n.base(), zooTopic, zooID(number))
				if a, err := call(t.Context(), "POST", url, nil, nil); err != nil || a.status != http.StatusOK {
					t.Errorf("run job %d: %d %s, %v", number, a.status, a.body, err)
				}
			}
		})
	}
	begin := clock.Now()
	for i, number := range numbers {
		at := begin.Add(zooOver * time.Duration(i) / time.Duration(len(numbers)))
		if wait := at.Sub(clock.Now()); wait > 0 {
			pause(t, wait)
		}
		queue <- number
	}
	close(queue)
	clients.Wait()
}

func zooID(number int) string { return fmt.Sprintf("%05d", number) }

// awaitZoo waits until each job for the zoo has been tried.
func awaitZoo(t testing.TB, n *node, zoo *hostile.Zoo) {
	t.Helper()
	snoozed := 0 // these wait again
	for _, kind := range zoo.Kinds {
		if kind.Fate == hostile.Snoozed {
			snoozed += zooJobs
		}
	}
	testenv.Eventually(t, testenv.Patience, func() bool {
		pause(t, 200*time.Millisecond) // asking costs memory, too
		s := getTopic(t, n.base(), zooTopic).States
		return s["waiting"] <= snoozed && s["ready"]+s["running"] == 0
	}, "each job for the zoo has been tried")
}

// zooView is a job for the zoo, as the API shows it.
type zooView struct {
	jobView
	LastAttempt *struct {
		StartedAt  time.Time  `json:"started_at"`
		DurationMS int64      `json:"duration_ms"`
		Error      string     `json:"error"`
		NextAt     *time.Time `json:"next_at"`
	} `json:"last_attempt"`
}

// checkZoo looks at the attempt of every job. One that met its deadline because
// the machine is busy is as good as one that ended as its kind says. If all jobs
// of a kind did, more follow, with nothing beside them.
func checkZoo(t *testing.T, n *node, zoo *hostile.Zoo) {
	t.Helper()
	asSaid, slowest := make([]int, len(zoo.Kinds)), time.Duration(0)
	jobs := listZoo(t, n.base())
	if want := len(zoo.Kinds) * zooJobs; len(jobs) != want {
		t.Errorf("%d jobs are listed, want %d", len(jobs), want)
	}
	for _, j := range jobs {
		number, err := strconv.Atoi(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		kind := zoo.Kinds[number/zooJobs]
		if j.LastAttempt == nil || j.Attempts > 1 {
			t.Errorf("%s: %d attempts, the last is %+v", kind.Name, j.Attempts, j.LastAttempt)
			continue
		}
		took := time.Duration(j.LastAttempt.DurationMS) * time.Millisecond
		slowest = max(slowest, took)
		if took > zooLate {
			t.Errorf("%s: an attempt took %v, with a deadline of %v", kind.Name, took, zooTimeout)
		}
		switch {
		case zooFate(kind, j):
			asSaid[number/zooJobs]++
		case !strings.HasSuffix(j.LastAttempt.Error, "_timeout"):
			t.Errorf("%s: %s after an attempt with error %q, next at %v", kind.Name, j.State, j.LastAttempt.Error, j.NextAt)
		}
	}
	total := 0
	for k, count := range asSaid {
		total += count
		if count == 0 {
			tryAlone(t, n, zoo.Kinds[k], zooID(k))
		}
	}
	t.Logf("%d of %d jobs ended as their kind says, the others by their deadline; the slowest attempt took %v", total, len(jobs), slowest)
}

// tryAlone sends jobs of a kind, one after the other, until one ends as it is to.
func tryAlone(t *testing.T, n *node, kind hostile.Kind, name string) {
	t.Helper()
	tries := 0
	testenv.Eventually(t, testenv.Patience, func() bool {
		tries++
		r := zooJob(0, kind, clock.Now(), zooTimeout)
		r["topic"], r["id"] = zooTopic+"-alone", fmt.Sprintf("%s-%d", name, tries)
		must(t, http.StatusCreated, "POST", n.base()+"/v1/jobs", r)
		var j zooView
		testenv.Eventually(t, testenv.Patience, func() bool {
			must(t, http.StatusOK, "GET", fmt.Sprintf("%s/v1/jobs/%s/%s", n.base(), r["topic"], r["id"]), nil).into(t, &j)
			return j.LastAttempt != nil && j.State != "ready" && j.State != "running"
		}, "a job of its own was tried: "+kind.Name)
		return zooFate(kind, j)
	}, "a job of its own ended as it is to: "+kind.Name)
	t.Logf("%s: under load all jobs met their deadline; by itself, one of %d ended as it is to", kind.Name, tries)
}

// zooFate reports whether a job stands as its kind says.
func zooFate(kind hostile.Kind, j zooView) bool {
	state := map[hostile.Fate]string{hostile.Delivered: "delivered", hostile.Failed: "retrying", hostile.Snoozed: "waiting"}[kind.Fate]
	if j.State != state || j.LastAttempt.Error != kind.Error {
		return false
	}
	if kind.After == 0 || j.NextAt == nil {
		return kind.After == 0
	}
	ended := j.LastAttempt.StartedAt.Add(time.Duration(j.LastAttempt.DurationMS) * time.Millisecond)
	return j.NextAt.Sub(ended.Add(kind.After)).Abs() < max(time.Second, kind.After/1000) // the store is asked a little later
}

// listZoo gives all jobs of the topic.
func listZoo(t *testing.T, base string) []zooView {
	t.Helper()
	var all []zooView
	for cursor := ""; ; {
		var page struct {
			Data       []zooView `json:"data"`
			NextCursor *string   `json:"next_cursor"`
		}
		must(t, http.StatusOK, "GET", base+"/v1/jobs?topic="+zooTopic+"&limit=1000"+cursor, nil).into(t, &page)
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// memory is a line of /proc/<pid>/status, in bytes: VmRSS now, VmHWM at most.
func (n *node) memory(line string) int {
	n.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	m := regexp.MustCompile(line + `:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		n.t.Fatalf("no %s in %s", line, status)
	}
	kb, err := strconv.Atoi(string(m[1]))
	if err != nil {
		n.t.Fatal(err)
	}
	return kb << 10
}

// metric is the value of a metric without labels.
func (n *node) metric(name string) float64 {
	n.t.Helper()
	text := must(n.t, http.StatusOK, "GET", n.base()+"/metrics", nil).body
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		n.t.Fatalf("no metric %s", name)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		n.t.Fatal(err)
	}
	return v
}
