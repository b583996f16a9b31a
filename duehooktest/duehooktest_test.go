package duehooktest_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/receiver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnpaidOrderIsClosed(t *testing.T) {
	s := duehooktest.Start(t)
	shop := s.Sink("shop")
	shop.Answer(duehooktest.Answer{Status: 503}, duehooktest.Answer{Status: 200})
	began := s.Now()
	_, err := s.Client.Register(t.Context(), client.Registration{
		Topic: "orders", ID: "1", URL: shop.URL("/close?a=b"), Delay: client.Duration(30 * time.Minute), Body: map[string]int{"order": 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Advance(30 * time.Minute); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if n := s.AdvanceTo(began.Add(time.Hour)); n != 1 {
		t.Errorf("%d attempts", n)
	}
	got := shop.Requests()
	if len(got) != 2 {
		t.Fatalf("the shop got %v", got)
	}
	r := got[1]
	if string(r.Body) != `{"order":1}` || r.Path != "/close?a=b" || r.Signature != "valid" || !r.At.Equal(began.Add(30*time.Minute+15*time.Second)) {
		t.Errorf("the shop got %+v", r)
	}
	if j, err := s.Client.Job(t.Context(), "orders", "1"); err != nil || j.State != client.StateDelivered {
		t.Errorf("the job is %s: %v", j.State, err)
	}
	if got := s.Sink("nobody").Requests(); len(got) != 0 {
		t.Errorf("a sink without deliveries got %v", got)
	}
}

func TestSinkURL(t *testing.T) {
	shop := duehooktest.Start(t).Sink("my shop")
	for path, want := range map[string]string{
		"close": "/close", "/close": "/close", "a/b?c=/d": "/a/b?c=/d", "": "", "/": "/", "?a=b": "?a=b", "é": "/é",
	} {
		if got := shop.URL(path); got != "http://sink/my%20shop"+want {
			t.Errorf("%q leads to %s", path, got)
		}
	}
}

// A receiver of the tested program verifies the signature, however far the clock has come.
func TestReceiver(t *testing.T) {
	s := duehooktest.Start(t)
	hooks, err := receiver.New(receiver.Options{Secrets: []string{duehooktest.Secret}})
	if err != nil {
		t.Fatal(err)
	}
	delivered := 0
	server := httptest.NewServer(hooks.Handler(func(context.Context, receiver.Delivery) error {
		delivered++
		return nil
	}))
	defer server.Close()
	if _, err := s.Client.Register(t.Context(), client.Registration{URL: server.URL, Delay: client.Duration(48 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	s.Advance(48 * time.Hour)
	if delivered != 1 {
		t.Errorf("%d deliveries", delivered)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		duehooktest.Start(b)
	}
}
