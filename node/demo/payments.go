package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node/config"
)

// success is the answer of a merchant that took a notification.
var success = answer{http.StatusOK, "success"}

// payment is a payment of the story and what became of its notification.
type payment struct {
	definition
	made    time.Duration
	answers []answer // of the merchant, before it takes the notification
	replay  bool
	steps   []time.Duration // the ladder that the job climbs

	asked  atomic.Int64 // how often the merchant was asked
	view   jobView      // as registered
	status int
	tries  []try
	dead   jobView // before the replay
	last   jobView // in the end

	replayStatus int
}

// try is an attempt as both sides saw it.
type try struct {
	delivery
	logged attemptView
	// seen is a time of the story at which the attempt had been written down.
	seen time.Time
}

// tellPayments plays the second story: merchants are told of payments until
// they have understood.
func tellPayments(ctx context.Context, w *show) (err error) {
	file, err := readDefinitions[paymentsFile](w.Jobs, "payment-notify.json")
	if err != nil {
		return err
	}
	w.title(`2. payment-notify: a merchant is notified of a payment until it answers "success"`, clockNote(file.Speed))
	if len(file.Payments) == 0 {
		return errors.New("demo: there are no payments")
	}
	ladder := config.Default().RetrySteps
	var payments []*payment
	byID := map[string]*payment{}
	for i := range file.Payments {
		of := &file.Payments[i]
		p := &payment{
			definition: of.Job, made: time.Duration(of.Made), answers: of.Answers, replay: of.Replay,
			steps: of.Job.steps(ladder),
		}
		payments, byID[p.ID] = append(payments, p), p
	}
	s, err := openStage(ctx, w, "payment-notify", file.Speed, func(_ *stage, d delivery) answer { return byID[d.jobID].answer() })
	if err != nil {
		return err
	}
	defer s.finish(&err)
	if err := s.playPayments(ctx, payments, byID); err != nil {
		return err
	}
	return s.checkPayments(ctx, payments)
}

// answer is the merchant's side: it answers as the script says, and then
// takes the notification. An unknown job is none of its business.
func (p *payment) answer() answer {
	if p == nil {
		return answer{http.StatusNotFound, "no such payment"}
	}
	if n := int(p.asked.Add(1)); n <= len(p.answers) {
		return p.answers[n-1]
	}
	return success
}

// playPayments makes the payments, follows their notifications until each is
// taken or dead, and then replays the dead.
func (s *stage) playPayments(ctx context.Context, payments []*payment, byID map[string]*payment) error {
	var actions []action
	expected, replays := 0, 0
	for _, p := range payments {
		actions = append(actions, action{p.made, func(ctx context.Context) error { return s.makePayment(ctx, p) }})
		expected += len(p.answers)
		if p.replay {
			replays++
		} else {
			expected++
		}
	}
	group, playCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.play(playCtx, actions) })
	group.Go(func() error { return s.follow(playCtx, byID, expected) })
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range payments {
		if p.replay {
			if err := s.replayPayment(ctx, p); err != nil {
				return err
			}
		}
	}
	if err := s.follow(ctx, byID, replays); err != nil {
		return err
	}
	for _, p := range payments {
		var err error
		if p.last, err = s.jobInState(ctx, &p.definition, job.Delivered); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) makePayment(ctx context.Context, p *payment) (err error) {
	s.tell("shop", plain, "%s is made; duehook will notify the merchant", p.ID)
	p.view, p.status, err = s.api.register(ctx, p.request(s.receiver.url))
	return err
}

func (s *stage) replayPayment(ctx context.Context, p *payment) (err error) {
	if p.dead, err = s.jobInState(ctx, &p.definition, job.Dead); err != nil {
		return err
	}
	s.tell("operator", plain, "the merchant is well again; the dead letter %s is replayed", p.ID)
	_, p.replayStatus, err = s.api.replay(ctx, p.Topic, p.ID)
	return err
}

// follow reports n attempts as they arrive.
func (s *stage) follow(ctx context.Context, byID map[string]*payment, n int) error {
	for range n {
		var t try
		select {
		case t.delivery = <-s.receiver.arrivals:
		case <-ctx.Done():
			return errors.New("demo: the notifications did not arrive in time")
		}
		p := byID[t.jobID]
		if p == nil {
			return fmt.Errorf("demo: a notification came for %q, which nobody registered", t.jobID)
		}
		var err error
		if t.logged, t.seen, err = s.loggedAttempt(ctx, &p.definition, len(p.tries)+1); err != nil {
			return err
		}
		p.tries = append(p.tries, t)
		s.tellTry(p, &t)
	}
	return nil
}

