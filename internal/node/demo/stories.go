package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
)

const note = "The clock jumps from one event to the next; times count from the start of the story."

// ordersFile is testdata/demo/order-timeout.json.
type ordersFile struct {
	Orders []*order `json:"orders"`
}

// order is an order of the story and what became of it.
type order struct {
	Placed client.Duration     `json:"placed"` // from the start of the story
	Paid   *client.Duration    `json:"paid"`   // never, when absent
	Job    client.Registration `json:"job"`

	view      client.RegisteredJob
	refused   error
	placedAt  time.Time
	withdrawn string // the result of the cancel
}

// play plays the first story: orders that are not paid in time are closed.
func (f *ordersFile) play(ctx context.Context, s *stage) error {
	s.title("1. order-timeout: an order that is not paid within 30 minutes is closed", note)
	var actions []action
	for _, o := range f.Orders {
		actions = append(actions, action{time.Duration(o.Placed), func(ctx context.Context) error {
			o.placedAt = s.dev.Clock.Now()
			if o.view, o.refused = s.register(ctx, o.Job, []answer{{http.StatusOK, "closed"}}); o.refused == nil {
				s.tell("shop", plain, "%s is placed; duehook will call at %s", o.Job.ID, clockText(o.view.DueAt.Sub(s.start)))
			}
			return nil
		}})
		if o.Paid == nil {
			continue
		}
		actions = append(actions, action{time.Duration(*o.Paid), func(ctx context.Context) error {
			c, err := s.api.CancelJob(ctx, o.Job.Topic, o.Job.ID)
			o.withdrawn = c.Result
			if err != nil {
				o.withdrawn = err.Error()
			}
			s.tell("customer", green, "%s is paid; the shop withdraws its job: %s", o.Job.ID, o.withdrawn)
			return nil
		}})
	}
	err := s.act(ctx, time.Hour, actions, func(_ context.Context, d *delivery) error {
		s.at(d.at.Sub(s.start), "duehook", yellow, "calls the shop: %s is still not paid, it is closed", d.id)
		return nil
	})
	return errors.Join(err, f.check(ctx, s))
}

func (f *ordersFile) check(ctx context.Context, s *stage) error {
	registered := s.expect("each order's job was registered, due after its delay")
	cancelled := s.expect("the jobs of paid orders were cancelled")
	silent := s.expect("no delivery came for a paid order")
	called := s.expect("one delivery came for each order that was not paid")
	content := s.expect("each delivery brought the body and the webhook-id of its job")
	punctual := s.expect("each delivery came at its time")
	want := map[client.State]int64{}
	for _, o := range f.Orders {
		id, got := o.Job.ID, s.deliveries(o.Job.ID)
		registered(o.refused == nil, "%s was refused: %v", id, o.refused)
		registered(o.view.DueAt.Equal(o.placedAt.Add(time.Duration(o.Job.Delay))), "%s is due at %s", id, clockText(o.view.DueAt.Sub(s.start)))
		if o.Paid != nil {
			want[client.StateCancelled]++
			cancelled(o.withdrawn == "cancelled", "%s: %s", id, o.withdrawn)
			silent(len(got) == 0, "%s got %d", id, len(got))
			continue
		}
		want[client.StateDelivered]++
		called(len(got) == 1, "%s got %d", id, len(got))
		for _, d := range got {
			content(d.body == compact(o.Job.Body) && d.webhookID == o.view.UID, "%s brought %s and %s", id, d.body, d.webhookID)
			punctual(d.at.Equal(o.view.DueAt), "%s came at %s", id, clockText(d.at.Sub(s.start)))
		}
	}
	return s.checkCounts(ctx, f.Orders[0].Job.Topic, want)
}

// paymentsFile is testdata/demo/payment-notify.json.
type paymentsFile struct {
	Payments []*payment `json:"payments"`
}

// payment is a payment of the story and what became of its notification.
type payment struct {
	Made client.Duration `json:"made"`
	// Answers are the merchant's first answers; then it takes the notification.
	Answers []answer `json:"answers"`
	// Replay: the job runs out of attempts and is replayed in the end.
	Replay bool                `json:"replay"`
	Job    client.Registration `json:"job"`

	view    client.RegisteredJob
	refused error
	logged  []client.Attempt  // one for each delivery
	dead    client.JobDetails // before the replay
}

// success is the answer of a merchant that took a notification.
var success = answer{http.StatusOK, "success"}

// steps is the job's ladder, or else the server's.
func (p *payment) steps() []time.Duration {
	if p.Job.Retry == nil || p.Job.Retry.Steps == nil {
		return config.Default().RetrySteps
	}
	own := make([]time.Duration, len(p.Job.Retry.Steps))
	for i, s := range p.Job.Retry.Steps {
		own[i] = time.Duration(s)
	}
	return own
}

// replayAfter is when the operator replays dead letters.
const replayAfter = 3 * time.Hour

