package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/redisstore"
)

// operationView is an operation as the API shows it.
type operationView struct {
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Worker    *string    `json:"worker"`
	Estimate  *int       `json:"estimate"`
	Matched   int        `json:"matched"`
	Changed   int        `json:"changed"`
	Skipped   int        `json:"skipped"`
	Failed    int        `json:"failed"`
	StartedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at"`
}

func (o operationView) counts() string {
	return fmt.Sprintf("%s: matched %d, changed %d, skipped %d, failed %d", o.State, o.Matched, o.Changed, o.Skipped, o.Failed)
}

func operation(t testing.TB, method, target string, status int, body any) operationView {
	t.Helper()
	var o operationView
	must(t, status, method, target, body).into(t, &o)
	return o
}

// awaitOperation follows an operation until until holds.
func awaitOperation(t testing.TB, target string, limit time.Duration, until func(operationView) bool) operationView {
	t.Helper()
	var o operationView
	testenv.Eventually(t, limit, func() bool {
		before := o.Changed
		o = operation(t, "GET", target, http.StatusOK, nil)
		if o.Changed < before {
			t.Errorf("progress went back from %d to %d", before, o.Changed)
		}
		return until(o)
	}, "the operation gets on")
	return o
}

const (
	deadTopic     = "big"
	deadEndpoints = 10
	fillPage      = 500
	deadVersion   = 1 // of a restored dead letter
)

// fillDead puts n dead letters into a store, page by page, spread over endpoints; every
// tenth is for the URL given.
func fillDead(t testing.TB, n int, target string, put func(page []store.RestoredJob) error) {
	t.Helper()
	began := clock.Now()
	ended := job.InstantOf(began).Add(-2 * time.Hour)
	for from := 0; from < n; from += fillPage {
		jobs := make([]store.RestoredJob, 0, fillPage)
		for i := from; i < min(n, from+fillPage); i++ {
			jobs = append(jobs, store.RestoredJob{Job: deadLetter(i, target, ended.Add(time.Duration(i)*time.Millisecond))})
		}
		if err := put(jobs); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d dead letters were put into the store in %v", n, clock.Now().Sub(began))
}

// die registers jobs in an empty store and settles them as dead letters.
func die(ctx context.Context, s store.Store, jobs []store.RestoredJob) error {
	regs := make([]store.Registration, len(jobs))
	for i := range jobs {
		j := &jobs[i].Job
		regs[i] = store.Registration{Key: j.Key, UID: j.UID, Spec: j.Spec}
	}
	if _, err := s.Register(ctx, regs); err != nil {
		return err
	}
	if _, err := s.Carry(ctx, 0, store.CarryOptions{Cap: len(jobs), Visibility: time.Hour}); err != nil {
		return err
	}
	hints, err := s.Pop(ctx, 0, len(jobs), time.Second)
	if err != nil {
		return err
	}
	claims, err := s.Claim(ctx, 0, hints, store.ClaimOptions{Nonce: jobs[0].Job.ID, Lease: time.Hour})
	if err != nil {
		return err
	}
	if len(claims) != len(jobs) {
		return fmt.Errorf("%d of %d jobs were claimed", len(claims), len(jobs))
	}
	settlements := make([]job.Settlement, len(claims))
	for i := range claims {
		c := &claims[i]
		last := job.Attempt{Number: 1, StartedAt: c.Now, Duration: time.Millisecond, Status: http.StatusGone, Reason: job.ReasonGone}
		settlements[i] = job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonGone, Attempt: &last}, nil)
	}
	_, err = s.Settle(ctx, settlements)
	return err
}

func deadLetter(i int, target string, ended job.Instant) job.Job {
	if i%deadEndpoints > 0 {
		target = fmt.Sprintf("http://shop-%d.example/hooks/timeout", i%deadEndpoints)
	}
	last := job.Attempt{Number: 1, StartedAt: ended, Duration: time.Millisecond, Status: http.StatusGone, Reason: job.ReasonGone}
	return job.Job{
		Key: job.Key{Topic: deadTopic, ID: fmt.Sprintf("job-%07d", i)}, UID: fmt.Sprintf("%026d", i),
		Spec: job.Spec{
			Destination: job.Destination(target), Body: fmt.Appendf(nil, `{"order_id":%d}`, i), BodyForm: job.BodyJSON, ContentType: "application/json",
		},
		State: job.Dead, Reason: job.ReasonGone, Version: deadVersion, Attempts: 1,
		CreatedAt: ended.Add(-time.Minute), DueAt: ended.Add(-time.Minute), EndedAt: ended, LastAttempt: &last,
	}
}

