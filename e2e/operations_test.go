package e2e

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/redisstore"
)

// operationView is an operation as the API shows it.
type operationView struct {
	ID      string     `json:"id"`
	State   string     `json:"state"`
	Matched int        `json:"matched"`
	Changed int        `json:"changed"`
	Skipped int        `json:"skipped"`
	Failed  int        `json:"failed"`
	EndedAt *time.Time `json:"ended_at"`
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
	deadVersion   = 3 // registered, claimed, settled
)

func registrationOf(i int, target string) store.Registration {
	if i%deadEndpoints > 0 {
		target = fmt.Sprintf("http://shop-%d.example/hooks/timeout", i%deadEndpoints)
	}
	return store.Registration{
		Key: job.Key{Topic: deadTopic, ID: fmt.Sprintf("job-%07d", i)}, UID: fmt.Sprintf("%026d", i),
		Spec: job.Spec{
			Destination: job.Destination(target), Body: fmt.Appendf(nil, `{"order_id":%d}`, i), BodyForm: job.BodyJSON, ContentType: "application/json",
		},
	}
}

// fillRedis puts n dead letters into Redis, page by page, spread over endpoints; every tenth is for the URL
// given.
func fillRedis(t testing.TB, server *testenv.Redis, n int, target string) {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Options{
		URL: server.URL(), Namespace: "default", Shards: 1, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for from := 0; from < n; from += fillPage {
		regs := make([]store.Registration, 0, fillPage)
		for i := from; i < min(n, from+fillPage); i++ {
			regs = append(regs, registrationOf(i, target))
		}
		if _, err := s.Register(t.Context(), regs); err != nil {
			t.Fatal(err)
		}
		for left := len(regs); left > 0; {
			left -= refuseDue(t, s)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// refuseDue makes dead letters of due jobs, and returns of how many.
func refuseDue(t testing.TB, s redisstore.Opened) int {
	t.Helper()
	limits := store.FlightLimits{HalfOpenLimit: 1}
	if _, err := s.Carry(t.Context(), 0, store.CarryOptions{Cap: fillPage, Visibility: time.Minute, FlightLimits: limits}); err != nil {
		t.Fatal(err)
	}
	taken, err := s.Take(t.Context(), 0, store.TakeOptions{Max: fillPage, Lease: time.Minute, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	claims := taken.Claims
	ends := make([]job.Settlement, len(claims))
	for i := range claims {
		c := &claims[i]
		gone := &job.Attempt{Number: 1, StartedAt: c.Now, Duration: time.Millisecond, Status: http.StatusGone, Reason: job.ReasonGone}
		ends[i] = job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonGone, Attempt: gone}, nil)
	}
	if _, err := s.Settle(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	return len(claims)
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

// replayedOnce: since its death, each job was changed by one replay and
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

// TestCancelLeavesNoneBehind: due jobs, whose receiver takes long to fail, are cancelled while they are sent.
// Each ends as cancelled, whether it was waiting or in flight at its turn.
func TestCancelLeavesNoneBehind(t *testing.T) {
	t.Parallel()
	// The nodes go on with an endpoint that fails.
	base := startNodes(t, shipped, "a b", testenv.StartRedis(t).URL(), "--shards", "2", "--breaker-failures", "0")[0].base()
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
