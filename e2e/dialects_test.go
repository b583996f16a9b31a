package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

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

// killMykit registers jobs as a client of mykit-delay. Each is delivered under its id.
func killMykit(t *testing.T, k *underKills) func() {
	r := receiver.Start(t, slowly)
	h := http.Header{"Content-Type": {"application/json"}}
	topic := request{method: http.MethodPut, path: "/v1/topics/order", body: `{"url":"` + r.URL() + `"}`, header: h}
	topic.until(t, k.up.pick)
	known := request{method: http.MethodPost, path: "/v1/jobs?dry_run=true", body: `{"topic":"order"}`, header: h}
	for _, n := range k.nodes { // a moment later
		known.until(t, n.base)
	}
	sent := push(t, k, r, func(i int) request {
		return request{
			method: http.MethodPost, path: "/push", header: h, success: `"success":true`,
			body: fmt.Sprintf(`{"topic":"order","id":"o-%d","delay":%d,"body":"%d"}`, i, 10*(i%100), i),
		}
	})
	return func() {
		sent()
		for i := range pushed() {
			if len(r.Of("order", fmt.Sprint("o-", i))) == 0 {
				t.Errorf("o-%d was not delivered under its id", i)
			}
		}
	}
}

// killQStash publishes and enqueues messages as a client of QStash.
func killQStash(t *testing.T, k *underKills) func() {
	r := receiver.Start(t, slowly)
	targets := []string{"publish/", "enqueue/q/", "publish/"}
	return push(t, k, r, func(i int) request {
		h := http.Header{"Upstash-Retries": {"20"}, "Upstash-Retry-Delay": {"200"}, "Upstash-Deduplication-Id": {fmt.Sprint("d", i)}}
		if i%3 == 2 {
			h["Upstash-Delay"] = []string{fmt.Sprintf("%d.5s", i%2)}
		}
		return request{method: http.MethodPost, path: "/v2/" + targets[i%3] + r.URL(), header: h, body: fmt.Sprint(i), success: `"messageId":"msg_`}
	})
}

func pushed() int { return sized(50, 5_000) }

// push makes calls that register a job each. Each job must be delivered with the number of its call.
func push(t *testing.T, k *underKills, r *receiver.Receiver, call func(i int) request) func() {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range pushed() {
			c := call(i)
			c.until(t, k.up.pick)
			_ = job.Sleep(t.Context(), clock, 20*time.Millisecond)
		}
	}()
	return func() {
		<-sent
		var left []int
		defer func() {
			if len(left) > 0 {
				t.Errorf("calls of %s whose jobs were not delivered: %v", call(0).path, left)
			}
		}()
		testenv.Eventually(t, drainLimit, func() bool {
			arrived := map[string]bool{}
			for _, d := range r.Deliveries() {
				arrived[d.Body] = true
			}
			left = nil
			for i := range pushed() {
				if !arrived[fmt.Sprint(i)] {
					left = append(left, i)
				}
			}
			return len(left) == 0 && len(arrived) == pushed()
		}, "each job is delivered")
	}
}
