package demo

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
)

// order is an order of the story and what became of it.
type order struct {
	definition
	delay time.Duration
	paid  bool // in the end

	// the registration, with the story's times before and after the call
	view          jobView
	status        int
	asked, agreed time.Time
	// the cancel of the job of a paid order
	cancelResult string
	cancelStatus int
}

// action is what somebody does in a story.
type action struct {
	at time.Duration
	do func(ctx context.Context) error
}

// tellOrders plays the first story: orders that are not paid in time are closed.
func tellOrders(ctx context.Context, w *show) (err error) {
	file, err := readDefinitions[ordersFile](w.Jobs, "order-timeout.json")
	if err != nil {
		return err
	}
	w.title("1. order-timeout: an order that is not paid within 30 minutes is closed",
		clockNote(file.Speed))
	s, err := openStage(ctx, w, "order-timeout", file.Speed, closeOrder)
	if err != nil {
		return err
	}
	defer s.finish(&err)

	if len(file.Orders) == 0 {
		return errors.New("demo: there are no orders")
	}
	orders := make([]*order, len(file.Orders))
	var actions []action
	for i := range file.Orders {
		of := &file.Orders[i]
		orders[i] = &order{definition: of.Job, delay: time.Duration(of.Job.Delay), paid: of.Paid != nil}
		actions = append(actions, action{time.Duration(of.Placed), func(ctx context.Context) error { return s.placeOrder(ctx, orders[i]) }})
		if of.Paid != nil {
			actions = append(actions, action{time.Duration(*of.Paid), func(ctx context.Context) error { return s.payOrder(ctx, orders[i]) }})
		}
	}
	if err := s.play(ctx, actions); err != nil {
		return err
	}
	if err := s.awaitClosing(ctx, orders); err != nil {
		return err
	}
	return s.checkOrders(ctx, orders)
}

// play does the actions at their times.
func (s *stage) play(ctx context.Context, actions []action) error {
	slices.SortStableFunc(actions, func(a, b action) int { return int(a.at - b.at) })
	for _, a := range actions {
		if err := s.waitFor(ctx, a.at); err != nil {
			return err
		}
		if err := a.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// closeOrder is the shop's side of the callback.
func closeOrder(s *stage, d delivery) answer {
	s.at(s.since(d.arrived), "duehook", yellow, "calls the shop: %s is still not paid, it is closed", d.jobID)
	return answer{http.StatusOK, "closed"}
}

func (s *stage) placeOrder(ctx context.Context, of *order) (err error) {
	of.asked = s.clock.Now()
	of.view, of.status, err = s.api.register(ctx, of.request(s.receiver.url))
	of.agreed = s.clock.Now()
	if err == nil {
		s.tell("shop", plain, "%s is placed; duehook will call at %s", of.ID, clockText(s.since(of.view.DueAt)))
	}
	return err
}

func (s *stage) payOrder(ctx context.Context, of *order) (err error) {
	of.cancelResult, of.cancelStatus, err = s.api.cancel(ctx, of.Topic, of.ID)
	if err == nil {
		s.tell("customer", green, "%s is paid; the shop withdraws its job: %s", of.ID, of.cancelResult)
	}
	return err
}

// awaitClosing waits until the unpaid orders are closed and every order's time
// has passed, also that of the paid ones.
func (s *stage) awaitClosing(ctx context.Context, orders []*order) error {
	last := s.start
	for _, of := range orders {
		if of.view.DueAt.After(last) {
			last = of.view.DueAt
		}
		if of.paid || of.status != http.StatusCreated {
			continue
		}
		if _, err := s.jobInState(ctx, &of.definition, job.Delivered); err != nil {
			return err
		}
	}
	return s.waitFor(ctx, s.since(last)+time.Minute)
}

func (s *stage) checkOrders(ctx context.Context, orders []*order) error {
	s.checkPlaced(orders)
	s.checkPaid(orders)
	s.checkClosed(orders)
	want := map[string]int{}
	for _, of := range orders {
		if of.paid {
			want[job.Cancelled.String()]++
		} else {
			want[job.Delivered.String()]++
		}
	}
	return s.checkCounts(ctx, orders[0].Topic, want)
}

func (s *stage) checkPlaced(orders []*order) {
	registered := s.expect("each order's job was registered, due after its delay")
	for _, of := range orders {
		registered(of.status == http.StatusCreated, "%s was answered %d", of.ID, of.status)
		registered(within(of.view.DueAt, of.asked, of.agreed, of.delay), "%s, registered at %s, is due at %s",
			of.ID, clockText(s.since(of.agreed)), clockText(s.since(of.view.DueAt)))
	}
}

func (s *stage) checkPaid(orders []*order) {
	cancelled := s.expect("the jobs of paid orders were cancelled")
	silent := s.expect("no callback came for a paid order")
	for _, of := range orders {
		if !of.paid {
			continue
		}
		cancelled(of.cancelStatus == http.StatusOK && of.cancelResult == "cancelled", "%s: %d %s", of.ID, of.cancelStatus, of.cancelResult)
		got := len(s.receiver.deliveries(of.ID))
		silent(got == 0, "%s got %d", of.ID, got)
	}
}

func (s *stage) checkClosed(orders []*order) {
	called := s.expect("one callback came for each order that was not paid")
	content := s.expect("each callback brought the body and the webhook-id of its job")
	punctual := s.expect("no callback came before its time")
	for _, of := range orders {
		got := s.receiver.deliveries(of.ID)
		called(of.paid || len(got) == 1, "%s got %d", of.ID, len(got))
		for _, d := range got {
			content(string(d.body) == string(of.Body), "%s brought %s", of.ID, d.body)
			content(d.webhookID == of.view.UID, "%s has uid %s and brought %s", of.ID, of.view.UID, d.webhookID)
			punctual(!before(d.arrived, of.view.DueAt), "%s came at %s", of.ID, clockText(s.since(d.arrived)))
		}
	}
}

// checkCounts expects the API to count the topic's jobs by state as want does.
func (s *stage) checkCounts(ctx context.Context, topic string, want map[string]int) error {
	states, err := s.api.states(ctx, topic)
	if err != nil {
		return err
	}
	s.expect("the API counts the same")(maps.Equal(states, want), "it counts %v instead of %v", states, want)
	return nil
}
