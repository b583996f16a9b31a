package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/client"
)

// queue is a server with one pull queue, in the process.
type queue struct {
	mu      sync.Mutex
	due     []string
	added   chan struct{}
	leases  map[string]time.Time // ends, by receipt
	answers []string             // of receipts that were not stale
	pulls   []int                // max of each call
	serial  int
	away    bool
	slow    time.Duration   // of an answer for jobs
	refuse  string          // a code
	late    bool            // answers a call for jobs although the caller has left
	calls   map[string]int  // by path
	repeats map[string]bool // receipts that a nack made due at once
}

func newQueue(ids ...string) *queue {
	return &queue{due: ids, added: make(chan struct{}), leases: map[string]time.Time{}, calls: map[string]int{}, repeats: map[string]bool{}}
}

func (q *queue) set(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
	close(q.added)
	q.added = make(chan struct{})
}

func (q *queue) answered() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(slices.Values(q.answers))
}

func (q *queue) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	q.mu.Lock()
	q.calls[r.URL.Path]++
	away, refuse := q.away, q.refuse
	q.mu.Unlock()
	switch {
	case away:
		return nil, errors.New("connection refused")
	case refuse != "":
		return reply(r, http.StatusForbidden, map[string]any{"code": refuse, "detail": "no"}), nil
	case strings.HasSuffix(r.URL.Path, "/ack") && q.slow > 0:
		pass(q.slow)
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/ack"), strings.HasSuffix(r.URL.Path, "/extend"):
		var in struct {
			Receipts []string
			Lease    client.Duration
		}
		_ = json.Unmarshal(body, &in)
		return reply(r, 200, q.results(in.Receipts, func(int) string { return "ack" }, time.Duration(in.Lease))), nil
	case strings.HasSuffix(r.URL.Path, "/nack"):
		var in struct{ Receipts []client.Nack }
		_ = json.Unmarshal(body, &in)
		receipts := make([]string, len(in.Receipts))
		for i, n := range in.Receipts {
			receipts[i] = n.Receipt
		}
		return reply(r, 200, q.results(receipts, func(i int) string {
			delay := "ladder"
			if d := in.Receipts[i].Delay; d != nil {
				delay = d.String()
			}
			return fmt.Sprintf("nack %s %s dead=%t", in.Receipts[i].Error, delay, in.Receipts[i].Dead)
		}, 0)), nil
	}
	var in client.PullRequest
	_ = json.Unmarshal(body, &in)
	return q.pull(r, &in)
}

func (q *queue) pull(r *http.Request, in *client.PullRequest) (*http.Response, error) {
	timeout := time.After(time.Duration(in.Wait))
	q.mu.Lock()
	q.pulls = append(q.pulls, in.Max)
	q.mu.Unlock()
	for {
		q.mu.Lock()
		added := q.added
		if len(q.due) > 0 && !q.late {
			defer q.mu.Unlock()
			n := min(in.Max, len(q.due))
			jobs := make([]map[string]any, n)
			for i, id := range q.due[:n] {
				q.serial++
				receipt := fmt.Sprintf("%s#%d", id, q.serial)
				q.leases[receipt] = time.Now().Add(time.Duration(in.Lease))
				jobs[i] = map[string]any{"receipt": receipt, "attempt": 1, "job": map[string]any{"id": id, "topic": "t"}, "body": 1}
			}
			q.due = q.due[n:]
			return reply(r, 200, map[string]any{"jobs": jobs}), nil
		}
		late := q.late
		q.mu.Unlock()
		select {
		case <-added:
		case <-timeout:
			return reply(r, 200, map[string]any{"jobs": []any{}}), nil
		case <-r.Context().Done():
			if !late {
				return nil, r.Context().Err()
			}
			q.mu.Lock()
			q.late = false
			q.mu.Unlock()
		}
	}
}

// results ends or extends leases.
func (q *queue) results(receipts []string, what func(i int) string, lease time.Duration) map[string]any {
	q.mu.Lock()
	defer q.mu.Unlock()
	results := make([]map[string]any, len(receipts))
	for i, receipt := range receipts {
		until, ok := q.leases[receipt]
		results[i] = map[string]any{"receipt": receipt, "result": "stale"}
		if !ok || !time.Now().Before(until) {
			continue
		}
		results[i]["result"] = "ok"
		if lease > 0 {
			q.leases[receipt] = time.Now().Add(lease)
			continue
		}
		delete(q.leases, receipt)
		id, _, _ := strings.Cut(receipt, "#")
		q.answers = append(q.answers, id+" "+what(i))
	}
	return map[string]any{"results": results}
}

