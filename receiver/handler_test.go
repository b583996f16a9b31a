package receiver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/receiver"
)

// calls counts what a function of a handler was given, and answers.
type calls struct {
	mu    sync.Mutex
	got   []receiver.Delivery
	reply func(n int) error
}

func (c *calls) handle(_ context.Context, d receiver.Delivery) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, d)
	if c.reply == nil {
		return nil
	}
	return c.reply(len(c.got))
}

func TestHandlerAnswers(t *testing.T) {
	type headers map[string]string
	for _, tt := range []struct {
		name    string
		err     error
		status  int
		headers headers
	}{
		{"nil", nil, 200, headers{"Retry-After": "", "Duehook-Action": "", "Webhook-Delivery": ""}},
		{"other error", errors.New("no database"), 500, headers{"Retry-After": "", "Duehook-Action": ""}},
		{"gone", receiver.Gone(), 410, headers{"Retry-After": ""}},
		{"abort", receiver.Abort(), 400, headers{"Webhook-Delivery": "abort-message", "Retry-After": ""}},
		{"retry after", receiver.RetryAfter(90 * time.Second), 503, headers{"Retry-After": "90", "Duehook-Action": ""}},
		{"rounded up", receiver.RetryAfter(90*time.Second + 1), 503, headers{"Retry-After": "91"}},
		{"no time", receiver.RetryAfter(0), 503, headers{"Retry-After": "1"}},
		{"the past", receiver.Snooze(-time.Hour), 409, headers{"Retry-After": "1", "Duehook-Action": "snooze"}},
		{"snooze", receiver.Snooze(time.Hour), 409, headers{"Retry-After": "3600", "Duehook-Action": "snooze"}},
		{"reschedule", receiver.Reschedule(start.Add(time.Hour)), 409, headers{"Duehook-At": "2026-01-01T10:30:00.250Z", "Duehook-Action": "reschedule", "Retry-After": ""}},
		{"too long", receiver.Snooze(1 << 62), 409, headers{"Retry-After": "86400"}},
		{"wrapped", fmt.Errorf("order 8812: %w", receiver.Gone()), 410, nil},
		{"joined", errors.Join(errors.New("a"), receiver.RetryAfter(time.Minute)), 503, headers{"Retry-After": "60"}},
		{"context", context.Canceled, 500, nil},
	} {
		h := newReceiver(t).Handler(func(context.Context, receiver.Delivery) error { return tt.err })
		w := send(h, delivery(t))
		if w.Code != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, w.Code, tt.status)
		}
		for name, want := range tt.headers {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", tt.name, name, got, want)
			}
		}
		// The sender keeps answers: what went wrong here is not for it.
		if tt.headers["Content-Type"] == "application/json" {
			if w.Body.String() != `{"body":{"n":1}}` {
				t.Errorf("%s: answered %q", tt.name, w.Body)
			}
			continue
		}
		if tt.err != nil && strings.TrimSpace(w.Body.String()) != http.StatusText(tt.status) {
			t.Errorf("%s: told %q", tt.name, w.Body)
		}
	}
}

func TestAnswersAreComparable(t *testing.T) {
	if err := fmt.Errorf("why: %w", receiver.RetryAfter(time.Minute)); !errors.Is(err, receiver.RetryAfter(time.Minute)) {
		t.Error("RetryAfter is not found again")
	}
	if errors.Is(receiver.Gone(), receiver.Abort()) || errors.Is(receiver.Snooze(time.Minute), receiver.Snooze(time.Hour)) {
		t.Error("different answers are equal")
	}
	for want, err := range map[string]error{
		"answer 410 Gone":                                                    receiver.Gone(),
		"answer 400 Bad Request, abort-message":                              receiver.Abort(),
		"answer 503 Service Unavailable, again in 1m0s":                      receiver.RetryAfter(time.Minute),
		"answer 409 Conflict, reschedule, again at 2026-01-01T09:30:00.250Z": receiver.Reschedule(start),
		"answer 409 Conflict, snooze, again in 2s":                           receiver.Snooze(1500 * time.Millisecond),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestHandlerPassesTheDelivery(t *testing.T) {
	var c calls
	r := newReceiver(t, func(o *receiver.Options) { o.Reply = "success" })
	for _, method := range []string{"POST", "PUT", "PATCH", "GET", "DELETE"} {
		req := deliveryOf(t, method, strings.NewReader(body), sign(t, secret, method, start, body))
		req.Method = method
		if w := send(r.Handler(c.handle), req); w.Code != 200 || w.Body.String() != "success" {
			t.Errorf("%s: %d %q", method, w.Code, w.Body)
		}
	}
	if len(c.got) != 5 || c.got[1].ID != "PUT" || c.got[1].JobID != "order-8812" || string(c.got[1].Body) != body {
		t.Errorf("got %+v", c.got)
	}
}

func TestHandlerRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"method", func(req *http.Request) { req.Method = http.MethodHead }, 405},
		{"signature", func(req *http.Request) { req.Header.Set("webhook-id", "x") }, 401},
		{"timestamp", func(req *http.Request) { req.Header.Set("webhook-timestamp", "1") }, 401},
		{"headers", func(req *http.Request) { req.Header.Del("webhook-id") }, 400},
		{"broken body", func(req *http.Request) {
			req.Body = io.NopCloser(brokenReader{bytes.NewReader([]byte(body))})
		}, 400},
		{"large body", func(req *http.Request) {
			req.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 101)))
		}, 413},
	} {
		var c calls
		req := delivery(t)
		tt.change(req)
		w := send(newReceiver(t, func(o *receiver.Options) { o.MaxBody = 100 }).Handler(c.handle), req)
		if w.Code != tt.status || len(c.got) > 0 {
			t.Errorf("%s: %d, want %d; %d calls", tt.name, w.Code, tt.status, len(c.got))
		}
		if allow := w.Header().Get("Allow"); (tt.status == 405) != (allow == "POST, PUT, PATCH, GET, DELETE") {
			t.Errorf("%s: Allow is %q", tt.name, allow)
		}
	}
}

