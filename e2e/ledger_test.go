package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/testing/testenv"
)

const (
	// refillLimit is how long it may take until all jobs are back in a Redis
	// that has lost them: a promise.
	refillLimit = 30 * time.Second
	batchSize   = 1000
)

// startWithLedger starts two nodes on a Redis, with a ledger on a server.
func startWithLedger(t *testing.T, server *testenv.Redis, flags ...string) []*node {
	t.Helper()
	sql, err := testenv.StartPostgres(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sql.Close(); err != nil {
			t.Error(err)
		}
	})
	return startNodes(t, shipped, "a b", server.URL(), append(append(flags, "--ledger-url", sql.URL("postgres")), quickTakeover...)...)
}

// registerAll registers n jobs of a topic, due one after the other from first
// on, and returns what was acknowledged, by id.
func registerAll(t *testing.T, base, topic, url string, n int, first, gap time.Duration) map[string]jobView {
	t.Helper()
	acknowledged := map[string]jobView{}
	for from := 0; from < n; from += batchSize {
		var b struct {
			Jobs []registration `json:"jobs"`
		}
		for i := from; i < min(from+batchSize, n); i++ {
			due := first + gap*time.Duration(i)
			b.Jobs = append(b.Jobs, registration{Topic: topic, ID: strconv.Itoa(i), URL: url, Body: i, Delay: fmt.Sprintf("%dms", due.Milliseconds())})
		}
		var answer struct {
			Results []struct {
				Status int     `json:"status"`
				Job    jobView `json:"job"`
			} `json:"results"`
		}
		must(t, http.StatusOK, "POST", base+"/v1/jobs/batch", b).into(t, &answer)
		for _, r := range answer.Results {
			if r.Status != http.StatusCreated {
				t.Fatalf("a job of %s was answered with %d", topic, r.Status)
			}
			acknowledged[r.Job.ID] = r.Job
		}
	}
	return acknowledged
}

// each does something for the ids 0 to n-1 of a topic, some at a time.
func each(n int, do func(id string)) {
	ids := make(chan string)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for id := range ids {
				do(id)
			}
		})
	}
	for i := range n {
		ids <- strconv.Itoa(i)
	}
	close(ids)
	all.Wait()
}

// expect calls the API once and reports an answer with another status.
func expect(t *testing.T, status int, method, url string, body any) {
	t.Helper()
	a, err := call(t.Context(), method, url, nil, body)
	if err != nil || a.status != status {
		t.Errorf("%s %s: %d %s, %v", method, url, a.status, a.body, err)
	}
}

// stateCount is how many jobs of a topic are in a state; a topic that is not
// there has none.
func stateCount(t *testing.T, base, topic, state string) int {
	t.Helper()
	a, err := call(t.Context(), "GET", base+"/v1/topics/"+topic, nil, nil)
	if err != nil || a.status != http.StatusOK {
		return 0
	}
	var v topicView
	a.into(t, &v)
	return v.States[state]
}

// TestFlushedRedisIsRefilled: everything in Redis is deleted. What waited is
// back in time and as it was, dead letters too; what had ended is not sent
// again.
func TestFlushedRedisIsRefilled(t *testing.T) {
	t.Parallel()
	waiting := sized(2_500, 100_000)
	ended, dead := waiting/50, 20
	server := testenv.StartRedis(t, testenv.WithAOF())
	nodes := startWithLedger(t, server)
	a, b := nodes[0].base(), nodes[1].base()
	r := receiver.Start(t, func(d receiver.Delivery) receiver.Answer {
		if d.Topic == "dead" {
			return receiver.Answer{Status: http.StatusGone}
		}
		return receiver.Answer{}
	})
	registerAll(t, a, "delivered", r.URL(), ended, 0, time.Millisecond)
	registerAll(t, a, "dead", r.URL(), dead, 0, 0)
	registerAll(t, b, "cancelled", r.URL(), ended, time.Hour, 0)
	acknowledged := registerAll(t, b, "waiting", r.URL(), waiting, time.Hour, time.Millisecond)
	each(ended, func(id string) { expect(t, http.StatusOK, "DELETE", a+"/v1/jobs/cancelled/"+id, nil) })
	for topic, n := range map[string]int{"delivered": ended, "dead": dead} {
		testenv.Eventually(t, deliverLimit, func() bool { return stateCount(t, a, topic, topic) == n }, topic+" ones have ended")
	}
	soon := registerAll(t, a, "soon", r.URL(), 100, 5*time.Second, 30*time.Millisecond)

	flushed := clock.Now()
	command(t, control(t, server), "FLUSHALL")
	gone := clock.Now()
	testenv.Eventually(t, deliverLimit, func() bool { return stateCount(t, b, "waiting", "waiting") >= waiting }, "all jobs are back")
	t.Logf("%d waiting jobs were back %v after FLUSHALL; %v are promised for 100,000", waiting, clock.Now().Sub(flushed), refillLimit)
	testenv.Eventually(t, deliverLimit, func() bool { return stateCount(t, a, "soon", "delivered") == len(soon) }, "what came due meanwhile is delivered")
	testenv.Eventually(t, deliverLimit, func() bool { return stateCount(t, a, "dead", "dead") == dead }, "dead letters are back")

	if n := stateCount(t, a, "cancelled", "waiting"); n != 0 {
		t.Errorf("%d cancelled jobs wait again", n)
	}
	for _, j := range listJobs(t, b+"/v1/jobs?topic=waiting&limit=1000") {
		was := acknowledged[j.ID]
		if j.UID != was.UID || !j.DueAt.Equal(was.DueAt) || j.State != "waiting" {
			t.Errorf("%s came back as %+v, was %+v", j.ID, j, was)
		}
		delete(acknowledged, j.ID)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d jobs are not listed", len(acknowledged))
	}
	sent, early := map[string]int{}, map[string]bool{}
	for _, d := range r.Deliveries() {
		if d.Topic == "soon" && d.Due.Before(gone) { // on a busy machine
			if early[d.ID] {
				continue // it may have been in flight
			}
			early[d.ID] = true
		}
		sent[d.Topic]++
	}
	if diff := cmp.Diff(map[string]int{"delivered": ended, "dead": dead, "soon": len(soon)}, sent); diff != "" {
		t.Errorf("deliveries by topic (-want +got):\n%s", diff)
	}
}

