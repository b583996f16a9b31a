package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/receiver"
)

// maxListenAnswer is how much of an answer is read.
const maxListenAnswer = 4 << 10

// listener passes pulled jobs on to a receiver.
type listener struct {
	a      *app
	to     job.Destination
	http   *http.Client
	signer *receiver.Receiver // nil: requests are not signed

	mu        sync.Mutex
	forwarded map[string]forwarding // by receipt, until they are answered for
	last      *client.LeasedJob
}

// forwarding is a request of the receiver, and what its answer means.
type forwarding struct {
	status  int
	lasted  time.Duration
	outcome job.Outcome
	reason  string // why it failed; empty: it did not
	delay   *client.Duration
}

func (a *app) listen() *cobra.Command {
	var topics, secrets []string
	var o client.ConsumeOptions
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "listen URL", Short: "Pass the jobs of pull queues on to a local receiver", Args: cobra.ExactArgs(1),
		Long: `Pass the jobs of pull queues on to a receiver that the server cannot call, such as one on this machine.
The requests have the headers of deliveries. With --secret or DUEHOOK_SECRET, they are signed. The answers
mean what they mean for deliveries. Enter r to send the last request again; the job does not change.`,
		Example: `  duehook listen http://127.0.0.1:3000/hook --topic orders --topic invoices`,
	}
	cmd.RunE = a.connected(func(ctx context.Context, args []string) error {
		to := job.Destination(args[0])
		if err := to.Check(); err != nil {
			return usagef("the URL %q %v", args[0], err)
		}
		l, err := a.newListener(to, secrets, timeout)
		if err != nil {
			return err
		}
		if err := a.client.Ready(ctx); err != nil {
			return err
		}
		a.hint("waiting for jobs of %s; r and Enter sends the last request again\n", strings.Join(topics, ", "))
		o.Also, o.Answered, o.Failed = topics[1:], l.answered, func(err error) { a.warn("%v; trying again", err) }
		go l.readKeys(ctx) // ends with the process: nothing ends a read of standard input
		return a.client.Consume(ctx, topics[0], l.handle, o)
	})
	f := cmd.Flags()
	f.StringSliceVar(&topics, "topic", []string{"default"}, "topic to consume; repeatable")
	f.StringArrayVar(&secrets, "secret", nil, "signing secret, whsec_…; repeatable")
	o.Concurrency = 1
	numberFlag(cmd, &o.Concurrency, "concurrency", 1, "most requests at the same time")
	f.DurationVar(&o.Lease, "lease", 30*time.Second, "how soon others get the jobs if this command dies")
	f.DurationVar(&o.Grace, "grace", 30*time.Second, "how long requests may go on when the command is interrupted")
	f.DurationVar(&timeout, "timeout", 30*time.Second, "of one request")
	return cmd
}

func (a *app) newListener(to job.Destination, secrets []string, timeout time.Duration) (*listener, error) {
	l := &listener{a: a, to: to, forwarded: map[string]forwarding{}}
	if len(secrets) == 0 && a.environ["DUEHOOK_SECRET"] != "" {
		secrets = []string{a.environ["DUEHOOK_SECRET"]}
	}
	if len(secrets) > 0 {
		var err error
		if l.signer, err = receiver.New(receiver.Options{Secrets: secrets}); err != nil {
			return nil, usagef("%v", err)
		}
	}
	l.http = &http.Client{
		Timeout: timeout,
		// As deliveries. A request on a new connection is never sent twice.
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: -1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return l, nil
}

// warn prints what a person should notice, also with --json.
func (a *app) warn(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Err, "duehook: "+format+"\n", args...)
}

// handle passes a job on.
func (l *listener) handle(ctx context.Context, j *client.LeasedJob) error {
	f := l.forward(ctx, j)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	l.forwarded[j.Receipt], l.last = f, j
	l.mu.Unlock()
	switch f.outcome.Kind {
	case job.OutcomeDelivered:
		if f.outcome.After > 0 {
			l.a.warn("%s/%s: the receiver asks for the job again, which is not possible for pulled jobs", j.Job.Topic, j.Job.ID)
		}
		return nil
	case job.OutcomeRefused:
		return &client.NackError{Err: errors.New(f.reason), Dead: true}
	}
	return &client.NackError{Err: errors.New(f.reason), Delay: f.delay}
}

// forward sends the request of a job to the receiver, as a delivery, and judges its answer.
func (l *listener) forward(ctx context.Context, pulled *client.LeasedJob) forwarding {
	began := l.a.Clock.Now()
	a, err := l.exchange(ctx, pulled, job.InstantOf(began))
	now := l.a.Clock.Now()
	f := forwarding{status: a.Status, lasted: now.Sub(began)}
	if err != nil {
		f.outcome, f.reason = job.Outcome{Kind: job.OutcomeFailed}, err.Error()
		return f
	}
	f.outcome, f.reason = contract.Judge(a, "", job.InstantOf(now))
	switch o := &f.outcome; {
	case o.Kind == job.OutcomeSnoozed:
		f.reason = "snoozed"
		f.delay = new(client.Duration(o.After))
	case o.Kind == job.OutcomeRescheduled:
		f.reason = "rescheduled"
		f.delay = new(client.Duration(o.At.Sub(job.InstantOf(now))))
	case o.After > 0:
		f.delay = new(client.Duration(o.After))
	}
	if text := contract.Excerpt(bytes.TrimSpace(a.Body)); f.reason != "" && text != "" {
		f.reason += ": " + text
	}
	return f
}