func TestHandledDeliveriesAreNotHandledAgain(t *testing.T) {
	var c calls
	h := newReceiver(t, func(o *receiver.Options) { o.Reply = "success" }).Handler(c.handle)
	for range 3 {
		if w := send(h, delivery(t)); w.Code != 200 || w.Body.String() != "success" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
	if len(c.got) != 1 {
		t.Errorf("handled %d times", len(c.got))
	}
}

func TestFailedDeliveriesAreHandledAgain(t *testing.T) {
	c := calls{reply: func(n int) error {
		return []error{errors.New("no database"), receiver.RetryAfter(time.Minute), receiver.Snooze(time.Minute), nil}[n-1]
	}}
	h := newReceiver(t).Handler(c.handle)
	var got []int
	for range 5 {
		got = append(got, send(h, delivery(t)).Code)
	}
	if want := []int{500, 503, 409, 200, 200}; !slices.Equal(got, want) || len(c.got) != 4 {
		t.Errorf("answers %v, want %v; %d calls", got, want, len(c.got))
	}
}

func TestRefusedDeliveriesAreNotRemembered(t *testing.T) {
	var c calls
	h := newReceiver(t).Handler(c.handle)
	forged := delivery(t)
	forged.Body = io.NopCloser(strings.NewReader("{}"))
	if w := send(h, forged); w.Code != 401 {
		t.Errorf("forged: %d", w.Code)
	}
	if w := send(h, delivery(t)); w.Code != 200 || len(c.got) != 1 {
		t.Errorf("%d, %d calls", w.Code, len(c.got))
	}
}

func TestPanicsAreForgotten(t *testing.T) {
	panics := true
	h := newReceiver(t).Handler(func(context.Context, receiver.Delivery) error {
		if panics {
			panic("boom")
		}
		return nil
	})
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
		}()
		send(h, delivery(t))
	}()
	panics = false
	if w := send(h, delivery(t)); w.Code != 200 {
		t.Errorf("the next attempt: %d", w.Code)
	}
}

// An attempt that timed out for duehook may still be handled here when the
// next one comes.
func TestConcurrentDuplicates(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan error)
	var running atomic.Int32
	h := newReceiver(t).Handler(func(context.Context, receiver.Delivery) error {
		if running.Add(1) > 1 {
			t.Error("handled twice at the same time")
		}
		defer running.Add(-1)
		entered <- struct{}{}
		return <-leave
	})
	attempt := func() (code chan int) {
		req := delivery(t)
		code = make(chan int, 1)
		go func() { code <- send(h, req).Code }()
		return code
	}
	first := attempt()
	<-entered
	for range 3 {
		w := send(h, delivery(t))
		if w.Code != 409 || w.Header().Get("Duehook-Action") != "snooze" || w.Header().Get("Retry-After") != "5" {
			t.Errorf("meanwhile: %d %v", w.Code, w.Header())
		}
	}
	leave <- errors.New("failed")
	if code := <-first; code != 500 {
		t.Errorf("the first: %d", code)
	}
	second := attempt()
	<-entered
	leave <- nil
	if code := <-second; code != 200 {
		t.Errorf("the second: %d", code)
	}
	if w := send(h, delivery(t)); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

func TestManyDeliveriesAtOnce(t *testing.T) {
	const jobs, copies = 50, 4
	var handled sync.Map
	h := newReceiver(t).Handler(func(_ context.Context, d receiver.Delivery) error {
		if _, twice := handled.LoadOrStore(d.ID, true); twice {
			t.Errorf("%s was handled twice", d.ID)
		}
		return nil
	})
	var all sync.WaitGroup
	for i := range jobs {
		id := fmt.Sprint("job", i)
		for range copies {
			req := deliveryOf(t, id, strings.NewReader(body), sign(t, secret, id, start, body))
			all.Add(1)
			go func() {
				defer all.Done()
				if w := send(h, req); w.Code != 200 && w.Code != 409 {
					t.Errorf("%s: %d", id, w.Code)
				}
			}()
		}
	}
	all.Wait()
	for i := range jobs {
		if _, ok := handled.Load(fmt.Sprint("job", i)); !ok {
			t.Errorf("job%d was not handled", i)
		}
	}
}

