package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrLeaseLost is the cause with which the context of a Handler ends if another consumer may have
// the job: its lease ended, or the server lost it in a restart. What the handler returns then
// changes nothing.
var ErrLeaseLost = errors.New("the lease of the job is lost")

// ErrStopped is the cause with which the context of a Handler ends if Consume has waited for it as
// long as ConsumeOptions.Grace permits.
var ErrStopped = errors.New("the consumer stops")

// errExited is the error of a handler that called runtime.Goexit, as t.FailNow does.
var errExited = errors.New("the handler ended without a result")

// PanicError is the error of a Handler that panicked, and of Consume if another function of its caller did.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// NackError is an error with which a Handler chooses what follows.
type NackError struct {
	Err   error     // for the log of attempts; may be nil
	Delay *Duration // until the next attempt, see Nack; nil: the next step of the ladder
	Dead  bool      // no attempt can succeed: the job becomes a dead letter
}

func (e *NackError) Error() string {
	switch {
	case e != nil && e.Err != nil:
		return e.Err.Error()
	case e != nil && e.Dead:
		return "the handler gave the job up"
	}
	return "the handler did not do the job"
}

func (e *NackError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Handler does a job. Without an error the job is delivered; otherwise the attempt failed, and a
// *NackError chooses what follows. A panic is a failed attempt, too. The context ends when the
// handler may no longer work: see ErrLeaseLost and ErrStopped, which context.Cause returns.
type Handler func(ctx context.Context, j *LeasedJob) error

// ConsumeOptions are the terms of Consume.
type ConsumeOptions struct {
	// Also are more topics to consume, up to 31.
	Also []string
	// Concurrency is how many jobs run at the same time, up to 1,000; 1 if zero.
	Concurrency int
	// Lease is how soon other consumers get the jobs of a consumer that died: 1 s to 12 h; 30 s if
	// zero. The leases of running jobs are extended, so a handler may take longer.
	Lease time.Duration
	// Grace is how long running jobs may go on when ctx has ended; 30 s if zero.
	Grace time.Duration
	// Answered is called after each job, for one job at a time. The error is nil if the job is delivered,
	// wraps ErrLeaseLost if the server did not accept the answer, and otherwise is the handler's.
	Answered func(j *LeasedJob, err error)
	// Failed is called when a call of the server failed and will be repeated.
	Failed func(err error)
}

// The caller's functions run under a guard. If Answered or Failed panics, Consume stops as at the end of ctx, and
// returns a *PanicError.

const (
	maxConcurrency = 1_000
	maxBatch       = 100 // jobs of a call
	// pullWait is short because a call for jobs is never cancelled: the server may have leased some.
	pullWait = 3 * time.Second
	// pullAnswer is how long the server may take for the answer after that.
	pullAnswer   = 30 * time.Second
	defaultLease = 30 * time.Second
	defaultGrace = 30 * time.Second
	// lastAnswers is how long answers are repeated after the grace.
	lastAnswers = 5 * time.Second
	// maxNackText bounds what is sent of an error. The log of attempts keeps no more.
	maxNackText = 1 << 10
)

// reconnecting are the pauses between calls while the server is away, unless it asks for a longer one.
var reconnecting = Retrying{Pause: 200 * time.Millisecond, Longest: 10 * time.Second}

// Consume leases the jobs of a topic's pull queue and has handle do them, until ctx ends or the
// server refuses to serve the caller. It leases no more jobs than can run at once, extends the
// leases of running jobs, and continues when the server is back after an outage. An answer that is not from
// duehook, such as a proxy's 404, 413, 429 or 502, counts as an outage.
//
// When ctx ends, running jobs are finished and answered for. So is a call for jobs, which may take three seconds. A
// job that was leased and has not begun, or that ErrStopped has interrupted, is due again at once; only an interrupted attempt
// counts. Consume returns when all handlers have returned: nil, the refusal, or a *PanicError.
func (c *Client) Consume(ctx context.Context, topic string, handle Handler, o ConsumeOptions) error {
	k, err := newConsumer(c, topic, handle, o)
	if err != nil {
		return err
	}
	pulling, stop := context.WithCancel(ctx)
	defer stop()
	k.stop = stop
	var endWork context.CancelCauseFunc
	var endAnswers context.CancelFunc
	k.work, endWork = context.WithCancelCause(context.WithoutCancel(ctx))
	defer endWork(nil)
	k.answering, endAnswers = context.WithCancel(context.WithoutCancel(ctx))
	defer endAnswers()

	done := make(chan struct{})
	var beside, answering sync.WaitGroup
	start(&beside, func() { k.extendLeases(done) })
	start(&beside, func() {
		if passed(done, pulling.Done()) && passed(done, time.After(k.Grace)) {
			endWork(ErrStopped)
			if passed(done, time.After(lastAnswers)) {
				endAnswers()
			}
		}
	})
	start(&answering, k.answer)
	err = k.pull(pulling)
	stop()
	k.running.Wait()
	close(k.handled)
	answering.Wait()
	close(done)
	beside.Wait()
	if broken := k.broken.Load(); broken != nil && err == nil {
		return *broken
	}
	return err
}

// start is WaitGroup.Go of Go 1.25.
func start(group *sync.WaitGroup, f func()) {
	group.Add(1)
	go func() {
		defer group.Done()
		f()
	}()
}

// guard runs a function of the caller. Its error is a *PanicError, or errExited.
func guard(f func()) error {
	err, done := errExited, make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
		f()
		err = nil
	}()
	<-done
	return err
}

