package receiver_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/receiver"
)

func TestNewRefuses(t *testing.T) {
	text := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, tt := range []struct {
		o   receiver.Options
		why string
	}{
		{receiver.Options{}, "no secret"},
		{receiver.Options{Secrets: []string{secret, ""}}, "secret 2 must begin with whsec_"},
		{receiver.Options{Secrets: []string{"hunter2hunter2"}}, "secret 1 must begin with whsec_"},
		{receiver.Options{Secrets: []string{"whsec_"}}, "24 to 64 bytes, not 0"},
		{receiver.Options{Secrets: []string{text(23)}}, "24 to 64 bytes, not 23"},
		{receiver.Options{Secrets: []string{text(65)}}, "24 to 64 bytes, not 65"},
		{receiver.Options{Secrets: []string{"whsec_hunter2!"}}, "standard base64"},
		{receiver.Options{Secrets: []string{secret}, Tolerance: -1}, "cannot be negative"},
		{receiver.Options{Secrets: []string{secret}, MaxBody: -1}, "cannot be negative"},
	} {
		_, err := receiver.New(tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.why) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v; want %q", err, tt.why)
		}
	}
	if _, err := receiver.New(receiver.Options{Secrets: []string{" " + secret + "\n"}}); err != nil {
		t.Errorf("as read from a file: %v", err)
	}
}

