package simulation

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// receivers are the endpoints, with the mood that each is in.
type receivers struct {
	w     *world
	mu    sync.Mutex
	moods map[string]string // event by endpoint
	// always is what all receivers answer, if it is set.
	always *answer
	// kills is the job that crashes the process that sends it.
	kills job.Key
}

func newReceivers(w *world) *receivers { return &receivers{w: w, moods: map[string]string{}} }

func (s *receivers) set(endpoint, mood string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moods[endpoint] = mood
}

// answer is what a receiver does with a request.
type answer struct {
	takes  time.Duration
	status int
	header http.Header
	body   string
	err    error // instead of an answer
	hangs  bool
	// delivers, snoozes: what the answer means, by the contract.
	delivers, snoozes, ends bool
	odd                     bool          // the body is not what some jobs expect
	after                   time.Duration // what Retry-After asks for, if it counts
	at                      job.Instant   // what Duehook-At asks for
}

func good(r *rand.Rand) answer {
	return answer{takes: between(r, time.Millisecond, 50*time.Millisecond), status: 200, body: "success", delivers: true}
}

// meet is what becomes of a request to the endpoint.
func (s *receivers) meet(endpoint string, r *rand.Rand) answer {
	s.mu.Lock()
	mood := s.moods[endpoint]
	s.mu.Unlock()
	a := good(r)
	if s.always != nil {
		return *s.always
	}
	switch mood {
	case eventOutage:
		return answer{takes: a.takes, err: syscall.ECONNREFUSED}
	case eventSilent:
		return answer{hangs: true}
	case eventFails:
		return answer{takes: a.takes, status: 500}
	}
	if s.w.isCalm.Load() || r.IntN(100) >= s.w.bad {
		return a
	}
	return s.bad(r, a)
}

// bad is one of the ways in which a receiver does not simply take a job.
func (s *receivers) bad(r *rand.Rand, a answer) answer {
	seconds := 1 + r.IntN(60)
	wait := http.Header{"Retry-After": {strconv.Itoa(seconds)}}
	after := time.Duration(seconds) * time.Second
	switch r.IntN(12) {
	case 0, 1:
		return answer{takes: a.takes, status: oneOf(r, 500, 404, 302, 503)}
	case 2:
		return answer{takes: a.takes, status: oneOf(r, 429, 503), header: wait, after: after}
	case 3:
		return answer{takes: a.takes, status: 200, header: http.Header{"Retry-After": wait["Retry-After"], "Duehook-Action": {"snooze"}}, snoozes: true, after: after}
	case 4:
		return answer{takes: a.takes, status: 410, ends: true}
	case 5:
		return answer{takes: a.takes, status: 500, header: http.Header{"Webhook-Delivery": {"abort-message"}}, ends: true}
	case 6:
		return answer{hangs: true}
	case 7:
		return answer{takes: a.takes, err: syscall.ECONNREFUSED}
	case 8:
		return answer{takes: a.takes, err: io.EOF}
	case 9:
		a.takes = between(r, time.Second, 15*time.Second) // longer than most timeouts
		return a
	case 10:
		at := job.InstantOf(s.w.start.Add(s.w.now()).Add(time.Minute + after))
		header := http.Header{"Duehook-Action": {"reschedule"}, "Duehook-At": {at.RFC3339()}}
		return answer{takes: a.takes, status: oneOf(r, 200, 409), header: header, at: at}
	}
	a.body, a.odd = "what?", true
	return a
}

// request is one request, from the moment in which it is sent.
type request struct {
	life    *life
	key     job.Key
	uid     string
	attempt int
	due     string
	sent    time.Duration
	spread  time.Duration
	answer  answer
	// told: the process learned the outcome.
	told bool
}

// refused reports whether the process learned that the receiver took no connection.
func (q *request) refused() bool { return q.told && errors.Is(q.answer.err, syscall.ECONNREFUSED) }

// RoundTrip is the network and the receivers at its end.
func (l *life) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, w := r.Context(), l.n.w
	if l.alive.Err() != nil {
		return nil, errGone
	}
	q := &request{
		life: l, key: job.Key{Topic: r.Header.Get("Duehook-Topic"), ID: r.Header.Get("Duehook-Job-Id")},
		uid: r.Header.Get("Webhook-Id"), due: r.Header.Get("Duehook-Due-At"), sent: w.now(),
	}
	q.attempt, _ = strconv.Atoi(r.Header.Get("Duehook-Attempt"))
	dice := l.draw("request " + q.key.String())
	endpoint, err := job.Destination(r.URL.String()).Endpoint()
	if err != nil {
		return nil, err
	}
	q.answer = w.receivers.meet(endpoint, dice)
	if !w.direct {
		q.spread = between(dice, 0, 100*time.Microsecond)
	}
	w.history.request(q)
	if q.key == w.receivers.kills {
		l.crash()
		return nil, errGone
	}
	if !w.isCalm.Load() && dice.IntN(1000) < w.plan.crash {
		l.crashSoon(dice) // after the receiver got it
		return nil, errGone
	}
	return l.await(ctx, q)
}

// await waits for the answer.
func (l *life) await(ctx context.Context, q *request) (*http.Response, error) {
	a := &q.answer
	if a.hangs {
		a.takes = time.Hour
	}
	err := l.wait(ctx, a.takes)
	// Requests that began together have one deadline; their order is not to be
	// the scheduler's choice.
	l.n.w.sleep(q.spread)
	if t := l.n.inTrouble(); t.kind == eventStall {
		select {
		case <-t.ended:
		case <-l.alive.Done():
			err = errGone
		}
	}
	h := l.n.w.history
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil: // its deadline, or the process's end
		a.delivers, a.snoozes, a.ends, a.after, a.at = false, false, false, 0, 0
		q.told = ctx.Err() == context.DeadlineExceeded
		return nil, err
	case a.err != nil:
		q.told = true
		return nil, a.err
	}
	q.told = true
	header := a.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func (h *history) request(q *request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, q)
	h.line(q.life.name + " sends " + q.key.String() + " attempt " + strconv.Itoa(q.attempt))
}
