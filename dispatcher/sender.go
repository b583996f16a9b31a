package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/store"
)

// Reasons of releases, beside those of package job.
const (
	reasonUnsigned = "signing_failed"
	reasonNoFiles  = "too_many_open_files" // of this process
	unsentPause    = 10 * time.Second
)

// Results of an attempt for the endpoint's circuit.
var (
	errEndpoint = errors.New("the endpoint failed")
	errExcluded = errors.New("the attempt is no evidence about the endpoint") // not counted
)

// sender makes the request of an attempt and judges the answer.
type sender struct {
	client  *retryablehttp.Client
	steady  func(endpoint string) bool // see connectAgain
	clock   job.Clock
	layer   Layer // nil: none
	timeout time.Duration
	// topicTimeout is the timeout that a topic's jobs get; zero: the server's.
	topicTimeout func(topic string) time.Duration
	agent        string
	node         string
	signer       Signer
	spans        *spans
	log          *slog.Logger
	bodies       sync.Pool // of *bytes.Buffer

	callbackLimit int // bytes of answers for callbacks
	contract      func(*job.Job) *contract.Dialect
	render        func(*job.Job) ([]byte, error) // nil: callbacks fail
}

func newSender(o Options, transport http.RoundTripper) *sender {
	s := &sender{
		steady: func(string) bool { return false },
		clock:  o.Clock, layer: o.Layer, timeout: o.Timeout, topicTimeout: o.TopicTimeout,
		agent: "duehook/" + o.Version, node: o.ID, signer: o.Signer, spans: newSpans(o.Tracer), log: o.Logger,
		bodies: sync.Pool{New: func() any { return new(bytes.Buffer) }},
		render: o.RenderCallback, callbackLimit: o.CallbackResponse, contract: o.contractOf,
	}
	to := sending{pooled: transport, fresh: transport, again: o.ConnectRetries > 0}
	if pooled, ok := transport.(*http.Transport); ok {
		to.fresh = unpooled(pooled)
	}
	if o.Layer != nil {
		to.pooled, to.fresh = layered{o.Layer, to.pooled}, layered{o.Layer, to.fresh}
	}
	s.client = s.newClient(to, o.ConnectRetries, o.Random)
	return s
}

// send makes one attempt. If ctx ends during it, the job is released and the attempt does
// not count. health is for the circuit: nil, errEndpoint or errExcluded.
func (s *sender) send(ctx context.Context, c *claim) (o job.Outcome, health error) {
	j, started := &c.Job, s.clock.Now()
	attempt := &job.Attempt{Number: j.Attempts + 1, StartedAt: c.instant(started), Version: j.Version, Node: s.node}
	span := s.spans.begin(ctx, j, attempt)
	c.traceID = span.traceID()
	defer func() { span.end(&o) }()
	j, err := s.rendered(c)
	if err != nil {
		s.log.Error("the body of a callback cannot be made", "topic", j.Topic, "id", j.ID, "error", err)
		attempt.Error = classBadRequest
		return job.Outcome{Kind: job.OutcomeFailed, Attempt: attempt}, errExcluded
	}
	timed, cancel := s.bound(ctx, c.endpoint, s.timeoutOf(j))
	defer cancel()
	tr := newTrace(s.clock, c.endpoint)
	stamp := s.stamp(attempt.StartedAt)
	req, err := s.newRequest(tr.attach(timed), j, attempt.Number, stamp)
	if err != nil { // registered under other rules
		attempt.Error = classBadRequest
		return job.Outcome{Kind: job.OutcomeFailed, Attempt: attempt}, errExcluded
	}
	span.inject(req.Header)
	if err := s.complete(timed, req.Header, j, attempt.Number, stamp); err != nil {
		s.log.Error("a request could not be signed", "topic", j.Topic, "id", j.ID, "error", err)
		return job.Outcome{Kind: job.OutcomeReleased, Reason: reasonUnsigned, After: unsentPause}, errExcluded
	}

	body := s.bodies.Get().(*bytes.Buffer)
	defer s.recycle(body)
	once(req.Request)
	tr.header, tr.body, req.Header = req.Header, j.Spec.Body, http.Header{}
	a, err := s.exchange(req, s.toRead(j), body)
	timings, reached := tr.end()
	if errors.Is(err, ErrBlocked) {
		return refused(attempt)
	}
	attempt.Duration, attempt.Timings = s.clock.Now().Sub(started), timings
	attempt.ConnectRetries, attempt.Resent = tr.retries()
	if err != nil {
		if ctx.Err() != nil {
			return aborted()
		}
		if noFiles(err, reached) {
			s.log.Error("an attempt got no connection: the process has too many open files", "topic", j.Topic, "id", j.ID)
			return job.Outcome{Kind: job.OutcomeReleased, Reason: reasonNoFiles, After: unsentPause}, errExcluded
		}
		attempt.Error = classify(timed, err, reached)
		return job.Outcome{Kind: job.OutcomeFailed, Attempt: attempt}, s.failure(timed, j)
	}
	attempt.Status, attempt.ResponseHeaders, attempt.ResponseBody = a.Status, headerExcerpt(a.Header), contract.Excerpt(a.Body)
	if own := s.contract(j).Judge; own != nil {
		if o = own(a.Status, a.Header, c.instant(s.clock.Now())); o.Kind != job.OutcomeDelivered {
			attempt.Error = contract.StatusClass(a.Status)
		}
	} else {
		o, attempt.Error = contract.Judge(a, j.Spec.ExpectBody, c.instant(s.clock.Now()))
	}
	health = healthOf(a.Status)
	if bodyLost := a.Lost != "" && attempt.Error == a.Lost; bodyLost {
		if ctx.Err() != nil {
			return aborted()
		}
		health = s.failure(timed, j)
	}
	o.Attempt, o.Response = attempt, s.response(j, &a)
	return o.Charged(j), health
}