// report calls Answered or Failed. If it panics, Consume stops.
func (k *consumer) report(f func()) {
	if err := guard(f); err != nil && k.broken.CompareAndSwap(nil, &err) {
		k.stop()
	}
}

func (k *consumer) failed(err error) { k.report(func() { k.Failed(err) }) }

// passed waits for an event. It returns false if done is closed first.
func passed[T any](done <-chan struct{}, event <-chan T) bool {
	select {
	case <-done:
		return false
	case <-event:
		return true
	}
}

// consumer is one call of Consume.
type consumer struct {
	ConsumeOptions
	c      *Client
	once   *Client // as c, but it repeats no call
	topics []string
	handle Handler

	work      context.Context       // of handlers
	answering context.Context       // of calls that answer for jobs
	running   sync.WaitGroup        // handlers
	places    chan struct{}         // one for each job that may run
	handled   chan *lease           // jobs to answer for
	stop      func()                // ends pulling
	broken    atomic.Pointer[error] // of a function of the caller

	mu     sync.Mutex
	leases map[*lease]struct{} // those without an answer
}

// lease is a leased job.
type lease struct {
	job     *LeasedJob
	err     error                   // of the handler
	nack    Nack                    // the answer if there is an error
	stopped bool                    // the handler was stopped
	cancel  context.CancelCauseFunc // ends the context of the handler
	expiry  *time.Timer             // loses the lease
	lost    atomic.Bool
}

func (l *lease) lose() {
	l.lost.Store(true)
	l.cancel(ErrLeaseLost)
}

