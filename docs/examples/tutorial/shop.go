// Package shop is the order service of docs/tutorial.md.
package shop

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/receiver"
)

// Shop takes orders, closes those that nobody pays, and notifies a merchant of payments.
type Shop struct {
	Duehook  *client.Client
	Self     string // the address at which duehook reaches the shop
	Merchant string // the URL that is notified of payments
	Hooks    *receiver.Receiver

	mu     sync.Mutex
	orders map[string]string // states by id; a database in a real shop
}

// Place stores an order and registers its timeout. Repeating it changes nothing.
func (s *Shop) Place(ctx context.Context, id string) error {
	s.set(id, "", "unpaid")
	_, err := s.Duehook.Register(ctx, client.Registration{
		Topic: "order-timeout", ID: id, URL: s.Self + "/hooks/close",
		Delay: client.Duration(30 * time.Minute), Body: map[string]string{"order": id},
	})
	return err
}

// Pay cancels the timeout and notifies the merchant until it answers "success".
func (s *Shop) Pay(ctx context.Context, id string) error {
	if !s.set(id, "unpaid", "paid") {
		return nil
	}
	if _, err := s.Duehook.CancelJob(ctx, "order-timeout", id); err != nil {
		return err
	}
	_, err := s.Duehook.Register(ctx, client.Registration{
		Topic: "payment-notify", ID: id, URL: s.Merchant,
		Body: map[string]string{"paid": id}, Expect: &client.Expect{Body: "success"},
	})
	return err
}

// Handler receives the deliveries. A cancelled timeout may still arrive, so only an unpaid order is closed.
func (s *Shop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/close", s.Hooks.Handler(func(_ context.Context, d receiver.Delivery) error {
		var body struct{ Order string }
		if err := json.Unmarshal(d.Body, &body); err != nil {
			return receiver.Abort() // no retry makes this JSON
		}
		s.set(body.Order, "unpaid", "closed")
		return nil
	}))
	return mux
}

// State is that of an order.
func (s *Shop) State(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders[id]
}

// set changes the state of an order if it has the expected one.
func (s *Shop) set(id, from, to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orders == nil {
		s.orders = map[string]string{}
	}
	if s.orders[id] != from {
		return false
	}
	s.orders[id] = to
	return true
}