// failingSeen fails as told.
type failingSeen struct {
	begin, mark error
	ctxErr      error // of the context that Done or Forget got
}

func (s *failingSeen) Begin(context.Context, string) (receiver.Status, error) {
	return receiver.Unseen, s.begin
}

func (s *failingSeen) Done(ctx context.Context, _ string) error {
	s.ctxErr = ctx.Err()
	return s.mark
}

func (s *failingSeen) Forget(ctx context.Context, id string) error { return s.Done(ctx, id) }

func TestSeenFails(t *testing.T) {
	var out bytes.Buffer
	down := errors.New("redis is down")
	for _, tt := range []struct {
		seen   failingSeen
		err    error
		status int
		calls  int
	}{
		{failingSeen{begin: down}, nil, 503, 0},
		{failingSeen{mark: down}, nil, 200, 1},
		{failingSeen{mark: down}, receiver.Gone(), 410, 1},
	} {
		out.Reset()
		c := calls{reply: func(int) error { return tt.err }}
		h := newReceiver(t, func(o *receiver.Options) {
			o.Seen, o.Logger = &tt.seen, slog.New(slog.NewTextHandler(&out, nil))
		}).Handler(c.handle)
		if w := send(h, delivery(t)); w.Code != tt.status || len(c.got) != tt.calls {
			t.Errorf("%+v: %d, %d calls", tt.seen, w.Code, len(c.got))
		}
		if !strings.Contains(out.String(), "redis is down") || !strings.Contains(out.String(), deliveryID) {
			t.Errorf("logged %q", &out)
		}
	}
}

// The client has gone, but what was handled must still be remembered.
func TestMarksOutliveTheRequest(t *testing.T) {
	var seen failingSeen
	ctx, cancel := context.WithCancel(t.Context())
	h := newReceiver(t, func(o *receiver.Options) { o.Seen = &seen }).Handler(
		func(ctx context.Context, _ receiver.Delivery) error {
			cancel()
			return ctx.Err()
		})
	if w := send(h, delivery(t).WithContext(ctx)); w.Code != 500 || seen.ctxErr != nil {
		t.Errorf("%d; marked with a context that had ended: %v", w.Code, seen.ctxErr)
	}
}

func TestLogsTellNoBodies(t *testing.T) {
	var out bytes.Buffer
	c := calls{reply: func(int) error { return errors.New("no database") }}
	h := newReceiver(t, func(o *receiver.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}).Handler(c.handle)
	send(h, delivery(t))
	forged := delivery(t)
	forged.Header.Set("webhook-id", "forged")
	send(h, forged)
	for _, want := range []string{"no database", deliveryID, "order-timeout", "attempt=2", "no signature by a known secret"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	for _, hidden := range []string{"8812}", secret[6:20], "v1,"} {
		if strings.Contains(out.String(), hidden) {
			t.Errorf("%q is in\n%s", hidden, &out)
		}
	}
}

// Over a real connection, a body that is too large is not read to its end.
func TestLargeBodyOverTheWire(t *testing.T) {
	server := httptest.NewServer(newReceiver(t, func(o *receiver.Options) { o.MaxBody = 100 }).Handler(
		func(context.Context, receiver.Delivery) error { return nil }))
	defer server.Close()
	large := strings.Repeat("x", 64<<20)
	req := deliveryOf(t, deliveryID, strings.NewReader(large), "v1,x")
	out, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	out.Header = req.Header
	resp, err := server.Client().Do(out)
	if err != nil {
		return // the connection was closed while we were sending
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
		t.Errorf("%s, close %t", resp.Status, resp.Close)
	}
}

// The zero values of the package's types refuse, or work.
func TestZeroValues(t *testing.T) {
	var r receiver.Receiver
	w := httptest.NewRecorder()
	r.Handler(func(context.Context, receiver.Delivery) error { t.Error("it was called"); return nil }).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("%d", w.Code)
	}
	if _, err := r.Verify(httptest.NewRequest(http.MethodGet, "/", http.NoBody)); !errors.Is(err, receiver.ErrSignature) {
		t.Errorf("%v", err)
	}
	var m receiver.Memory
	if err := m.Forget(t.Context(), "a"); err != nil || m.Len() != 0 {
		t.Errorf("%d remembered, %v", m.Len(), err)
	}
	for _, want := range []receiver.Status{receiver.Unseen, receiver.Running} {
		if got, err := m.Begin(t.Context(), "a"); err != nil || got != want {
			t.Errorf("%v, not %v, %v", got, want, err)
		}
	}
	var other receiver.Memory
	if err := other.Done(t.Context(), "b"); err != nil || other.Len() != 1 {
		t.Errorf("%d remembered, %v", other.Len(), err)
	}
}