// fillEmbedded fills the store of a node that is started later.
func fillEmbedded(t testing.TB, dir string, n int, target string) {
	t.Helper()
	s, err := diskstore.Open(diskstore.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	fillDead(t, n, target, func(page []store.RestoredJob) error { return die(t.Context(), s, page) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func fillRedis(t testing.TB, server *testenv.Redis, n int, target string) {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Options{
		URL: server.URL(), Namespace: "default", Shards: 1, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	fillDead(t, n, target, func(page []store.RestoredJob) error {
		_, err := s.Restore(t.Context(), page)
		return err
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestManyDeadLettersEmbedded and TestManyDeadLettersOnRedis: dead letters, a
// million of them in a long run, are all there, counted by endpoint, listed by
// cursor, and a tenth of them is replayed by filter at a rate, stopped early
// and continued.
func TestManyDeadLettersEmbedded(t *testing.T) {
	t.Parallel()
	r := receiver.Start(t, receiver.Accept)
	dir := t.TempDir()
	fillEmbedded(t, dir, manyDead(), r.URL())
	began := clock.Now()
	n := newNode(t, shipped, "node", "--data-dir", dir)
	n.start()
	t.Logf("the node was up after %v", clock.Now().Sub(began))
	testManyDead(t, n, n.base(), r)
}

func TestManyDeadLettersOnRedis(t *testing.T) {
	t.Parallel()
	r := receiver.Start(t, receiver.Accept)
	server := testenv.StartRedis(t)
	fillRedis(t, server, manyDead(), r.URL())
	nodes := startNodes(t, shipped, "a b", server.URL(), quickTakeover...)
	testManyDead(t, nodes[0], nodes[1].base(), r)
	memory, err := control(t, server).InfoMap(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("memory of Redis: %s", memory["Memory"]["used_memory_human"])
}

func manyDead() int { return sized(6_000, 1_000_000) }

// testManyDead begins the operation at node n, and looks at it from another.
func testManyDead(t *testing.T, n *node, base string, r *receiver.Receiver) {
	t.Helper()
	all, part, rate := manyDead(), manyDead()/deadEndpoints, sized(40, 500)
	if dead := getTopic(t, base, deadTopic).States["dead"]; dead != all {
		t.Fatalf("%d dead letters, want %d", dead, all)
	}
	groupsAreRight(t, base, all)
	listIsWhole(t, base, all)

	filter := map[string]any{"topic": deadTopic, "endpoint": r.URL(), "reason": job.ReasonGone}
	request := map[string]any{"action": "replay", "filter": filter, "rate": rate}
	if dry := operation(t, "POST", base+"/v1/operations?dry_run=true", http.StatusOK, request); dry.Matched != part {
		t.Errorf("the dry run counts %d, want %d", dry.Matched, part)
	}
	began := clock.Now()
	o := operation(t, "POST", n.base()+"/v1/operations", http.StatusAccepted, request)
	if o.Estimate == nil || *o.Estimate != part {
		t.Errorf("estimate %v, want %d", o.Estimate, part)
	}
	target := base + "/v1/operations/" + o.ID
	limit := deliverLimit + time.Duration(part/rate)*2*time.Second
	begun := awaitOperation(t, target, limit, func(o operationView) bool { return o.Changed >= part/8 })
	operation(t, "POST", target+"/stop", http.StatusOK, nil)
	stopped := awaitOperation(t, target, limit, func(o operationView) bool { return o.State == "stopped" && o.Worker == nil })
	active := clock.Now().Sub(began)
	if stopped.Changed < begun.Changed || stopped.Changed >= part {
		t.Errorf("stopped: %s", stopped.counts())
	}
	pause(t, 2*time.Second)
	if again := operation(t, "GET", target, http.StatusOK, nil); again.counts() != stopped.counts() {
		t.Errorf("after the stop: %s, then %s", stopped.counts(), again.counts())
	}
	began = clock.Now()
	operation(t, "POST", target+"/resume", http.StatusOK, nil)
	done := awaitOperation(t, target, limit, func(o operationView) bool { return o.State != "running" })
	active += clock.Now().Sub(began)
	if want := fmt.Sprintf("done: matched %d, changed %d, skipped 0, failed 0", part, part); done.counts() != want {
		t.Errorf("%s, want %s", done.counts(), want)
	}
	if least := time.Duration(float64(part) / float64(rate) * float64(time.Second)); active < least {
		t.Errorf("%d jobs at %d/s were replayed within %v", part, rate, active)
	}
	testenv.Eventually(t, deliverLimit, func() bool { return r.Jobs() == part }, "what was replayed is delivered")
	if r.Count() != part {
		t.Errorf("%d deliveries of %d jobs", r.Count(), part)
	}
	states := awaitDelivered(t, base, deadTopic, part)
	if states["dead"] != all-part || states["delivered"] != part {
		t.Errorf("in the end: %v", states)
	}
	t.Logf("%d replayed in %v of work: %.1f/s at a rate of %d/s; stopped at %d; memory of the node: %d MB, %d MB at most",
		part, active, float64(part)/active.Seconds(), rate, stopped.Changed, n.memory("VmRSS")>>20, n.memory("VmHWM")>>20)
}

// groupsAreRight compares the groups of dead letters with what was put there.
func groupsAreRight(t *testing.T, base string, all int) {
	t.Helper()
	var page struct {
		Data []struct {
			Endpoint string
			Count    int
		}
	}
	began := clock.Now()
	must(t, http.StatusOK, "GET", base+"/v1/dead?topic="+deadTopic, nil).into(t, &page)
	t.Logf("the groups of %d dead letters were counted in %v", all, clock.Now().Sub(began))
	if len(page.Data) != deadEndpoints {
		t.Fatalf("groups: %v", page.Data)
	}
	for _, g := range page.Data {
		if g.Count != all/deadEndpoints {
			t.Errorf("%s has %d dead letters, want %d", g.Endpoint, g.Count, all/deadEndpoints)
		}
	}
}

// listIsWhole lists all dead letters by cursor.
func listIsWhole(t *testing.T, base string, all int) {
	t.Helper()
	seen, listed := make([]bool, all), 0
	began, slowest := clock.Now(), time.Duration(0)
	target := base + "/v1/jobs?state=dead&limit=1000&topic=" + deadTopic
	for cursor := ""; ; {
		var page struct {
			Data []jobView
			Next string `json:"next_cursor"`
		}
		asked := clock.Now()
		must(t, http.StatusOK, "GET", target+cursor, nil).into(t, &page)
		slowest = max(slowest, clock.Now().Sub(asked))
		for _, j := range page.Data {
			i, err := strconv.Atoi(j.ID[len("job-"):])
			if err != nil || i >= all || seen[i] || j.State != "dead" {
				t.Fatalf("%s is listed as %s", j.ID, j.State)
			}
			seen[i] = true
			listed++
		}
		if page.Next == "" {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
	if listed != all {
		t.Errorf("%d dead letters are listed, want %d", listed, all)
	}
	t.Logf("%d dead letters were listed in %v, the slowest page in %v", listed, clock.Now().Sub(began), slowest)
}

// TestOperationOutlivesItsNode: a node is killed in the middle of an operation;
// another one finishes it, and each job is replayed once.
func TestOperationOutlivesItsNode(t *testing.T) {
	t.Parallel()
	r := receiver.Start(t, receiver.Accept)
	server := testenv.StartRedis(t, testenv.WithAOF())
	all, rate := sized(6_000, 100_000), sized(150, 500)
	part := all / deadEndpoints
	fillRedis(t, server, all, r.URL())
	nodes := startNodes(t, shipped, "a b", server.URL(), quickTakeover...)
	o := operation(t, "POST", nodes[0].base()+"/v1/operations", http.StatusAccepted, map[string]any{
		"action": "replay", "filter": map[string]any{"endpoint": r.URL()}, "rate": rate,
	})
	target := nodes[1].base() + "/v1/operations/" + o.ID
	limit := deliverLimit + time.Duration(part/rate)*2*time.Second
	awaitOperation(t, target, limit, func(o operationView) bool { return o.Changed >= part/3 })
	c := cuts{}
	c.allow()
	c.kill(nodes[0])
	killed := clock.Now()
	done := awaitOperation(t, target, limit, func(o operationView) bool { return o.State != "running" })
	t.Logf("%v after the kill: %s", clock.Now().Sub(killed), done.counts())
	if done.State != "done" || done.Changed > part || done.Changed < part-2*rate {
		t.Errorf("%s, of %d", done.counts(), part)
	}
	states := awaitDelivered(t, nodes[1].base(), deadTopic, part)
	if states["delivered"] != part || states["dead"] != all-part {
		t.Errorf("in the end: %v", states)
	}
	replayedOnce(t, nodes[1].base(), part, r, &c)
}

// replayedOnce: since it was put there, each job was changed by one replay and
// its delivery. A second replay would follow on the end of that, and change it by
// three at least.
func replayedOnce(t *testing.T, base string, jobs int, r *receiver.Receiver, c *cuts) {
	t.Helper()
	arrived, cutOff := map[string]int{}, 0
	for _, d := range r.Deliveries() {
		arrived[d.ID]++
		if yes, _ := c.InFlight(d); yes {
			arrived[d.ID]-- // it may be made again
			cutOff++
		}
	}
	for cursor, seen := "", 0; ; {
		var page struct {
			Data []struct {
				ID      string
				Version uint64
			}
			Next string `json:"next_cursor"`
		}
		must(t, http.StatusOK, "GET", base+"/v1/jobs?state=delivered&limit=1000&topic="+deadTopic+cursor, nil).into(t, &page)
		for _, j := range page.Data {
			// Replayed, claimed, settled; and claimed before that by the node that died.
			if j.Version > deadVersion+4 || arrived[j.ID] > 1 {
				t.Errorf("%s has the version %d and arrived %d times", j.ID, j.Version, arrived[j.ID])
			}
		}
		seen += len(page.Data)
		if page.Next == "" {
			if seen != jobs {
				t.Errorf("%d jobs were delivered, want %d", seen, jobs)
			}
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
	t.Logf("%d attempts were in flight at the kill", cutOff)
}

// TestCancelLeavesNoneBehindEmbedded and TestCancelLeavesNoneBehindOnRedis: due
// jobs, whose receiver takes long to fail, are cancelled while they are sent.
// Each ends as cancelled, whether it was waiting or in flight at its turn.
func TestCancelLeavesNoneBehindEmbedded(t *testing.T) {
	t.Parallel()
	n := startEmbedded(t, shipped, noBreaker...)
	testCancelLeavesNone(t, n.base())
}

func TestCancelLeavesNoneBehindOnRedis(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, shipped, "a b", testenv.StartRedis(t).URL(), append([]string{"--shards", "2"}, noBreaker...)...)
	testCancelLeavesNone(t, nodes[0].base())
}

// noBreaker has a node go on with an endpoint that fails.
var noBreaker = []string{"--breaker-failures", "0"}

func testCancelLeavesNone(t *testing.T, base string) {
	t.Helper()
	const topic, batches, perBatch = "cancelled", 8, 500
	r := receiver.Start(t, func(receiver.Delivery) receiver.Answer {
		return receiver.Answer{Status: http.StatusInternalServerError, Hold: 3 * time.Second}
	})
	due := clock.Now().Add(4 * time.Second).Format(time.RFC3339Nano)
	for b := range batches {
		jobs := make([]map[string]any, perBatch)
		for i := range jobs {
			jobs[i] = map[string]any{
				"topic": topic, "id": fmt.Sprintf("job-%04d", b*perBatch+i), "url": r.URL(), "at": due,
				"retry": map[string]any{"steps": []string{"2s"}, "limit": 100},
			}
		}
		must(t, http.StatusOK, "POST", base+"/v1/jobs/batch", map[string]any{"jobs": jobs})
	}
	testenv.Eventually(t, deliverLimit, func() bool { return r.Count() > 0 }, "jobs are sent")
	o := operation(t, "POST", base+"/v1/operations", http.StatusAccepted, map[string]any{
		"action": "cancel", "filter": map[string]any{"topic": topic}, "rate": 500,
	})
	o = awaitOperation(t, base+"/v1/operations/"+o.ID, deliverLimit, func(o operationView) bool { return o.State != "running" })
	if want := fmt.Sprintf("done: matched %[1]d, changed %[1]d, skipped 0, failed 0", batches*perBatch); o.counts() != want {
		t.Errorf("%s, want %s", o.counts(), want)
	}
	testenv.Eventually(t, deliverLimit, func() bool {
		return getTopic(t, base, topic).States["cancelled"] == batches*perBatch
	}, "every job is cancelled")
	// An attempt that a worker had claimed by then may have begun a little later.
	after := map[string]int{}
	for _, d := range r.Deliveries() {
		if d.Arrived.After(*o.EndedAt) {
			after[d.ID]++
		}
	}
	for id, times := range after {
		if times > 1 {
			t.Errorf("%s was sent %d times after the operation had ended", id, times)
		}
	}
	t.Logf("%d deliveries, %d of them begun after the operation had ended", r.Count(), len(after))
}