// aborted returns the outcome of an attempt that the shutdown aborted.
func aborted() (job.Outcome, error) {
	return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonShutdown}, errExcluded
}

// refused returns the outcome of an attempt that the guard refused. Its log entry has no
// times: they would reveal something about our name servers.
func refused(attempt *job.Attempt) (job.Outcome, error) {
	attempt.Error = classBlocked
	return job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonBlocked, Attempt: attempt}, errExcluded
}

// healthOf returns what a status means for the endpoint's circuit. A 404, for example,
// shows that the receiver works.
func healthOf(status int) error {
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
		return errEndpoint
	}
	return nil
}

// minPatience is how long a receiver may take at least before a topic's timeout says something about
// its endpoint.
const minPatience = 5 * time.Second

// failure returns what a failure without a whole answer means for the endpoint's circuit: nothing if
// the deadline of the attempt passed, and the job gave the receiver less time than others give it.
// Otherwise the jobs of one topic could open the circuit of an endpoint that answers those of others.
func (s *sender) failure(timed context.Context, j *job.Job) error {
	usual := s.timeout
	if d := s.topicTimeout(j.Topic); d > 0 {
		usual = min(usual, max(d, minPatience))
	}
	if errors.Is(timed.Err(), context.DeadlineExceeded) && s.timeoutOf(j) < usual {
		return errExcluded
	}
	return errEndpoint
}

// bound limits an attempt to d.
func (s *sender) bound(ctx context.Context, endpoint string, d time.Duration) (context.Context, context.CancelFunc) {
	if s.layer != nil {
		return s.layer.Bound(ctx, endpoint, d)
	}
	return context.WithTimeout(ctx, d)
}

// stamp is the webhook-timestamp of an attempt.
func (s *sender) stamp(at job.Instant) job.Instant {
	if s.layer != nil {
		return s.layer.Stamp(at)
	}
	return at
}

func (s *sender) timeoutOf(j *job.Job) time.Duration {
	if j.Spec.Timeout > 0 {
		return j.Spec.Timeout
	}
	return s.timeout
}

// exchange sends the request and reads up to limit bytes of the answer into buf: little, and not
// for long, if limit is zero.
func (s *sender) exchange(req *retryablehttp.Request, limit int, buf *bytes.Buffer) (contract.Answer, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return contract.Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // closes the connection unless the body was read to its end
	a := contract.Answer{Status: resp.StatusCode, Header: resp.Header}
	if a.Status == http.StatusSwitchingProtocols {
		// Its body is the bare connection, without deadlines.
		return a, nil
	}
	if resp.Body == http.NoBody {
		return a, nil
	}
	if limit == 0 {
		limit = drainLimit
		enough := time.AfterFunc(drainTime, func() { _ = resp.Body.Close() }) //nolint:forbidigo // bounds a read from the network
		defer enough.Stop()
	}
	if _, err := buf.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1)); err != nil {
		a.Lost = classify(req.Context(), err, phaseAnswer)
	}
	a.Body, a.Cut = buf.Bytes(), buf.Len() > limit
	return a, nil
}

// recycle keeps a buffer for another answer unless it is large.
func (s *sender) recycle(buf *bytes.Buffer) {
	if buf.Cap() <= 4*drainLimit {
		buf.Reset()
		s.bodies.Put(buf)
	}
}

// Test makes one attempt of a job that is not stored, within limit. The guard, the signature
// and the bounds of attempts apply; the circuit of the endpoint does not, and does not
// change. The error wraps store.ErrUnavailable if no request was possible. c needs Job and
// Now.
func (d *Dispatcher) Test(ctx context.Context, c store.Claimed, limit time.Duration) (job.Attempt, error) {
	now := d.opts.Clock.Now()
	c.Job.Spec.Timeout = min(d.sender.timeoutOf(&c.Job), limit)
	o, _ := d.sender.send(ctx, newClaim(c, now, now))
	if o.Attempt == nil {
		return job.Attempt{}, fmt.Errorf("%w: no request was made: %s", store.ErrUnavailable, o.Reason)
	}
	return *o.Attempt, nil
}