func TestVerify(t *testing.T) {
	req := delivery(t)
	got, err := newReceiver(t).Verify(req)
	if err != nil {
		t.Fatal(err)
	}
	want := receiver.Delivery{
		ID: deliveryID, SentAt: start.Truncate(time.Second), Body: []byte(body),
		Topic: "order-timeout", JobID: "order-8812", Attempt: 2,
		DueAt:  time.Date(2026, 1, 1, 9, 29, 59, 750_000_000, time.UTC),
		Header: req.Header,
	}
	if !got.SentAt.Equal(want.SentAt) || !got.DueAt.Equal(want.DueAt) {
		t.Errorf("sent at %v, due at %v; want %v and %v", got.SentAt, got.DueAt, want.SentAt, want.DueAt)
	}
	got.SentAt, got.DueAt = want.SentAt, want.DueAt // in any time zone
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Names that are not ASCII are percent-encoded on the way.
func TestVerifyDecodesNames(t *testing.T) {
	for value, want := range map[string]string{"%E8%AE%A2%E5%8D%95-1": "订单-1", "a:b@c": "a:b@c", "100%": "100%"} {
		req := delivery(t)
		req.Header.Set("Duehook-Topic", value)
		req.Header.Set("Duehook-Job-Id", value)
		got, err := newReceiver(t).Verify(req)
		if err != nil || got.Topic != want || got.JobID != want {
			t.Errorf("%s: topic %q, id %q, %v", value, got.Topic, got.JobID, err)
		}
	}
}

// Signatures are made by anybody who follows Standard Webhooks, and by the
// machine's clock unless told otherwise.
func TestVerifyOtherSenders(t *testing.T) {
	r, err := receiver.New(receiver.Options{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	req := httptest.NewRequest(http.MethodPost, "/", nil)
	req.Header.Set("webhook-id", "msg_1")
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", sign(t, secret, "msg_1", now, ""))
	d, err := r.Verify(req)
	if err != nil || d.ID != "msg_1" || len(d.Body) != 0 || d.Attempt != 0 || !d.DueAt.IsZero() {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	set := func(name, value string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set(name, value) }
	}
	good := sign(t, secret, deliveryID, start, body)
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		want   error
	}{
		{"no id", func(req *http.Request) { req.Header.Del("webhook-id") }, receiver.ErrHeaders},
		{"no timestamp", func(req *http.Request) { req.Header.Del("webhook-timestamp") }, receiver.ErrHeaders},
		{"no signature", func(req *http.Request) { req.Header.Del("webhook-signature") }, receiver.ErrHeaders},
		{"empty id", set("webhook-id", ""), receiver.ErrHeaders},
		{"two ids", func(req *http.Request) { req.Header.Add("webhook-id", "b") }, receiver.ErrHeaders},
		{"two signatures", func(req *http.Request) { req.Header.Add("webhook-signature", good) }, receiver.ErrHeaders},
		{"timestamp no number", set("webhook-timestamp", "now"), receiver.ErrHeaders},
		{"timestamp as a date", set("webhook-timestamp", "2026-01-01T09:30:00Z"), receiver.ErrHeaders},
		{"timestamp too long", set("webhook-timestamp", "92233720368547758070"), receiver.ErrHeaders},
		{"attempt no number", set("duehook-attempt", "one"), receiver.ErrHeaders},
		{"attempt zero", set("duehook-attempt", "0"), receiver.ErrHeaders},
		{"due time no time", set("duehook-due-at", "1767259800"), receiver.ErrHeaders},
		{"other id", set("webhook-id", "01KDWCJ2M00000000000000002"), receiver.ErrSignature},
		{"other time", set("webhook-timestamp", strconv.FormatInt(start.Unix()+1, 10)), receiver.ErrSignature},
		{"other secret", set("webhook-signature", sign(t, otherSecret, deliveryID, start, body)), receiver.ErrSignature},
		{"other version", set("webhook-signature", strings.Replace(good, "v1,", "v1a,", 1)), receiver.ErrSignature},
		{"no version", set("webhook-signature", good[3:]), receiver.ErrSignature},
		{"cut", set("webhook-signature", good[:len(good)-4]), receiver.ErrSignature},
		{"no signature in it", set("webhook-signature", "v1,"), receiver.ErrSignature},
		{"space", set("webhook-signature", " "), receiver.ErrSignature},
		{"tampered body", func(req *http.Request) {
			req.Body = io.NopCloser(strings.NewReader(strings.Replace(body, "8", "9", 1)))
		}, receiver.ErrSignature},
		{"longer body", func(req *http.Request) {
			req.Body = io.NopCloser(strings.NewReader(body + "\n"))
		}, receiver.ErrSignature},
		{"no body", func(req *http.Request) { req.Body = http.NoBody }, receiver.ErrSignature},
		{"broken body", func(req *http.Request) {
			req.Body = io.NopCloser(brokenReader{bytes.NewReader([]byte(body))})
		}, receiver.ErrBody},
	} {
		req := delivery(t)
		tt.change(req)
		if d, err := newReceiver(t).Verify(req); !errors.Is(err, tt.want) || d.ID != "" {
			t.Errorf("%s: %+v, %v; want %v", tt.name, d, err, tt.want)
		}
	}
}

func TestTolerance(t *testing.T) {
	for _, tt := range []struct {
		tolerance time.Duration
		late      time.Duration
		ok        bool
	}{
		{0, receiver.DefaultTolerance - time.Second, true},
		{0, -receiver.DefaultTolerance + time.Second, true},
		{0, receiver.DefaultTolerance + time.Second, false},
		{0, -receiver.DefaultTolerance - time.Second, false},
		{time.Minute, 61 * time.Second, false},
		{time.Hour, 59 * time.Minute, true},
	} {
		c := newClock()
		c.advance(tt.late)
		r := newReceiver(t, func(o *receiver.Options) { o.Tolerance, o.Now = tt.tolerance, c.Now })
		_, err := r.Verify(delivery(t))
		if ok := err == nil; ok != tt.ok || (!ok && !errors.Is(err, receiver.ErrTimestamp)) {
			t.Errorf("tolerance %v, %v late: %v", tt.tolerance, tt.late, err)
		}
	}
}

// Times so far away that their difference overflows are refused as well.
func TestExtremeTimestamps(t *testing.T) {
	for _, seconds := range []int64{0, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 / 1_000_000_000, -62135596800, 1 << 62} {
		req := delivery(t)
		req.Header.Set("webhook-timestamp", strconv.FormatInt(seconds, 10))
		req.Header.Set("webhook-signature", sign(t, secret, deliveryID, time.Unix(seconds, 0), body))
		if _, err := newReceiver(t).Verify(req); !errors.Is(err, receiver.ErrTimestamp) {
			t.Errorf("%d: %v", seconds, err)
		}
	}
}

// During a rotation the sender signs with both secrets, and the receiver knows
// the old, the new, or both.
func TestVerifyDuringRotation(t *testing.T) {
	both := sign(t, otherSecret, deliveryID, start, body) + " " + sign(t, secret, deliveryID, start, body)
	for _, tt := range []struct {
		signature string
		secrets   []string
		ok        bool
	}{
		{both, []string{secret}, true},
		{both, []string{otherSecret}, true},
		{both, []string{otherSecret, secret}, true},
		{sign(t, secret, deliveryID, start, body), []string{otherSecret, secret}, true},
		{sign(t, otherSecret, deliveryID, start, body), []string{otherSecret, secret}, true},
		{sign(t, otherSecret, deliveryID, start, body), []string{secret}, false},
	} {
		req := delivery(t)
		req.Header.Set("webhook-signature", tt.signature)
		_, err := newReceiver(t, func(o *receiver.Options) { o.Secrets = tt.secrets }).Verify(req)
		if ok := err == nil; ok != tt.ok {
			t.Errorf("%d signatures, %d secrets: %v", strings.Count(tt.signature, "v1,"), len(tt.secrets), err)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	for _, tt := range []struct {
		limit int64
		size  int
		ok    bool
	}{
		{10, 10, true},
		{10, 11, false},
		{math.MaxInt64, 11, true},
		{0, receiver.DefaultMaxBody, true},
		{0, receiver.DefaultMaxBody + 1, false},
	} {
		body := strings.Repeat("x", tt.size)
		read := &countingReader{Reader: strings.NewReader(body)}
		req := deliveryOf(t, deliveryID, read, sign(t, secret, deliveryID, start, body))
		_, err := newReceiver(t, func(o *receiver.Options) { o.MaxBody = tt.limit }).Verify(req)
		if ok := err == nil; ok != tt.ok || (!ok && !errors.Is(err, receiver.ErrTooLarge)) {
			t.Errorf("%d bytes with a limit of %d: %v", tt.size, tt.limit, err)
		}
		if tt.limit > 0 && read.n > 1024 {
			t.Errorf("%d bytes were read", read.n)
		}
	}
}

type countingReader struct {
	io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func FuzzVerify(f *testing.F) {
	good := sign(f, secret, deliveryID, start, body)
	now := strconv.FormatInt(start.Unix(), 10)
	f.Add(deliveryID, now, good, "2", "2026-01-01T09:29:59.750Z", []byte(body))
	f.Add(deliveryID, now, "v1,AAAA "+good, "", "", []byte(body))
	f.Add("", "", "", "", "", []byte(nil))
	f.Add("a.b", "+"+now, "v1 ,,, v1,", "-1", "0000-00-00T00:00:00Z", []byte("\x00"))
	f.Add("\n", "-9223372036854775808", "v1,====", "99999999999999999999", "9999-12-31T23:59:60Z", bytes.Repeat([]byte("x"), 2000))
	r := newReceiver(f, func(o *receiver.Options) { o.MaxBody = 1000 })
	f.Fuzz(func(t *testing.T, id, timestamp, signature, attempt, due string, content []byte) {
		req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(content))
		req.Header.Set("webhook-id", id)
		req.Header.Set("webhook-timestamp", timestamp)
		req.Header.Set("webhook-signature", signature)
		req.Header.Set("duehook-attempt", attempt)
		req.Header.Set("duehook-due-at", due)
		d, err := r.Verify(req)
		if err != nil {
			for _, known := range []error{receiver.ErrHeaders, receiver.ErrTimestamp, receiver.ErrSignature, receiver.ErrTooLarge} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("an error of no kind: %v", err)
		}
		// Nobody but the seeds knows the secret.
		if d.ID != deliveryID || string(d.Body) != body || d.SentAt.Unix() != start.Unix() {
			t.Errorf("forged: %+v", d)
		}
	})
}

// A delivery of another topic is refused, also if the same secret signed it.
func TestVerifyTopics(t *testing.T) {
	signed := func(topic, as string) *http.Request {
		req := delivery(t)
		at := start.Truncate(time.Second)
		of, err := newReceiver(t).Sign("topic:"+topic+"\n"+deliveryID, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Duehook-Topic", as)
		req.Header.Set("Duehook-Topic-Signature", of)
		return req
	}
	r, err := receiver.New(receiver.Options{Secrets: []string{secret}, Topics: []string{"payments", "orders"}, Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := r.Verify(signed("orders", "orders")); err != nil || d.Topic != "orders" {
		t.Errorf("a delivery of the topic: %+v, %v", d, err)
	}
	unsigned := signed("orders", "orders")
	unsigned.Header.Del("Duehook-Topic-Signature")
	body := signed("orders", "orders")
	body.Header.Set("Duehook-Topic-Signature", body.Header.Get("Webhook-Signature"))
	earlier := signed("orders", "orders")
	of, _ := newReceiver(t).Sign("topic:orders\nanother-id", start.Truncate(time.Second), nil)
	earlier.Header.Set("Duehook-Topic-Signature", of)
	for name, req := range map[string]*http.Request{
		"another topic": signed("other", "other"), "another topic under the name of one": signed("other", "orders"), "no signature": unsigned,
		"the signature of the body": body, "the signature of another message": earlier,
	} {
		if d, err := r.Verify(req); !errors.Is(err, receiver.ErrTopic) || d.ID != "" {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if _, err := newReceiver(t).Verify(signed("other", "other")); err != nil {
		t.Errorf("without topics, a delivery is refused: %v", err)
	}
}