// play plays the second story: merchants are notified of payments until they have understood.
func (f *paymentsFile) play(ctx context.Context, s *stage) error {
	s.title(`2. payment-notify: a merchant is notified of a payment until it answers "success"`, note)
	var actions []action
	byID := map[string]*payment{}
	for _, p := range f.Payments {
		byID[p.Job.ID] = p
		actions = append(actions, action{time.Duration(p.Made), func(ctx context.Context) error {
			s.tell("shop", plain, "%s is made; duehook will notify the merchant", p.Job.ID)
			p.view, p.refused = s.register(ctx, p.Job, append(p.Answers, success))
			return nil
		}})
		if !p.Replay {
			continue
		}
		actions = append(actions, action{replayAfter, func(ctx context.Context) (err error) {
			s.tell("operator", plain, "the merchant is well again; the dead letter %s is replayed", p.Job.ID)
			if p.dead, err = s.api.Job(ctx, p.Job.Topic, p.Job.ID); err == nil {
				_, err = s.api.ReplayJob(ctx, p.Job.Topic, p.Job.ID, nil)
			}
			return err
		}})
	}
	err := s.act(ctx, 2*replayAfter, actions, func(ctx context.Context, d *delivery) error { return f.tell(ctx, s, byID[d.id], d) })
	return errors.Join(err, f.check(ctx, s))
}

// tell shows a delivery and what duehook makes of its answer.
func (f *paymentsFile) tell(ctx context.Context, s *stage, p *payment, d *delivery) error {
	var last client.Attempt
	for a, err := range s.api.Attempts(ctx, p.Job.Topic, p.Job.ID) {
		if err != nil {
			return err
		}
		last = a
	}
	p.logged = append(p.logged, last)
	next, style := "no step is left: a dead letter", red
	switch {
	case d.answer == success:
		next, style = "delivered", green
	case !last.NextAt.IsZero():
		next = fmt.Sprintf("again in %s, at %s", job.FormatDuration(last.NextAt.Sub(d.at)), clockText(last.NextAt.Sub(s.start)))
		style = yellow
	}
	s.at(d.at.Sub(s.start), "duehook", style, "%s  attempt %d  merchant says %-22s  %s", d.id, d.attempt, d.answer, next)
	return nil
}

func (f *paymentsFile) check(ctx context.Context, s *stage) error {
	registered := s.expect("each payment's job was registered")
	content := s.expect("each attempt brought the body and the webhook-id of its job, the same every time")
	numbered := s.expect("attempts were numbered from 1, and from 1 again after the replay")
	logged := s.expect(`the log has each answer of the merchant; only "success" ended it`)
	dead := s.expect("the job that ran out of steps became a dead letter")
	replayed := s.expect("replayed, it was delivered")
	for _, p := range f.Payments {
		id, got := p.Job.ID, s.deliveries(p.Job.ID)
		registered(p.refused == nil, "%s was refused: %v", id, p.refused)
		logged(len(got) == len(p.Answers)+1, "%s: %d deliveries", id, len(got))
		for i, d := range got {
			number, l := i+1, p.logged[i]
			if p.Replay && i == len(p.Answers) {
				number = 1
			}
			content(d.body == compact(p.Job.Body) && d.webhookID == p.view.UID, "%s brought %s and %s", id, d.body, d.webhookID)
			numbered(d.attempt == number && l.Number == number, "%s: attempt %d came with %d and is logged with %d", id, number, d.attempt, l.Number)
			logged(l.Status == d.answer.Status && (l.Reason == job.ReasonDelivered) == (d.answer == success), "%s, attempt %d: %d %s", id, number, l.Status, l.Reason)
		}
		if p.Replay {
			limit := len(p.steps()) + 1
			dead(p.dead.State == client.StateDead && p.dead.Reason == job.ReasonRetryLimit && p.dead.Attempts == limit,
				"%s: %s, %q after %d attempts of %d", id, p.dead.State, p.dead.Reason, p.dead.Attempts, limit)
			replayed(len(got) > 0 && got[len(got)-1].answer == success, "%s: %d deliveries", id, len(got))
		}
		p.checkLadder(s, got)
	}
	return s.checkCounts(ctx, f.Payments[0].Job.Topic, map[client.State]int64{client.StateDelivered: int64(len(f.Payments))})
}

// checkLadder expects each attempt at the time of its step after the one before.
func (p *payment) checkLadder(s *stage, got []delivery) {
	failures := min(len(p.Answers), len(got), len(p.steps()))
	if failures == 0 {
		return
	}
	texts, at := make([]string, failures), p.view.DueAt
	for i := range texts {
		texts[i] = job.FormatDuration(p.steps()[i])
	}
	stepped := s.expect(fmt.Sprintf("%s climbed the ladder: %s, each attempt at its time", p.Job.ID, strings.Join(texts, " ")))
	for i, d := range got[:failures] {
		stepped(d.at.Equal(at) && d.due.Equal(at), "attempt %d came at %s, not %s", i+1, clockText(d.at.Sub(s.start)), clockText(at.Sub(s.start)))
		at = d.at.Add(p.steps()[i])
	}
}

// compact is a body as the client sends it.
func compact(body any) string {
	text, _ := json.Marshal(body) // it was read from JSON
	return string(text)
}
