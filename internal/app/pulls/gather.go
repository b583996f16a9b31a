package pulls

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// maxTogether bounds the jobs that calls lease or settle together.
const maxTogether = 500

// returnWithin bounds the wait for the store when jobs are given back.
const returnWithin = 5 * time.Second

// gatherer leases for several calls at once: those that ask for the same while it leases are the
// next ones. Each on its own would read the same facts, and a store takes a large batch for
// less than several small ones.
type gatherer struct {
	serve func(ctx context.Context, want want, of *gathering, shares []*share)

	mu sync.Mutex
	of map[string]*gathering
}

// want is what calls have in common that are served together.
type want struct {
	shard  int
	topics []string
	lease  time.Duration
}

// gathering is the calls with one want. Two batches of them take jobs at a time, so neither the store nor the
// node waits for the other.
type gathering struct {
	calls   int
	batches *batch.Batcher[*share]
	taking  chan struct{} // a place for each batch
}

// share is what one call gets.
type share struct {
	most, room int // jobs, and bytes of the answer
	jobs       []Leased
	wait       time.Duration // until there may be more; negative: nothing waits
	err        error
	served     chan struct{} // closed when the others are set
	decided    atomic.Bool   // the call has its jobs, or has left
}

// get leases for a call. Its error is that of the store, or of ctx.
func (g *gatherer) get(ctx context.Context, w want, s *share) error {
	name := strings.Join(append([]string{strconv.Itoa(w.shard), w.lease.String()}, w.topics...), " ")
	batches := g.enter(name, w)
	defer g.leave(name)
	s.served = make(chan struct{})
	err := batches.Do(ctx, s)
	if err == nil {
		select {
		case <-s.served:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil && s.decided.CompareAndSwap(false, true) {
		return err
	}
	return s.err
}

func (g *gatherer) enter(name string, w want) *batch.Batcher[*share] {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.of[name]
	if of == nil {
		o := batch.Options[*share]{Workers: 1, MaxCount: maxTogether, Cost: func(s *share) (count, bytes int) { return s.most, 0 }}
		of = &gathering{taking: make(chan struct{}, 2)}
		of.batches = batch.New(o, func(ctx context.Context, shares []*share) { g.serve(ctx, w, of, shares) })
		g.of[name] = of
	}
	of.calls++
	return of.batches
}

func (g *gatherer) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[name].calls--; g.of[name].calls == 0 {
		delete(g.of, name)
	}
}

// take adds a job to an answer, unless it has no room. One job always has.
func (s *share) take(l *Leased) bool {
	bytes := perJob + store.SizeOf(&l.Job)*4/3
	if len(s.jobs) == s.most || bytes > s.room && s.room < maxAnswer {
		return false
	}
	s.jobs, s.room = append(s.jobs, *l), s.room-bytes
	return true
}

// serve takes jobs for some calls, and returns when the next calls may take theirs. Run waits for those under way.
func (m *Manager) serve(ctx context.Context, w want, of *gathering, shares []*share) {
	ctx = context.WithoutCancel(ctx) // what is taken has to be answered or given back
	of.taking <- struct{}{}
	shares = slices.Clone(shares)
	m.takes.Go(func() {
		defer func() { <-of.taking }()
		m.answer(ctx, shares, m.take(ctx, w, shares))
	})
}

// take takes jobs, and adds them to shares until these are full. It returns a panic of the store as an error, because
// nothing else in this goroutine recovers.
func (m *Manager) take(ctx context.Context, w want, shares []*share) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("take from pull queues: panic: %v\n%s", v, debug.Stack())
		}
	}()
	for len(shares) > 0 {
		most := 0
		for _, s := range shares {
			most += s.most - len(s.jobs)
		}
		taken, err := m.o.Store.Take(ctx, w.shard, store.TakeOptions{
			Max: most, Lease: w.lease, By: m.o.ID, Limits: store.FlightLimits{HalfOpenLimit: 1, TopicLimits: m.o.TopicLimits}, Pull: w.topics,
		})
		if err != nil {
			return fmt.Errorf("take from pull queues: %w", err)
		}
		for _, s := range shares {
			s.wait = taken.Wait
		}
		shares = m.divide(ctx, w, taken.Claims, shares)
		if len(taken.Claims) == 0 || taken.Wait != 0 {
			return nil
		}
	}
	return nil
}

// answer gives some calls their jobs. Those that have none get the error.
func (m *Manager) answer(ctx context.Context, shares []*share, err error) {
	var back []job.Settlement
	for _, s := range shares {
		if len(s.jobs) == 0 {
			s.err = err
		}
		if !s.decided.CompareAndSwap(false, true) { // the caller has left
			for i := range s.jobs {
				back = append(back, m.released(&s.jobs[i].Job))
			}
		}
		close(s.served)
	}
	m.giveBack(ctx, back)
}

// divide adds claimed jobs to the first shares that have room. It returns the shares that are not full.
func (m *Manager) divide(ctx context.Context, w want, claims []store.Claimed, shares []*share) []*share {
	var back []job.Settlement
	for i := range claims {
		c := &claims[i]
		if o := c.Job.Before(c.From, c.Earlier, c.Now); o != nil { // it has expired or was cancelled
			back = append(back, m.settlement(&c.Job, *o))
			continue
		}
		l := Leased{Job: c.Job, Receipt: receiptOf(c).String(), Attempt: c.Job.Attempts + 1, Until: c.Now.Add(w.lease)}
		for len(shares) > 0 && !shares[0].take(&l) {
			shares = shares[1:]
		}
		if len(shares) == 0 {
			back = append(back, m.released(&l.Job))
			continue
		}
		m.leased.keep(l.Receipt, &l.Job)
	}
	if len(back) > 0 {
		m.giveBack(ctx, back)
		for _, s := range shares {
			s.wait = 0 // other jobs may have their places
		}
	}
	for len(shares) > 0 && len(shares[0].jobs) == shares[0].most {
		shares = shares[1:]
	}
	return shares
}

// released is how a leased job is settled that nobody gets.
func (m *Manager) released(j *job.Job) job.Settlement {
	return m.settlement(j, job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonShutdown})
}

// Return gives back leased jobs that their consumer did not get. They are due again at once, and no attempt is used.
func (m *Manager) Return(ctx context.Context, jobs []Leased) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnWithin)
	defer cancel()
	back := make([]job.Settlement, len(jobs))
	for i := range jobs {
		m.leased.forget(jobs[i].Receipt)
		back[i] = m.released(&jobs[i].Job)
	}
	m.giveBack(ctx, back)
}

// giveBack settles claimed jobs that nobody gets.
func (m *Manager) giveBack(ctx context.Context, back []job.Settlement) {
	if len(back) == 0 {
		return
	}
	if _, err := successors.Settle(ctx, m.o.Store, back); err != nil {
		m.o.Logger.Warn("jobs that no consumer gets could not be settled; they will be when their leases end", "jobs", len(back), "error", err)
	}
}