func newConsumer(c *Client, topic string, handle Handler, o ConsumeOptions) (*consumer, error) {
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Answered == nil {
		o.Answered = func(*LeasedJob, error) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	switch {
	case topic == "" || handle == nil:
		return nil, errors.New("consume: a topic and a handler are required")
	case o.Concurrency < 0 || o.Concurrency > maxConcurrency:
		return nil, fmt.Errorf("consume: a concurrency of %d is not possible; it must be from 1 to %d", o.Concurrency, maxConcurrency)
	case o.Lease < time.Second:
		return nil, fmt.Errorf("consume: a lease of %v is too short; it must be at least 1s", o.Lease)
	}
	once := *c
	once.retry.Attempts = 1
	k := &consumer{
		ConsumeOptions: o, c: c, once: &once, topics: append([]string{topic}, o.Also...), handle: handle,
		places: make(chan struct{}, o.Concurrency), handled: make(chan *lease, o.Concurrency), leases: map[*lease]struct{}{},
	}
	for range o.Concurrency {
		k.places <- struct{}{}
	}
	return k, nil
}

// pull leases jobs and begins them, until ctx ends or the server refuses.
func (k *consumer) pull(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; {
		free := k.take(ctx)
		if free == 0 {
			break
		}
		jobs, err := k.lease(free)
		jobs = jobs[:min(len(jobs), free)]
		for range free - len(jobs) {
			k.places <- struct{}{}
		}
		for i := range jobs {
			k.begin(&jobs[i], ctx.Err() == nil)
		}
		switch {
		case err == nil:
			failures = 0
		case refused(err):
			return err
		case ctx.Err() == nil:
			failures++
			k.failed(err)
			reconnecting.wait(ctx, failures, err)
		}
	}
	return nil
}

// lease calls for jobs. The end of ctx does not cancel it, but that of the grace does: the jobs of an answer that
// nobody reads would stay leased.
func (k *consumer) lease(most int) ([]LeasedJob, error) {
	ctx, cancel := context.WithTimeout(k.work, pullWait+pullAnswer)
	defer cancel()
	return k.once.Pull(ctx, PullRequest{Topics: k.topics, Max: most, Wait: Duration(pullWait), Lease: Duration(k.Lease)})
}

// refused reports whether duehook itself refuses the call, and will refuse it again.
func refused(err error) bool {
	e := new(Error)
	return errors.As(err, &e) && e.Code != "" && e.Status/100 == 4 && !mayRepeat(err, true)
}

// take takes the free places: at least one, unless ctx ends, and no more than one call may have jobs.
func (k *consumer) take(ctx context.Context) (free int) {
	select {
	case <-k.places:
		free = 1
	case <-ctx.Done():
		return 0
	}
	for free < maxBatch {
		select {
		case <-k.places:
			free++
		default:
			return free
		}
	}
	return free
}

// begin has the handler do a job, or gives the job back.
func (k *consumer) begin(j *LeasedJob, run bool) {
	ctx, cancel := context.WithCancelCause(k.work)
	l := &lease{job: j, cancel: cancel}
	l.expiry = time.AfterFunc(k.Lease, l.lose)
	k.mu.Lock()
	k.leases[l] = struct{}{}
	k.mu.Unlock()
	if !run {
		l.err, l.nack = ErrStopped, Nack{Receipt: j.Receipt, Unused: true}
		k.handled <- l
		return
	}
	start(&k.running, func() {
		var err error
		if panicked := guard(func() { err = k.handle(ctx, j) }); panicked != nil {
			err = panicked
		}
		l.err, l.stopped = err, errors.Is(context.Cause(ctx), ErrStopped)
		if err != nil {
			if panicked := guard(l.decide); panicked != nil { // methods of its error are the handler's, too
				l.err = panicked
				l.decide()
			}
		}
		k.handled <- l
	})
}

// decide decides what is answered for a job that failed. One that was stopped is due again at once.
func (l *lease) decide() {
	text := l.err.Error()
	l.nack = Nack{Receipt: l.job.Receipt, Error: text[:min(len(text), maxNackText)]}
	if e := (*NackError)(nil); errors.As(l.err, &e) && e != nil {
		l.nack.Delay, l.nack.Dead = e.Delay, e.Dead
	} else if l.stopped {
		l.nack.Delay = new(Duration)
	}
}

// extendLeases extends all leases again and again, until done is closed.
func (k *consumer) extendLeases(done <-chan struct{}) {
	interval := k.Lease / 3
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for passed(done, ticker.C) {
		k.mu.Lock()
		all := make([]*lease, 0, len(k.leases))
		for l := range k.leases {
			all = append(all, l)
		}
		k.mu.Unlock()
		for ; len(all) > 0; all = all[min(len(all), maxBatch):] {
			k.extend(all[:min(len(all), maxBatch)], interval)
		}
	}
}

// extend extends some leases. A lease that cannot be extended is lost when it ends.
func (k *consumer) extend(some []*lease, patience time.Duration) {
	ctx, cancel := context.WithTimeout(k.answering, patience)
	defer cancel()
	began := time.Now()
	results, err := k.c.Extend(ctx, receiptsOf(some), k.Lease)
	if err != nil {
		k.failed(err)
		return
	}
	for i, l := range some {
		switch {
		case i >= len(results) || results[i].Result != "ok":
			l.lose()
		case l.expiry.Stop(): // it has not ended, here
			l.expiry.Reset(k.Lease - time.Since(began))
		}
	}
}

func receiptsOf(leases []*lease) []string {
	receipts := make([]string, len(leases))
	for i, l := range leases {
		receipts[i] = l.job.Receipt
	}
	return receipts
}

// answer answers for handled jobs, as many as there are in one call, until handled is closed.
func (k *consumer) answer() {
	for l := range k.handled {
		acks, nacks := []*lease(nil), []*lease(nil)
		for more := true; more; {
			if l.err == nil {
				acks = append(acks, l)
			} else {
				nacks = append(nacks, l)
			}
			if len(acks)+len(nacks) == maxBatch {
				break
			}
			select {
			case l, more = <-k.handled:
			default:
				more = false
			}
		}
		k.settle(acks, func(ctx context.Context, some []*lease) ([]ReceiptResult, error) {
			return k.c.Ack(ctx, receiptsOf(some))
		})
		k.settle(nacks, func(ctx context.Context, some []*lease) ([]ReceiptResult, error) { return k.c.Nack(ctx, nacksOf(some)) })
	}
}

func nacksOf(leases []*lease) []Nack {
	nacks := make([]Nack, len(leases))
	for i, l := range leases {
		nacks[i] = l.nack
	}
	return nacks
}

// settle makes a call that answers for jobs, again while the server is away and a lease lasts. If the server refuses
// the answers of several handlers, each gets a call of its own: one must not have the others refused.
func (k *consumer) settle(leases []*lease, call func(context.Context, []*lease) ([]ReceiptResult, error)) {
	if len(leases) == 0 {
		return
	}
	var results []ReceiptResult
	var err error
	for attempt := 1; ; attempt++ {
		if results, err = call(k.answering, leases); err == nil || refused(err) {
			break
		}
		k.failed(err)
		if allLost(leases) || !reconnecting.wait(k.answering, attempt, err) {
			break
		}
	}
	if len(leases) > 1 && refused(err) {
		for i := range leases {
			k.settle(leases[i:i+1], call)
		}
		return
	}
	for i, l := range leases {
		k.mu.Lock()
		delete(k.leases, l)
		k.mu.Unlock()
		l.expiry.Stop()
		l.cancel(nil)
		switch {
		case err != nil:
			l.err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
		case i >= len(results) || results[i].Result != "ok":
			l.err = ErrLeaseLost
		}
		k.report(func() { k.Answered(l.job, l.err) })
		k.places <- struct{}{}
	}
}

func allLost(leases []*lease) bool {
	return !slices.ContainsFunc(leases, func(l *lease) bool { return !l.lost.Load() })
}
