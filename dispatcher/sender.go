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

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Why jobs are given back, beside the reasons that package job names.
const (
	reasonUnsigned = "signing_failed"
	unsignedPause  = 10 * time.Second
)

// What an attempt reports to the endpoint's circuit.
var (
	errEndpoint = errors.New("the endpoint failed")
	errExcluded = errors.New("nothing was learned of the endpoint") // left out of the counts
)

// sender makes the request of an attempt and judges the answer.
type sender struct {
	client  *retryablehttp.Client
	steady  func(endpoint string) bool // see connectAgain
	replay  bool                       // see markReplayable
	clock   job.Clock
	timeout time.Duration
	agent   string
	signer  Signer
	spans   *spans
	log     *slog.Logger
	bodies  sync.Pool // of *bytes.Buffer
}

func newSender(o Options, transport http.RoundTripper) *sender {
	return &sender{
		client: newClient(transport, o.ConnectRetries, o.Random), steady: func(string) bool { return false },
		replay: o.ConnectRetries > 0, clock: o.Clock, timeout: o.Timeout,
		agent: "duehook/" + o.Version, signer: o.Signer, spans: newSpans(o.Tracer), log: o.Logger,
		bodies: sync.Pool{New: func() any { return new(bytes.Buffer) }},
	}
}

// send makes one attempt. When ctx ends during it, the job is released: the
// attempt does not count. health is for the circuit: nil, errEndpoint or
// errExcluded.
func (s *sender) send(ctx context.Context, c *claim) (o job.Outcome, health error) {
	j, started := &c.Job, s.clock.Now()
	attempt := &job.Attempt{Number: j.Attempts + 1, StartedAt: c.instant(started), Version: j.Version}
	span := s.spans.begin(ctx, j, attempt)
	defer func() { span.end(&o) }()
	timed, cancel := context.WithTimeout(ctx, s.timeoutOf(j))
	defer cancel()
	tr := newTrace(s.clock, func() bool { return s.steady(j.Lane().Endpoint) })
	req, err := s.newRequest(tr.attach(withDeadline(timed)), j, attempt.Number, attempt.StartedAt)
	if err != nil { // registered under other rules than ours
		attempt.Error = classBadRequest
		return job.Outcome{Kind: job.OutcomeFailed, Attempt: attempt}, errExcluded
	}
	span.inject(req.Header)
	if err := s.sign(timed, req.Header, j, attempt.StartedAt); err != nil {
		s.log.Error("a request could not be signed", "topic", j.Topic, "id", j.ID, "error", err)
		return job.Outcome{Kind: job.OutcomeReleased, Reason: reasonUnsigned, After: unsignedPause}, errExcluded
	}

	body := s.bodies.Get().(*bytes.Buffer)
	defer s.recycle(body)
	tr.header, req.Header = req.Header, http.Header{}
	a, err := s.exchange(req, j.Spec.ExpectBody != "", body)
	timings, reached := tr.end()
	if errors.Is(err, ErrBlocked) {
		return refused(attempt)
	}
	attempt.Duration, attempt.Timings, attempt.ConnectRetries = s.clock.Now().Sub(started), timings, tr.retries()
	if err != nil {
		if ctx.Err() != nil {
			return aborted()
		}
		attempt.Error = classify(timed, err, reached)
		return job.Outcome{Kind: job.OutcomeFailed, Attempt: attempt}, errEndpoint
	}
	attempt.Status, attempt.ResponseHeaders, attempt.ResponseBody = a.status, headerExcerpt(a.header), excerpt(a.body)
	o, attempt.Error = judge(a, j.Spec.ExpectBody, c.instant(s.clock.Now()))
	health = healthOf(a.status)
	if bodyLost := a.bodyErr != "" && attempt.Error == a.bodyErr; bodyLost {
		if ctx.Err() != nil {
			return aborted()
		}
		health = errEndpoint
	}
	o.Attempt = attempt
	return o.Charged(j), health
}

// aborted is the outcome of an attempt that we broke off.
func aborted() (job.Outcome, error) {
	return job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonShutdown}, errExcluded
}

// refused is the outcome of an attempt that the guard refused. Its log entry
// tells nothing else, and no times: they would tell of our name servers.
func refused(attempt *job.Attempt) (job.Outcome, error) {
	attempt.Error = classBlocked
	return job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonBlocked, Attempt: attempt}, errExcluded
}

// healthOf is what a status tells of the endpoint. Any that was thought about
// by the receiver, such as a 404, shows that it is alive.
func healthOf(status int) error {
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
		return errEndpoint
	}
	return nil
}

func (s *sender) timeoutOf(j *job.Job) time.Duration {
	if j.Spec.Timeout > 0 {
		return j.Spec.Timeout
	}
	return s.timeout
}

// exchange sends the request and reads as much of the answer as is needed: more
// if its body decides, and else not for long. The body is left in buf.
func (s *sender) exchange(req *retryablehttp.Request, bodyDecides bool, buf *bytes.Buffer) (answer, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // short of the body's end, this closes the connection
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.status == http.StatusSwitchingProtocols {
		// Its body would be the bare connection, on which no deadline works.
		return a, nil
	}
	if resp.Body == http.NoBody {
		return a, nil
	}
	limit := expectLimit
	if !bodyDecides {
		limit = drainLimit
		enough := time.AfterFunc(drainTime, func() { _ = resp.Body.Close() }) //nolint:forbidigo // bounds a read from the network
		defer enough.Stop()
	}
	if _, err := buf.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1)); err != nil {
		a.bodyErr = classify(req.Context(), err, phaseAnswer)
	}
	a.body, a.cut = buf.Bytes(), buf.Len() > limit
	return a, nil
}

// recycle keeps a buffer for the next answer unless it has grown large.
func (s *sender) recycle(buf *bytes.Buffer) {
	if buf.Cap() <= 4*drainLimit {
		buf.Reset()
		s.bodies.Put(buf)
	}
}

// Test makes one attempt at a job that is not stored. The guard, the signature and
// the bounds of any attempt apply, within limit. The endpoint's circuit is neither
// asked nor changed. The error wraps store.ErrUnavailable if no request could be
// made. c needs Job and Now.
func (d *Dispatcher) Test(ctx context.Context, c store.Claimed, limit time.Duration) (job.Attempt, error) {
	now := d.opts.Clock.Now()
	c.Job.Spec.Timeout = min(d.sender.timeoutOf(&c.Job), limit)
	o, _ := d.sender.send(ctx, &claim{Claimed: c, asked: now, got: now})
	if o.Attempt == nil {
		return job.Attempt{}, fmt.Errorf("%w: no request was made: %s", store.ErrUnavailable, o.Reason)
	}
	return *o.Attempt, nil
}
