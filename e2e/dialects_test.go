package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
)

// onEachStore runs a test of a dialect with a node, with two nodes on Redis, and with a ledger behind
// them. meanwhile kills the nodes in turn.
func onEachStore(t *testing.T, dialect string, load func(t *testing.T, up *bases, meanwhile func())) {
	t.Helper()
	flags := append([]string{"--dialects", dialect}, quickTakeover...)
	for store, start := range map[string]func(t *testing.T) []*node{
		"embedded": func(t *testing.T) []*node {
			return []*node{startEmbedded(t, shipped, "--dialects", dialect)}
		},
		"redis": func(t *testing.T) []*node {
			return startNodes(t, shipped, "a b", testenv.StartRedis(t, testenv.WithAOF()).URL(), flags...)
		},
		"ledger": func(t *testing.T) []*node {
			return startWithLedger(t, testenv.StartRedis(t, testenv.WithAOF()), "--dialects", dialect)
		},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			nodes := start(t)
			load(t, &bases{nodes: nodes}, func() { killInTurn(t, nodes...) })
		})
	}
}

// killInTurn kills nodes, and starts each again at once.
func killInTurn(t *testing.T, nodes ...*node) {
	t.Helper()
	var c cuts
	for i := range sized(4, 30) {
		pause(t, 2*time.Second)
		n := nodes[i%len(nodes)]
		c.kill(n)
		n.start()
	}
}

// request is a call of a client, and what a successful answer contains.
type request struct {
	method, path, body string
	header             http.Header
	success            string
}

// until repeats a call until it succeeds, as clients do after a failure.
func (r *request) until(t *testing.T, pick func() string) {
	t.Helper()
	limit := time.After(deliverLimit)
	for {
		if r.once(t, pick()) {
			return
		}
		select {
		case <-limit:
			t.Errorf("%s %s %s never succeeded", r.method, r.path, r.body)
			return
		default:
			_ = job.Sleep(t.Context(), clock, 50*time.Millisecond)
		}
	}
}

func (r *request) once(t *testing.T, base string) bool {
	req, err := http.NewRequestWithContext(t.Context(), r.method, base+r.path, strings.NewReader(r.body))
	if err != nil {
		return false // no server is up
	}
	req.Header = r.header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode < 300 && strings.Contains(string(text), r.success)
}

// pushLoad makes calls that register a job each, while meanwhile happens. Each job must be delivered
// with the number of its call.
func pushLoad(t *testing.T, pick func() string, meanwhile func(), r *receiver.Receiver, call func(i int) request) {
	t.Helper()
	jobs, sent := sized(400, 5_000), make(chan struct{})
	go func() {
		defer close(sent)
		for i := range jobs {
			c := call(i)
			c.until(t, pick)
			_ = job.Sleep(t.Context(), clock, 20*time.Millisecond)
		}
	}()
	meanwhile()
	<-sent
	testenv.Eventually(t, deliverLimit, func() bool {
		arrived := map[string]bool{}
		for _, d := range r.Deliveries() {
			arrived[d.Body] = true
		}
		for i := range jobs {
			if !arrived[fmt.Sprint(i)] {
				return false
			}
		}
		return len(arrived) == jobs
	}, "each job is delivered")
}

// TestKillMykit: a client of mykit-delay loses no job to kills of its servers.
func TestKillMykit(t *testing.T) {
	t.Parallel()
	onEachStore(t, "mykit", func(t *testing.T, up *bases, meanwhile func()) {
		r := receiver.Start(t, slowly)
		h := http.Header{"Content-Type": {"application/json"}}
		topic := request{method: http.MethodPut, path: "/v1/topics/order", body: `{"url":"` + r.URL() + `"}`, header: h}
		topic.until(t, up.pick)
		known := request{method: http.MethodPost, path: "/v1/jobs?dry_run=true", body: `{"topic":"order"}`, header: h}
		for _, n := range up.nodes { // a moment later
			known.until(t, n.base)
		}
		pushLoad(t, up.pick, meanwhile, r, func(i int) request {
			return request{
				method: http.MethodPost, path: "/push", header: h, success: `"success":true`,
				body: fmt.Sprintf(`{"topic":"order","id":"o-%d","delay":%d,"body":"%d"}`, i, 10*(i%100), i),
			}
		})
		for i := range sized(400, 5_000) {
			if len(r.Of("order", fmt.Sprint("o-", i))) == 0 {
				t.Errorf("o-%d was not delivered under its id", i)
			}
		}
	})
}

// TestKillQStash: a client of QStash loses no message to kills of its servers.
func TestKillQStash(t *testing.T) {
	t.Parallel()
	onEachStore(t, "qstash", func(t *testing.T, up *bases, meanwhile func()) {
		r := receiver.Start(t, slowly)
		targets := []string{"publish/", "enqueue/q/", "publish/"}
		pushLoad(t, up.pick, meanwhile, r, func(i int) request {
			h := http.Header{"Upstash-Retries": {"20"}, "Upstash-Retry-Delay": {"200"}, "Upstash-Deduplication-Id": {fmt.Sprint("d", i)}}
			if i%3 == 2 {
				h["Upstash-Delay"] = []string{fmt.Sprintf("%d.5s", i%2)}
			}
			return request{method: http.MethodPost, path: "/v2/" + targets[i%3] + r.URL(), header: h, body: fmt.Sprint(i), success: `"messageId":"msg_`}
		})
	})
}
