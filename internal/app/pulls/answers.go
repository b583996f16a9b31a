package pulls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/successors"
)

// Result is what became of a receipt.
type Result string

// The results.
const (
	OK      Result = "ok"
	Stale   Result = "stale"   // the job was leased again or has ended since; nothing changed
	Unknown Result = "unknown" // no receipt of a job that is known
)

// Nack gives a job up, or puts its next attempt off.
type Nack struct {
	Receipt string
	Delay   *time.Duration // to the next attempt; nil: that of the ladder
	Error   string         // for the log of attempts
	Dead    bool           // no attempt can succeed
	Unused  bool           // nobody began: the job is due again at once, and no attempt is used
}

// May says whether the caller may consume a topic.
type May func(topic string) error

// Ack ends jobs as delivered.
func (m *Manager) Ack(ctx context.Context, may May, receipts []string) ([]Result, error) {
	return m.settle(ctx, may, receipts, func(_ int, j *job.Job, a *job.Attempt) job.Settlement {
		return m.settlement(j, job.Outcome{Kind: job.OutcomeDelivered, Attempt: a})
	})
}

// Nack ends attempts as failed.
func (m *Manager) Nack(ctx context.Context, may May, nacks []Nack) ([]Result, error) {
	receipts := make([]string, len(nacks))
	for i := range nacks {
		receipts[i] = nacks[i].Receipt
	}
	return m.settle(ctx, may, receipts, func(i int, j *job.Job, a *job.Attempt) job.Settlement {
		n := &nacks[i]
		if n.Unused {
			return m.released(j)
		}
		a.Error, a.ResponseBody = job.ErrorNacked, contract.Excerpt([]byte(n.Error))
		o := job.Outcome{Kind: job.OutcomeFailed, Attempt: a}
		switch {
		case n.Dead:
			o.Kind, o.Reason = job.OutcomeRefused, job.ReasonRejected
		case n.Delay != nil:
			o.Named, o.After = true, *n.Delay
		}
		return m.settlement(j, o)
	})
}

// Extend gives leases a new end: lease from now.
func (m *Manager) Extend(ctx context.Context, may May, receipts []string, lease time.Duration) ([]Result, error) {
	return m.settle(ctx, may, receipts, func(_ int, j *job.Job, _ *job.Attempt) job.Settlement { return j.Extend(lease) })
}

// settle settles the jobs of receipts as decide says.
func (m *Manager) settle(ctx context.Context, may May, receipts []string, decide func(i int, j *job.Job, a *job.Attempt) job.Settlement) ([]Result, error) {
	read, jobs, err := m.find(ctx, may, receipts)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(receipts))
	var settlements []job.Settlement
	var of []int // their receipts
	first := map[string]int{}
	for i := range receipts {
		results[i] = Unknown
		switch j := jobs[i]; {
		case j == nil:
		case j.Token != read[i].token:
			results[i] = Stale
		default:
			if _, twice := first[receipts[i]]; !twice {
				first[receipts[i]] = i
				settlements, of = append(settlements, decide(i, j, m.attempt(read[i].at, j))), append(of, i)
			}
		}
	}
	if len(settlements) > 0 {
		settled, err := m.write(ctx, settlements)
		if err != nil {
			return nil, err
		}
		for n, i := range of {
			results[i] = m.resultOf(&settlements[n], &settled[n], receipts[i])
		}
	}
	for i, r := range receipts { // one that is given twice
		if at, ok := first[r]; ok {
			results[i] = results[at]
		}
		m.metrics.results[results[i]].Inc()
	}
	return results, nil
}

// answer is the settlements of a call.
type answer struct {
	settlements []job.Settlement
	settled     []store.Settled
	err         error
}

// newAnswers gathers the answers that arrive while others are written.
func newAnswers(s successors.Store) *batch.Batcher[*answer] {
	o := batch.Options[*answer]{Workers: 1, MaxCount: maxTogether, Cost: func(a *answer) (count, bytes int) { return len(a.settlements), 0 }}
	return batch.New(o, func(ctx context.Context, answers []*answer) {
		var all []job.Settlement
		for _, a := range answers {
			all = append(all, a.settlements...)
		}
		settled, err := successors.Settle(ctx, s, all)
		for _, a := range answers {
			n := len(a.settlements)
			switch {
			case err == nil:
				a.settled, settled = settled[:n], settled[n:]
			case len(answers) > 1 && !errors.Is(err, store.ErrUnavailable): // one must not have the others refused
				a.settled, a.err = successors.Settle(ctx, s, a.settlements)
			default:
				a.err = err
			}
		}
	})
}