func reply(r *http.Request, status int, body any) *http.Response {
	data, _ := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}
}

// consuming is a running Consume.
type consuming struct {
	stop context.CancelFunc
	err  chan error
}

func (q *queue) consume(t *testing.T, handle client.Handler, o client.ConsumeOptions) *consuming {
	t.Helper()
	c, err := client.New("http://queue.example", client.WithHTTPClient(&http.Client{Transport: q}), impatient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	running := &consuming{stop: stop, err: make(chan error, 1)}
	go func() { running.err <- c.Consume(ctx, "t", handle, o) }()
	return running
}

// end stops Consume and returns its error.
func (c *consuming) end() error {
	c.stop()
	return <-c.err
}

// pass lets time pass in the bubble.
func pass(d time.Duration) { <-time.After(d) }

func ids(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return all
}

func TestConsumeRunsAtMostConcurrencyJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(ids("j", 200)...)
		q.slow = 10 * time.Millisecond
		var mu sync.Mutex
		running, most := 0, 0
		c := q.consume(t, func(context.Context, *client.LeasedJob) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			pass(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}, client.ConsumeOptions{Concurrency: 32})
		pass(time.Minute)
		if err := c.end(); err != nil {
			t.Error(err)
		}
		if got := q.answered(); len(got) != 200 || got[0] != "j000 ack" || most != 32 {
			t.Errorf("%d answers, %d jobs at a time", len(got), most)
		}
		for _, n := range q.pulls {
			if n < 1 || n > 32 {
				t.Errorf("asked for %d jobs", n)
			}
		}
		if q.calls["/v1/pull/ack"] > 50 { // answers that come together share a call
			t.Errorf("%d calls for 200 answers", q.calls["/v1/pull/ack"])
		}
	})
}

func TestConsumeAnswersForFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("error", "later", "dead", "panic", "exit", "long")
		got := map[string]error{}
		c := q.consume(t, func(_ context.Context, j *client.LeasedJob) error {
			switch j.Job.ID {
			case "later":
				return fmt.Errorf("busy: %w", &client.NackError{Err: errors.New("not now"), Delay: new(client.Duration(time.Minute))})
			case "dead":
				return &client.NackError{Err: errors.New("no such order"), Dead: true}
			case "panic":
				panic("oh")
			case "exit":
				runtime.Goexit()
			case "long":
				return errors.New(strings.Repeat("x", 10_000))
			}
			return errors.New("no paper")
		}, client.ConsumeOptions{Answered: func(j *client.LeasedJob, err error) { got[j.Job.ID] = err }})
		synctest.Wait()
		if err := c.end(); err != nil {
			t.Error(err)
		}
		want := []string{
			"dead nack no such order ladder dead=true", "error nack no paper ladder dead=false",
			"exit nack the handler ended without a result ladder dead=false", "later nack busy: not now 1m dead=false",
			"long nack " + strings.Repeat("x", 1024) + " ladder dead=false", "panic nack panic: oh ladder dead=false",
		}
		if !slices.Equal(q.answered(), want) {
			t.Errorf("got %q", q.answered())
		}
		if e := new(client.PanicError); !errors.As(got["panic"], &e) || e.Value != "oh" || !bytes.Contains(e.Stack, []byte("TestConsumeAnswersForFailures")) {
			t.Errorf("got %v", got["panic"])
		}
	})
}

func TestConsumeExtendsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(ids("j", 150)...)
		c := q.consume(t, func(ctx context.Context, _ *client.LeasedJob) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Minute):
				return nil
			}
		}, client.ConsumeOptions{Concurrency: 150, Lease: 3 * time.Second})
		pass(2 * time.Minute)
		if err := c.end(); err != nil || len(q.answered()) != 150 || slices.ContainsFunc(q.answered(), func(a string) bool { return !strings.HasSuffix(a, " ack") }) {
			t.Errorf("%v, %v", q.answered(), err)
		}
	})
}