func (s *stage) tellTry(p *payment, t *try) {
	var next string
	style := yellow
	switch {
	case t.answer == success:
		next, style = "delivered", green
	case t.logged.NextAt.IsZero():
		next, style = "no step is left: a dead letter", red
	default:
		// Measured from the answer, a wait holds the time of writing it down;
		// that it is its step, checkLadder finds out.
		wait := t.logged.NextAt.Sub(t.answered)
		if n := t.logged.Number; n <= len(p.steps) {
			wait = p.steps[n-1]
		}
		next = fmt.Sprintf("again in %s, at %s", job.FormatDuration(wait), clockText(s.since(t.logged.NextAt)))
	}
	s.at(s.since(t.arrived), "duehook", style, "%s  attempt %d  merchant says %-22s  %s", p.ID, t.attempt, t.answer, next)
}

func (s *stage) checkPayments(ctx context.Context, payments []*payment) error {
	s.checkAttempts(payments)
	s.checkPunctual(payments)
	for _, p := range payments {
		s.checkLadder(p)
	}
	s.checkDeadLetters(payments)
	return s.checkCounts(ctx, payments[0].Topic, map[string]int{job.Delivered.String(): len(payments)})
}

// checkAttempts compares what the merchants got with the attempt log.
func (s *stage) checkAttempts(payments []*payment) {
	registered := s.expect("each payment's job was registered")
	content := s.expect("each attempt brought the body and the webhook-id of its job, the same every time")
	numbered := s.expect("attempts were numbered from 1, and from 1 again after the replay")
	logged := s.expect(`the log has each answer of the merchant; only "success" ended it`)
	for _, p := range payments {
		registered(p.status == http.StatusCreated, "%s was answered %d", p.ID, p.status)
		for i, t := range p.tries {
			number := i + 1
			if p.replay && i >= len(p.answers) {
				number -= len(p.answers)
			}
			content(string(t.body) == string(p.Body), "%s brought %s", p.ID, t.body)
			content(t.webhookID == p.view.UID, "%s has uid %s and brought %s", p.ID, p.view.UID, t.webhookID)
			numbered(t.attempt == number && t.logged.Number == number, "%s: attempt %d came with number %d and is logged with %d",
				p.ID, number, t.attempt, t.logged.Number)
			logged(t.logged.Status == t.answer.Status, "%s, attempt %d: %d, not %d", p.ID, number, t.logged.Status, t.answer.Status)
			logged((t.logged.Reason == job.ReasonDelivered) == (t.answer == success), "%s, attempt %d: %s after %s",
				p.ID, number, t.logged.Reason, t.answer)
		}
	}
}

// checkPunctual expects no attempt before the time that the one before it, or
// the registration, set for it. The replay's time is nobody's promise.
func (s *stage) checkPunctual(payments []*payment) {
	punctual := s.expect("no attempt came before its time")
	for _, p := range payments {
		due := p.view.DueAt
		for i, t := range p.tries {
			if p.replay && i == len(p.answers) {
				break
			}
			punctual(!before(t.arrived, due), "%s, attempt %d came at %s, due %s",
				p.ID, i+1, clockText(s.since(t.arrived)), clockText(s.since(due)))
			punctual(t.dueAt.Equal(due), "%s, attempt %d brought %s as its due time, not %s", p.ID, i+1, t.dueAt, due)
			due = t.logged.NextAt
		}
	}
}

func (s *stage) checkDeadLetters(payments []*payment) {
	dead := s.expect("the job that ran out of steps became a dead letter")
	replayed := s.expect("replayed, it was delivered")
	for _, p := range payments {
		if !p.replay {
			continue
		}
		dead(p.dead.Reason == job.ReasonRetryLimit && p.dead.Attempts == len(p.steps)+1 && p.dead.MaxAttempts == p.dead.Attempts,
			"%s: reason %q after %d of %d attempts", p.ID, p.dead.Reason, p.dead.Attempts, p.dead.MaxAttempts)
		replayed(p.replayStatus == http.StatusOK && p.last.Attempts == 1, "%s was answered %d; it took %d attempts",
			p.ID, p.replayStatus, p.last.Attempts)
	}
}

// checkLadder expects each wait to be its step of the ladder, counted from the
// failure. The failure was written down between the merchant's answer and the
// time at which the API showed it.
func (s *stage) checkLadder(p *payment) {
	failures := min(len(p.answers), len(p.tries), len(p.steps))
	if failures == 0 {
		return
	}
	climbed := make([]string, failures)
	for i := range climbed {
		climbed[i] = job.FormatDuration(p.steps[i])
	}
	stepped := s.expect(fmt.Sprintf("%s climbed the ladder: %s, each counted from the failure", p.ID, strings.Join(climbed, " ")))
	for i, t := range p.tries[:failures] {
		stepped(within(t.logged.NextAt, t.answered, t.seen, p.steps[i]), "after attempt %d it was to wait %s, from between %s and %s, but is due at %s",
			i+1, job.FormatDuration(p.steps[i]), clockText(s.since(t.answered)), clockText(s.since(t.seen)), clockText(s.since(t.logged.NextAt)))
		if i > 0 {
			stepped(t.arrived.After(p.tries[i-1].answered), "attempt %d came before the answer to the one before it", i+1)
		}
	}
}
