package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestDeadWorkersJobs: one of two nodes is killed with attempts in flight. The
// other one makes them again when their leases are over, within 5 s of that,
// and no attempt is charged.
func TestDeadWorkersJobs(t *testing.T) {
	t.Parallel()
	deadWorkersJobs(t, "--redis-url", testenv.StartRedis(t, testenv.WithAOF()).URL())
}

// TestDeadWorkersJobsOnPostgres: nodes that share a database alone do the same.
func TestDeadWorkersJobsOnPostgres(t *testing.T) {
	t.Parallel()
	deadWorkersJobs(t, "--postgres-url", testenv.Postgres(t, true).URL("postgres"))
}

func deadWorkersJobs(t *testing.T, flag, url string) {
	t.Helper()
	const jobs, hold = 200, 3 * time.Second
	flags, lease := []string{"--timeout", "5s", "--lease", "10s", "--visibility", "3s"}, 10*time.Second
	if long {
		flags, lease = nil, 20*time.Second // the defaults
	}
	nodes := startNodesOn(t, shipped, "a b", flag, url, flags...)
	for round := range sized(1, 10) {
		r := receiver.Start(t, func(receiver.Delivery) receiver.Answer { return receiver.Answer{Hold: hold} })
		topic := fmt.Sprintf("round-%d", round)
		var b struct {
			Jobs []registration `json:"jobs"`
		}
		for i := range jobs { // due one after the other, so that both nodes get some
			b.Jobs = append(b.Jobs, registration{Topic: topic, ID: fmt.Sprint(i), URL: r.URL(), Delay: fmt.Sprintf("%dms", 500+5*i)})
		}
		must(t, http.StatusOK, "POST", nodes[0].base()+"/v1/jobs/batch", b)
		testenv.Eventually(t, deliverLimit, func() bool { return r.Count() >= jobs*3/4 }, "most attempts are under way")
		dead, other := nodes[round%2], nodes[1-round%2]
		killed := clock.Now()
		dead.Kill()
		if states := awaitDelivered(t, other.base(), topic, jobs); states["delivered"] != jobs {
			t.Fatalf("the states of %d jobs: %v", jobs, states)
		}
		judgeTakenOver(t, r, killed, lease)
		for i := range jobs {
			if j := getJob(t, other.base(), topic, fmt.Sprint(i)); j.Attempts != 1 {
				t.Errorf("%s was charged %d attempts", j.ID, j.Attempts)
			}
		}
		dead.start()
	}
}

// judgeTakenOver: the jobs in flight at the killed node came again, as the same
// attempt and in time, and nothing else did.
func judgeTakenOver(t *testing.T, r *receiver.Receiver, killed time.Time, lease time.Duration) {
	t.Helper()
	byID := map[string][]receiver.Delivery{}
	for _, d := range r.Deliveries() {
		byID[d.ID] = append(byID[d.ID], d)
		if d.Attempt != 1 {
			t.Errorf("%s came as attempt %d", d.ID, d.Attempt)
		}
	}
	var took []time.Duration
	var latest time.Duration // of all jobs, since they were due
	for id, arrived := range byID {
		latest = max(latest, arrived[0].Arrived.Sub(arrived[0].Due))
		cutOff := arrived[0].Answered.IsZero()
		switch {
		case cutOff && len(arrived) == 2:
			took = append(took, arrived[1].Arrived.Sub(killed))
		case cutOff || len(arrived) != 1:
			t.Errorf("%s came %d times; the first was cut off: %t", id, len(arrived), cutOff)
		}
	}
	if len(took) == 0 {
		t.Fatal("the killed node had nothing in flight")
	}
	slices.Sort(took)
	t.Logf("%d attempts were cut off and made again %v to %v after the kill, with a lease of %v; no job's first attempt was later than %v",
		len(took), took[0], took[len(took)-1], lease, latest)
	if most := took[len(took)-1]; long && most > lease+resumeLimit { // a busy machine proves nothing
		t.Errorf("a dead worker's job came after %v; the lease and %v are promised", most, resumeLimit)
	}
}
