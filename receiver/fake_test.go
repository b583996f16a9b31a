package receiver_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duehook/duehook/receiver"
)

const (
	secret      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw0123456789A="
	otherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazMwqlhaaaa="
	deliveryID  = "01KDWCJ2M00000000000000001"
	body        = `{"order_id":8812}`
)

// start is a time with a fraction of a second, as clocks show it.
var start = time.Date(2026, 1, 1, 9, 30, 0, 250_000_000, time.UTC)

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: start} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newReceiver makes one for secret, at the time start.
func newReceiver(t testing.TB, change ...func(*receiver.Options)) *receiver.Receiver {
	t.Helper()
	o := receiver.Options{Secrets: []string{secret}, Now: newClock().Now}
	for _, c := range change {
		c(&o)
	}
	r, err := receiver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sign makes the value of webhook-signature.
func sign(t testing.TB, secret, id string, at time.Time, body string) string {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := w.Sign(id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// delivery is a good delivery, at the time start.
func delivery(t testing.TB) *http.Request {
	return deliveryOf(t, deliveryID, strings.NewReader(body), sign(t, secret, deliveryID, start, body))
}

func deliveryOf(t testing.TB, id string, body io.Reader, signature string) *http.Request {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/hooks/timeout", body)
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(start.Unix(), 10))
	req.Header.Set("webhook-signature", signature)
	req.Header.Set("Duehook-Topic", "order-timeout")
	req.Header.Set("Duehook-Job-Id", "order-8812")
	req.Header.Set("Duehook-Attempt", "2")
	req.Header.Set("Duehook-Due-At", "2026-01-01T09:29:59.750Z")
	return req
}

// send gives a request to a handler.
func send(h http.Handler, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// brokenReader breaks after its text.
type brokenReader struct{ *bytes.Reader }

func (b brokenReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