// exchange makes the request.
func (l *listener) exchange(ctx context.Context, pulled *client.LeasedJob, now job.Instant) (contract.Answer, error) {
	j := asDelivered(pulled)
	req, err := http.NewRequestWithContext(ctx, j.Spec.HTTPMethod(), l.to.Sent(), bytes.NewReader(j.Spec.Body))
	if err != nil {
		return contract.Answer{}, err
	}
	req.Header = contract.RequestHeader(j, pulled.Attempt, now, "duehook/"+l.a.Version)
	if l.signer != nil {
		signature, err := l.signer.Sign(j.MessageID(), now.Time(), j.Spec.Body)
		if err != nil {
			return contract.Answer{}, err
		}
		ofTopic, err := l.signer.Sign(contract.SignedTopic(j.Topic, j.MessageID()), now.Time(), nil)
		if err != nil {
			return contract.Answer{}, err
		}
		req.Header.Set(contract.HeaderSignature, signature)
		req.Header.Set(contract.HeaderTopicSignature, ofTopic)
	}
	resp, err := l.http.Do(req)
	if err != nil {
		if e := new(url.Error); errors.As(err, &e) {
			err = e.Err // without the address, which each line would repeat
		}
		return contract.Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxListenAnswer)) // the status decides
	return contract.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// asDelivered is a pulled job with what its request shows.
func asDelivered(l *client.LeasedJob) *job.Job {
	instant := func(t time.Time) job.Instant {
		if t.IsZero() {
			return 0
		}
		return job.InstantOf(t)
	}
	j := &job.Job{
		Key: job.Key{Topic: l.Job.Topic, ID: l.Job.ID}, UID: l.Job.UID,
		DueAt: instant(l.Job.DueAt), NextAt: instant(l.Job.NextAt),
		Spec: job.Spec{Body: l.Content()},
	}
	for name, value := range l.Headers {
		j.Spec.Headers = append(j.Spec.Headers, job.Header{Name: name, Value: value})
	}
	if l.Job.Group != "" {
		j.Spec.Group = &job.Membership{Group: l.Job.Group}
	}
	if o := l.Job.Occurrence; o != nil {
		j.Spec.Occurrence = &job.Occurrence{Schedule: l.Job.Schedule, Time: job.InstantOf(o.Time)}
	}
	if c := l.Job.Count; c != nil {
		j.Spec.Count, j.Counted = &job.Count{}, c.Count
	}
	return j
}

// answered shows an attempt when the server knows its result.
func (l *listener) answered(j *client.LeasedJob, err error) {
	l.mu.Lock()
	f := l.forwarded[j.Receipt]
	delete(l.forwarded, j.Receipt)
	l.mu.Unlock()
	switch {
	case errors.Is(err, client.ErrLeaseLost):
		l.a.warn("LEASE LOST: %s/%s, attempt %d. Another consumer may have the job; the answer of the receiver does not count", j.Job.Topic, j.Job.ID, j.Attempt)
		l.show(j, &f, "lost")
	case err == nil:
		l.show(j, &f, "delivered")
	case f.outcome.Kind == job.OutcomeRefused:
		l.show(j, &f, "dead")
	case errors.Is(err, client.ErrStopped):
		f.reason = client.ErrStopped.Error()
		l.show(j, &f, "stopped")
	default:
		l.show(j, &f, "failed")
	}
}

// attemptLine is an attempt as --json shows it.
type attemptLine struct {
	At         time.Time `json:"at"`
	Topic      string    `json:"topic"`
	ID         string    `json:"id"`
	Attempt    int       `json:"attempt"`
	Status     *int      `json:"status"`
	DurationMS int64     `json:"duration_ms"`
	Result     string    `json:"result"` // delivered, failed, dead, stopped, lost, or replayed
	Error      *string   `json:"error"`
	Delay      *string   `json:"delay"` // until the next attempt, if the receiver named it
}

// show prints an attempt in one line.
func (l *listener) show(j *client.LeasedJob, f *forwarding, result string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.a.Clock.Now()
	if l.a.json {
		line := attemptLine{At: now.UTC(), Topic: j.Job.Topic, ID: j.Job.ID, Attempt: j.Attempt, DurationMS: f.lasted.Milliseconds(), Result: result}
		if f.status != 0 {
			line.Status = &f.status
		}
		if f.reason != "" {
			line.Error = &f.reason
		}
		if f.delay != nil {
			line.Delay = new(job.FormatDuration(time.Duration(*f.delay)))
		}
		data, err := json.Marshal(line)
		if err == nil {
			err = l.a.object(data)
		}
		if err != nil {
			l.a.warn("%v", err)
		}
		return
	}
	answer := "no answer"
	if f.status != 0 {
		answer = fmt.Sprint(f.status)
	}
	if f.status != 0 || f.lasted > 0 { // not if the lease was lost before
		answer += fmt.Sprintf(" in %v", f.lasted.Round(time.Millisecond))
	}
	reason := strings.Join(strings.Fields(f.reason), " ") // in one line
	if f.delay != nil {
		reason += ", again in " + job.FormatDuration(time.Duration(*f.delay))
	}
	l.a.printf("%s\n", strings.TrimSpace(fmt.Sprintf("%s  %-9s %s/%s  attempt %d  %s  %s",
		now.Local().Format(time.TimeOnly), result, j.Job.Topic, j.Job.ID, j.Attempt, answer, reason)))
}

// readKeys replays the last request when r is entered.
func (l *listener) readKeys(ctx context.Context) {
	lines := bufio.NewScanner(l.a.In)
	for lines.Scan() && ctx.Err() == nil {
		if strings.TrimSpace(lines.Text()) == "r" {
			l.replay(ctx)
		}
	}
}

// replay sends the last request again. The job is not answered for.
func (l *listener) replay(ctx context.Context) {
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last == nil {
		l.a.warn("there is no request to send again yet")
		return
	}
	f := l.forward(ctx, last)
	l.show(last, &f, "replayed")
}
