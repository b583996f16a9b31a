//go:build go1.26

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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	slow    time.Duration          // of an answer for jobs
	refuse  string                 // a code
	lag     time.Duration          // of an answer for jobs after they are leased
	proxy   *http.Response         // answers instead of the server
	rejects func(client.Nack) bool // nacks that have a whole call refused
	calls   map[string]int         // by path
	repeats map[string]bool        // receipts that a nack made due at once
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
	away, refuse, proxy := q.away, q.refuse, q.proxy
	q.mu.Unlock()
	switch {
	case proxy != nil:
		resp := *proxy
		resp.Body, resp.Request = io.NopCloser(strings.NewReader("<html>no</html>")), r
		return &resp, nil
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
			if q.rejects != nil && q.rejects(n) {
				return reply(r, http.StatusUnprocessableEntity, map[string]any{"code": "invalid_request", "detail": "no"}), nil
			}
		}
		return reply(r, 200, q.results(receipts, func(i int) string {
			delay := "ladder"
			if d := in.Receipts[i].Delay; d != nil {
				delay = d.String()
			}
			if in.Receipts[i].Unused {
				return "unused"
			}
			return fmt.Sprintf("nack %s %s dead=%t", in.Receipts[i].Error, delay, in.Receipts[i].Dead)
		}, 0)), nil
	}
	var in client.PullRequest
	_ = json.Unmarshal(body, &in)
	resp, err := q.pull(r, &in)
	select {
	case <-time.After(q.lag):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return resp, err
}

func (q *queue) pull(r *http.Request, in *client.PullRequest) (*http.Response, error) {
	timeout := time.After(time.Duration(in.Wait))
	q.mu.Lock()
	q.pulls = append(q.pulls, in.Max)
	q.mu.Unlock()
	for {
		q.mu.Lock()
		added := q.added
		if len(q.due) > 0 {
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
		q.mu.Unlock()
		select {
		case <-added:
		case <-timeout:
			return reply(r, 200, map[string]any{"jobs": []any{}}), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
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
		c.stop()
		synctest.Wait()
		q.set(func() { q.due = []string{"unbegun"} })
		if err := <-c.err; err != nil {
			t.Error(err)
		}
		want := []string{"running ack", "unbegun unused"}
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

// Consume is stopped at any moment of busy work. No job stays leased, and none has an attempt that no handler saw.
func TestConsumeLeavesNothingLeased(t *testing.T) {
	for moment := range 40 {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(ids("j", 500)...)
			q.lag = 7 * time.Millisecond
			var mu sync.Mutex
			handled := map[string]bool{}
			c := q.consume(t, func(_ context.Context, j *client.LeasedJob) error {
				mu.Lock()
				handled[j.Job.ID] = true
				mu.Unlock()
				pass(3 * time.Millisecond)
				return nil
			}, client.ConsumeOptions{Concurrency: 7})
			pass(time.Duration(moment) * 1300 * time.Microsecond)
			if err := c.end(); err != nil {
				t.Error(err)
			}
			if len(q.leases) > 0 {
				t.Errorf("stopped after %d: %d jobs stay leased", moment, len(q.leases))
			}
			for _, answer := range q.answered() {
				id, what, _ := strings.Cut(answer, " ")
				if handled[id] != (what == "ack") || !handled[id] && what != "unused" {
					t.Errorf("%q, handled %t", answer, handled[id])
				}
			}
		})
	}
}

// An idle Consume stops when its call for jobs has ended.
func TestConsumeStopsWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newQueue().consume(t, func(context.Context, *client.LeasedJob) error { return nil }, client.ConsumeOptions{})
		pass(time.Minute + time.Second)
		began := time.Now()
		if err := c.end(); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// hostileError is an error whose methods fail.
type hostileError struct{ text, as func() }

func (e hostileError) Error() string { e.text(); return "text" }

func (e hostileError) As(any) bool { e.as(); return false }

// What a handler returns is its code, too: the zero value of a *NackError, and methods that panic.
func TestConsumeGuardsWhatHandlersReturn(t *testing.T) {
	nothing := func() {}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"delay alone":      {&client.NackError{Delay: new(client.Duration(time.Second))}, "nack the handler did not do the job 1s dead=false"},
		"dead alone":       {&client.NackError{Dead: true}, "nack the handler gave the job up ladder dead=true"},
		"zero":             {&client.NackError{}, "nack the handler did not do the job ladder dead=false"},
		"nil":              {(*client.NackError)(nil), "nack the handler did not do the job ladder dead=false"},
		"wrapped":          {fmt.Errorf("later: %w", &client.NackError{Dead: true}), "nack later: the handler gave the job up ladder dead=true"},
		"past":             {&client.NackError{Delay: new(client.Duration(-time.Second))}, "nack the handler did not do the job 0s dead=false"},
		"far":              {&client.NackError{Delay: new(client.Duration(400 * 24 * time.Hour))}, "nack the handler did not do the job 365d dead=false"},
		"Error panics":     {hostileError{func() { panic("no text") }, nothing}, "nack panic: no text ladder dead=false"},
		"Error exits":      {hostileError{runtime.Goexit, nothing}, "nack the handler ended without a result ladder dead=false"},
		"As panics":        {hostileError{nothing, func() { panic("no as") }}, "nack panic: no as ladder dead=false"},
		"nil error inside": {errors.Join(nil, error(&client.PanicError{})), "nack panic: <nil> ladder dead=false"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue("a")
				c := q.consume(t, func(context.Context, *client.LeasedJob) error { return test.err }, client.ConsumeOptions{})
				synctest.Wait()
				if err := c.end(); err != nil || !slices.Equal(q.answered(), []string{"a " + test.want}) {
					t.Errorf("%v, %q", err, q.answered())
				}
			})
		})
	}
}