// A handler learns that its lease is lost: from the server at the next extension, and without a server
// when the lease ends.
func TestConsumeTellsOfLostLeases(t *testing.T) {
	for name, lose := range map[string]func(*queue){
		"restart": func(q *queue) { clear(q.leases) },
		"outage":  func(q *queue) { q.away = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue("a")
				var cause, result error
				began := time.Now()
				var lasted time.Duration
				c := q.consume(t, func(ctx context.Context, _ *client.LeasedJob) error {
					<-ctx.Done()
					cause, lasted = context.Cause(ctx), time.Since(began)
					return nil
				}, client.ConsumeOptions{Lease: 3 * time.Second, Answered: func(_ *client.LeasedJob, err error) { result = err }})
				synctest.Wait()
				q.set(func() { lose(q) })
				pass(time.Hour)
				if err := c.end(); err != nil {
					t.Error(err)
				}
				if !errors.Is(cause, client.ErrLeaseLost) || lasted > 3*time.Second || !errors.Is(result, client.ErrLeaseLost) {
					t.Errorf("cause %v after %v, result %v", cause, lasted, result)
				}
			})
		})
	}
}

// An answer outlasts an outage that is shorter than the lease, and pulling goes on afterwards.
func TestConsumeReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("a")
		failures := 0
		var mu sync.Mutex
		c := q.consume(t, func(_ context.Context, j *client.LeasedJob) error {
			if j.Job.ID == "a" {
				q.set(func() { q.away = true })
			}
			return nil
		}, client.ConsumeOptions{Failed: func(error) { mu.Lock(); failures++; mu.Unlock() }})
		pass(15 * time.Second)
		q.set(func() { q.away, q.due = false, []string{"b"} })
		pass(15 * time.Second)
		if err := c.end(); err != nil || !slices.Equal(q.answered(), []string{"a ack", "b ack"}) {
			t.Errorf("%v, %v", q.answered(), err)
		}
		if failures == 0 || failures > 30 {
			t.Errorf("%d failures in 15 s", failures)
		}
	})
}

func TestConsumeStopsGracefully(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("running")
		begun := make(chan string, 9)
		c := q.consume(t, func(_ context.Context, j *client.LeasedJob) error {
			begun <- j.Job.ID
			pass(20 * time.Second)
			return nil
		}, client.ConsumeOptions{Concurrency: 2})
		<-begun
		synctest.Wait() // the second call waits
		q.set(func() { q.late, q.due = true, []string{"unbegun"} })
		if err := c.end(); err != nil {
			t.Error(err)
		}
		want := []string{"running ack", "unbegun nack the consumer stops 0s dead=false"}
		if !slices.Equal(q.answered(), want) || len(begun) != 0 {
			t.Errorf("got %q", q.answered())
		}
	})
}

func TestConsumeStopsWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("a")
		var cause error
		c := q.consume(t, func(ctx context.Context, _ *client.LeasedJob) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}, client.ConsumeOptions{Grace: 5 * time.Second})
		synctest.Wait()
		began := time.Now()
		if err := c.end(); err != nil || !errors.Is(cause, client.ErrStopped) || time.Since(began) != 5*time.Second {
			t.Errorf("%v, cause %v after %v", err, cause, time.Since(began))
		}
		if !slices.Equal(q.answered(), []string{"a nack context canceled 0s dead=false"}) {
			t.Errorf("got %q", q.answered())
		}
	})
}

// Without a server, Consume gives up what it cannot answer for.
func TestConsumeStopsWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("a")
		c := q.consume(t, func(context.Context, *client.LeasedJob) error {
			q.set(func() { q.away = true })
			return nil
		}, client.ConsumeOptions{Grace: 5 * time.Second, Lease: time.Hour})
		synctest.Wait()
		began := time.Now()
		if err := c.end(); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestConsumeEndsWhenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("a")
		c := q.consume(t, func(context.Context, *client.LeasedJob) error { return nil }, client.ConsumeOptions{})
		synctest.Wait()
		q.set(func() { q.refuse = "forbidden" })
		if err := <-c.err; !errors.Is(err, client.ErrForbidden) || !slices.Equal(q.answered(), []string{"a ack"}) {
			t.Errorf("%v, %v", err, q.answered())
		}
		for _, o := range []client.ConsumeOptions{{Concurrency: -1}, {Concurrency: 1_001}, {Lease: time.Millisecond}} {
			if err := q.consume(t, func(context.Context, *client.LeasedJob) error { return nil }, o).end(); err == nil {
				t.Errorf("%+v was accepted", o)
			}
		}
	})
}