// TestOldSnapshotOfRedis: jobs end, change and are registered after a backup of
// Redis was made, and then the backup is put back. What has ended is not sent
// again, although it is due in the backup; what was changed is as it was
// changed; what the backup does not have is there.
func TestOldSnapshotOfRedis(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]testenv.RedisOption{"rdb": nil, "aof": {testenv.WithAOF()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &snapshotted{server: testenv.StartRedis(t, options...), r: receiver.Start(t, receiver.Accept)}
			nodes := startWithLedger(t, s.server)
			s.a, s.b = nodes[0].base(), nodes[1].base()
			putBack := s.before(t)
			s.after(t)
			s.server.Stop()
			putBack()
			s.server.Start()
			s.judge(t)
		})
	}
}

// snapshotted is a Redis whose backup is put back, with jobs of several kinds,
// named by their topics, and as many of each.
type snapshotted struct {
	server *testenv.Redis
	r      *receiver.Receiver
	a, b   string // two nodes
}

const perKind = 120

// before registers what the backup has, and makes it.
func (s *snapshotted) before(t *testing.T) (putBack func()) {
	t.Helper()
	registerAll(t, s.a, "delivered-before", s.r.URL(), perKind, 0, 0)
	s.await(t, "delivered-before", "delivered")
	for _, topic := range []string{"made-due", "cancelled", "changed", "still-waiting"} {
		registerAll(t, s.b, topic, s.r.URL(), perKind, time.Hour, 0)
	}
	registerAll(t, s.a, "came-due", s.r.URL(), perKind, 15*time.Second, 0)
	command(t, control(t, s.server), "SAVE")
	if n := stateCount(t, s.b, "came-due", "waiting"); n != perKind {
		t.Fatalf("the machine is too slow: %d of %d jobs still waited when the backup was made", n, perKind)
	}
	return rig.Snapshot(t, s.server)
}

// after does what the backup does not have.
func (s *snapshotted) after(t *testing.T) {
	t.Helper()
	each(perKind, func(id string) {
		expect(t, http.StatusOK, "POST", s.a+"/v1/jobs/made-due/"+id+"/run", nil)
		expect(t, http.StatusOK, "DELETE", s.a+"/v1/jobs/cancelled/"+id, nil)
		expect(t, http.StatusOK, "PATCH", s.a+"/v1/jobs/changed/"+id, map[string]any{"body": "changed", "delay": "2h"})
	})
	registerAll(t, s.b, "delivered-after", s.r.URL(), perKind, 0, 0)
	registerAll(t, s.b, "new", s.r.URL(), perKind, time.Hour, 0)
	for _, topic := range []string{"came-due", "made-due", "delivered-after"} {
		s.await(t, topic, "delivered")
		// Redis has the last outcomes a moment before the ledger. A cancel that is refused
		// has waited for the ledger.
		each(perKind, func(id string) { expect(t, http.StatusConflict, "DELETE", s.a+"/v1/jobs/"+topic+"/"+id, nil) })
	}
}

// judge waits until Redis is as it had been, delivers what waits, and counts.
func (s *snapshotted) judge(t *testing.T) {
	t.Helper()
	back := clock.Now()
	for topic, waiting := range map[string]int{
		"came-due": 0, "made-due": 0, "cancelled": 0, "changed": perKind, "still-waiting": perKind, "new": perKind,
	} {
		testenv.Eventually(t, deliverLimit, func() bool { return stateCount(t, s.b, topic, "waiting") == waiting }, topic+" jobs are as they were")
	}
	t.Logf("Redis was as it had been %v after its return", clock.Now().Sub(back))
	for _, topic := range []string{"changed", "still-waiting", "new"} {
		each(perKind, func(id string) { expect(t, http.StatusOK, "POST", s.b+"/v1/jobs/"+topic+"/"+id+"/run", nil) })
		s.await(t, topic, "delivered")
	}
	sent := map[string]int{}
	for _, d := range s.r.Deliveries() {
		sent[d.Topic]++
		if d.Topic == "changed" && d.Body != `"changed"` {
			t.Errorf("%s came as it had been before it was changed: %s", d.ID, d.Body)
		}
	}
	want := map[string]int{
		"delivered-before": perKind, "came-due": perKind, "made-due": perKind, "delivered-after": perKind,
		"changed": perKind, "still-waiting": perKind, "new": perKind,
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("deliveries by topic (-want +got):\n%s", diff)
	}
}

// await waits until all jobs of a topic are in a state.
func (s *snapshotted) await(t *testing.T, topic, state string) {
	t.Helper()
	testenv.Eventually(t, deliverLimit, func() bool { return stateCount(t, s.a, topic, state) == perKind }, topic+" jobs are "+state)
}
