package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/hostile"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/readylist"
)

func TestMain(m *testing.M) {
	hostile.Main()
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = testenv.Patience

var (
	errStore = errors.New("made to fail")
	errDown  = fmt.Errorf("%w: made to fail", store.ErrUnavailable)
)

// loopback opens the ranges in which test servers listen.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// exact is a policy without jitter.
func exact(steps ...time.Duration) retrypolicy.Policy {
	return retrypolicy.Policy{Steps: steps, Limit: len(steps)}
}

// node is what a dispatcher sees of a fakeStore, or of a store that embeds one: the jobs whose hints are on
// its ready list.
type node struct {
	fake
	takers []*readylist.Taker
}

type fake interface {
	Store
	readylist.Lists
}

func nodeOf(s fake) *node {
	n := &node{fake: s}
	for shard := range s.Shards() {
		n.takers = append(n.takers, readylist.New(s, shard, job.SystemClock(), slog.New(slog.DiscardHandler)))
	}
	return n
}

func (n *node) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	return n.takers[shard].Take(ctx, o)
}

// fakeStore holds jobs in a map and hints in a channel. Its hooks may fail
// calls, before or after they took effect. Claims and settlements are told to
// the test over channels.
type fakeStore struct {
	noRetries
	noMessages
	shards    int
	hints     chan store.Hint
	claims    chan claimCall
	settled   chan job.Settlement
	holds     chan holdCall
	popHook   func(ctx context.Context) error
	claimHook func(ctx context.Context, call int, hints []store.Hint) (before, after error)
	settle    func(ctx context.Context, call int, batch []job.Settlement) ([]store.Settled, error)
	holdHook  func(call int) error

	mu          sync.Mutex
	jobs        map[job.Key]*job.Job
	nonces      map[job.Key]string // of the current claims
	claimCalls  int
	settleCalls int
	holdCalls   int
}

type claimCall struct {
	hints []store.Hint
	o     store.ClaimOptions
}

type holdCall struct {
	endpoint string
	d        time.Duration // zero: half-open or closed
}

func newFakeStore() *fakeStore {
	return &fakeStore{
		shards:  1,
		hints:   make(chan store.Hint, 10_000),
		claims:  make(chan claimCall, 10_000),
		settled: make(chan job.Settlement, 10_000),
		holds:   make(chan holdCall, 100),
		jobs:    map[job.Key]*job.Job{},
		nonces:  map[job.Key]string{},
	}
}

// add makes a job ready.
func (s *fakeStore) add(j job.Job) {
	s.mu.Lock()
	s.jobs[j.Key] = &j
	s.mu.Unlock()
	s.hints <- store.Hint{Lane: j.Lane(), ID: j.ID}
}

func (s *fakeStore) Shards() int { return s.shards }

// Take is that of nodes.
func (*fakeStore) Take(context.Context, int, store.TakeOptions) (store.Taken, error) {
	panic("a dispatcher has a node")
}

func (*fakeStore) Carry(context.Context, int, store.CarryOptions) (store.CarryResult, error) {
	panic("there are no pull queues")
}

func (s *fakeStore) Return(_ context.Context, _ int, hints []store.Hint) error {
	for _, h := range hints {
		s.hints <- h
	}
	return nil
}

func (s *fakeStore) Pop(ctx context.Context, _, limit int, wait time.Duration) ([]store.Hint, error) {
	if s.popHook != nil {
		if err := s.popHook(ctx); err != nil {
			return nil, err
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var hints []store.Hint
	select {
	case h := <-s.hints:
		hints = append(hints, h)
	case <-timer.C: // at once if wait is zero: take what is there
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(hints) < limit {
		select {
		case h := <-s.hints:
			hints = append(hints, h)
		default:
			return hints, nil
		}
	}
	return hints, nil
}

func (s *fakeStore) Claim(ctx context.Context, _ int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims <- claimCall{hints: hints, o: o}
	s.claimCalls++
	var before, after error
	if s.claimHook != nil {
		before, after = s.claimHook(ctx, s.claimCalls, hints)
	}
	if before != nil {
		return nil, before
	}
	claimed := s.claimAll(hints, o.Nonce)
	if after != nil {
		return nil, after
	}
	return claimed, nil
}

func (s *fakeStore) claimAll(hints []store.Hint, nonce string) []store.Claimed {
	var claimed []store.Claimed
	for _, h := range hints {
		j := s.jobs[h.Key()]
		if j == nil || j.State == job.Running && s.nonces[j.Key] != nonce {
			continue
		}
		if j.State != job.Running {
			j.State = job.Running
			j.Token++
			s.nonces[j.Key] = nonce
		}
		claimed = append(claimed, store.Claimed{Job: *j, Now: job.InstantOf(time.Now()), From: job.Ready})
	}
	return claimed
}

func (s *fakeStore) Settle(ctx context.Context, batch []job.Settlement) ([]store.Settled, error) {
	s.mu.Lock()
	s.settleCalls++
	call := s.settleCalls
	s.mu.Unlock()
	if s.settle != nil {
		return s.settle(ctx, call, batch)
	}
	return s.apply(batch), nil
}

func (s *fakeStore) apply(batch []job.Settlement) []store.Settled {
	results := make([]store.Settled, len(batch))
	for i, st := range batch {
		s.settled <- st
		results[i] = store.Settled{Status: store.Applied, To: st.To, Reason: st.Reason}
	}
	return results
}

func (s *fakeStore) SetCircuit(_ context.Context, endpoint string, _ store.CircuitState, d time.Duration) error {
	return s.hold(holdCall{endpoint, d})
}

func (s *fakeStore) hold(c holdCall) error {
	s.mu.Lock()
	s.holdCalls++
	call := s.holdCalls
	s.mu.Unlock()
	if s.holdHook != nil {
		if err := s.holdHook(call); err != nil {
			return err
		}
	}
	s.holds <- c
	return nil
}

// next gives the next value told over ch.
func next[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

// newJob is a job due now, unlike any other.
func newJob(id, url string) job.Job {
	now := job.InstantOf(time.Now())
	return job.Job{
		Key: job.Key{Topic: "orders", ID: id}, UID: "uid-" + id,
		Spec:  job.Spec{Destination: job.Destination(url), ContentType: "application/json", Body: []byte(`{"order":1}`)},
		State: job.Ready, DueAt: now, NextAt: now, CreatedAt: now,
	}
}

// running is a dispatcher at work.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
}

// launch runs a dispatcher until the test ends or stop is called.
func launch(t *testing.T, d *Dispatcher) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- d.Run(ctx) }()
	t.Cleanup(r.stop)
	return r
}

// stop tells the dispatcher to stop and waits until it has.
func (r *running) stop() {
	r.t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	if err := next(r.t, r.done, "end of Run"); err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

// withTransport makes a dispatcher that sends through transport.
func withTransport(t *testing.T, o Options, transport http.RoundTripper) *Dispatcher {
	t.Helper()
	if s, ok := o.Store.(fake); ok {
		o.Store = nodeOf(s)
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	d, err := newDispatcher(o.withDefaults(), transport)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// roundTripper is a receiver without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// status answers with a status and nothing else.
func status(code int) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}
}
