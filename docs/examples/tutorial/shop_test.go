package shop_test

import (
	"net/http/httptest"
	"testing"
	"time"

	shop "github.com/duehook/duehook/docs/examples/tutorial"
	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/receiver"
)

func TestOrders(t *testing.T) {
	duehook := duehooktest.Start(t)
	merchant := duehook.Sink("merchant")
	merchant.Answer(duehooktest.Answer{Status: 503}, duehooktest.Answer{Status: 200, Body: "success"})
	hooks, err := receiver.New(receiver.Options{Secrets: []string{duehooktest.Secret}})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop.Shop{Duehook: duehook.Client, Merchant: merchant.URL("/paid"), Hooks: hooks}
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	s.Self = server.URL

	for _, id := range []string{"1", "2"} {
		if err := s.Place(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Pay(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	duehook.Advance(time.Hour) // takes milliseconds

	if s.State("1") != "closed" || s.State("2") != "paid" {
		t.Errorf("order 1 is %s, order 2 is %s", s.State("1"), s.State("2"))
	}
	if got := merchant.Requests(); len(got) != 2 || string(got[1].Body) != `{"paid":"2"}` {
		t.Errorf("the merchant got %v, want a notification and its retry", got)
	}
}