// write settles. Extensions wait for no outcomes.
func (m *Manager) write(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	if settlements[0].Extends() {
		return successors.Settle(ctx, m.o.Store, settlements)
	}
	a := &answer{settlements: settlements}
	if err := m.answers.Do(ctx, a); err != nil {
		return nil, fmt.Errorf("wait for answers of other consumers: %w", err)
	}
	return a.settled, a.err
}

// resultOf is the result of a settlement. A repetition that wanted something else than the call
// before is stale.
func (m *Manager) resultOf(s *job.Settlement, r *store.Settled, receipt string) Result {
	if !s.Extends() {
		m.leased.forget(receipt)
	}
	switch {
	case r.Status == store.Missing:
		return Unknown
	case r.Status == store.Stale, r.Repeated && r.To != s.To:
		return Stale
	}
	return OK
}

// attempt is the log entry of a lease that is answered now. A token is at least the time of its claim, so a
// receipt with a later time was forged.
func (m *Manager) attempt(leased job.Instant, j *job.Job) *job.Attempt {
	leased = min(max(leased, j.CreatedAt), job.Instant(j.Token))
	return &job.Attempt{Number: j.Attempts + 1, StartedAt: leased, Duration: max(0, m.o.Time.Instant().Sub(leased)), Version: j.Version, Node: m.o.ID}
}

// find reads receipts, and returns their jobs, nil for no job. It reads what this node has not leased
// itself, or what has callbacks: they need the whole job.
func (m *Manager) find(ctx context.Context, may May, receipts []string) ([]receipt, []*job.Job, error) {
	parsed, jobs := make([]receipt, len(receipts)), make([]*job.Job, len(receipts))
	var unknown []int
	for i, text := range receipts {
		var ok bool
		if parsed[i], ok = parseReceipt(text); !ok {
			continue
		}
		if err := may(parsed[i].key.Topic); err != nil {
			return nil, nil, err
		}
		if jobs[i] = m.leased.get(text); jobs[i] == nil {
			unknown = append(unknown, i)
		}
	}
	keys := make([]job.Key, len(unknown))
	for n, i := range unknown {
		keys[n] = parsed[i].key
	}
	found, err := listing.Jobs(ctx, m.o.Store, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("find the jobs of receipts: %w", err)
	}
	for n, i := range unknown {
		jobs[i] = found[n]
	}
	return parsed, jobs, nil
}

// maxLeased bounds the leased jobs that a node remembers. What it has forgotten, it reads.
const maxLeased = 10_000

// leased remembers leased jobs without their bodies, by receipt.
type leased struct {
	mu    sync.Mutex
	jobs  map[string]*job.Job
	of    map[job.Key]string // the last receipts
	order []string           // a ring of receipts
	next  int
}

func newLeased() *leased {
	return &leased{jobs: map[string]*job.Job{}, of: map[job.Key]string{}, order: make([]string, maxLeased)}
}

// keep remembers a job that can be settled without its body.
func (l *leased) keep(receipt string, j *job.Job) {
	if j.Spec.Callbacks != nil {
		return
	}
	short := *j
	short.Spec.Body, short.Spec.Headers, short.LastAttempt = nil, nil, nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(l.order[l.next])
	l.order[l.next] = receipt
	l.next = (l.next + 1) % maxLeased
	l.jobs[receipt], l.of[j.Key] = &short, receipt
}

func (l *leased) get(receipt string) *job.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.jobs[receipt]
}

func (l *leased) forget(receipt string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(receipt)
}

func (l *leased) drop(receipt string) {
	if j := l.jobs[receipt]; j != nil && l.of[j.Key] == receipt {
		delete(l.of, j.Key)
	}
	delete(l.jobs, receipt)
}

func (l *leased) last(key job.Key) (receipt string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	receipt, ok = l.of[key]
	return receipt, ok
}