// A function that reports must not take the process down, and not go unnoticed either.
func TestConsumeEndsWhenReportsPanic(t *testing.T) {
	for name, o := range map[string]client.ConsumeOptions{
		"Answered": {Answered: func(*client.LeasedJob, error) { panic("oh") }},
		"Failed":   {Failed: func(error) { panic("oh") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue("a", "b")
				o.Concurrency = 2
				c := q.consume(t, func(context.Context, *client.LeasedJob) error { return nil }, o)
				synctest.Wait()
				if name == "Failed" {
					q.set(func() { q.away = true })
				}
				err := <-c.err
				if e := new(client.PanicError); !errors.As(err, &e) || e.Value != "oh" || len(q.answered()) != 2 || len(q.leases) > 0 {
					t.Errorf("%v, %q", err, q.answered())
				}
			})
		})
	}
}

// The server refuses the answers of several handlers because of one. The others count.
func TestConsumeDoesNotCoupleHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(ids("j", 10)...)
		q.rejects = func(n client.Nack) bool { return n.Error == "j004" }
		var lost []string
		c := q.consume(t, func(_ context.Context, j *client.LeasedJob) error {
			pass(time.Second) // they end together
			return &client.NackError{Err: errors.New(j.Job.ID), Dead: true}
		}, client.ConsumeOptions{Concurrency: 10, Answered: func(j *client.LeasedJob, err error) {
			if errors.Is(err, client.ErrLeaseLost) {
				lost = append(lost, j.Job.ID)
			}
		}})
		pass(2 * time.Second)
		if err := c.end(); err != nil || len(q.answered()) != 9 || !slices.Equal(lost, []string{"j004"}) {
			t.Errorf("%v, answered %q, lost %q", err, q.answered(), lost)
		}
	})
}

// A proxy's answer is not the server's refusal: Consume goes on when the proxy lets it through again.
func TestConsumeOutlastsProxies(t *testing.T) {
	for status, retryAfter := range map[int]string{
		401: "", 403: "", 404: "", 408: "", 413: "", 414: "", 425: "", 429: "40", 431: "", 500: "", 502: "", 503: "90", 504: "", 530: "", 302: "",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue("first")
				var failures atomic.Int64
				c := q.consume(t, func(_ context.Context, j *client.LeasedJob) error {
					if j.Job.ID == "first" { // its answer has to outlast the proxy
						q.set(func() {
							q.proxy = &http.Response{StatusCode: status, Status: fmt.Sprint(status, " no"), Header: http.Header{"Retry-After": {retryAfter}}}
						})
					}
					return nil
				}, client.ConsumeOptions{Concurrency: 1, Lease: time.Hour, Failed: func(error) { failures.Add(1) }})
				pass(30 * time.Second)
				if seconds, _ := strconv.Atoi(retryAfter); failures.Load() == 0 || failures.Load() > 30 || seconds > 0 && failures.Load() > 1 {
					t.Errorf("%d calls failed in 30 s", failures.Load())
				}
				q.set(func() { q.proxy, q.due = nil, []string{"second"} })
				pass(2 * time.Minute)
				if err := c.end(); err != nil || !slices.Equal(q.answered(), []string{"first ack", "second ack"}) {
					t.Errorf("%v, %q", err, q.answered())
				}
			})
		})
	}
}
