package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

// rig is a store with nodes that work on operations, in virtual time.
type rig struct {
	*testing.T
	store.Store
	mu      sync.Mutex
	changes map[job.Key]int // how often Update changed a job
	at      []time.Time     // when
	fail    func(call string) error
	latency time.Duration // of Update
	behind  time.Duration // of the store's clock behind that of nodes
	log     *slog.Logger  // of nodes started from now on
}

// pass lets virtual time pass.
func pass(d time.Duration) { _ = job.Sleep(context.Background(), job.SystemClock(), d) }

// inBubble runs a test in a bubble of virtual time.
func inBubble(t *testing.T, body func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, Store: testenv.Store(t, diskstore.Options{Retention: 24 * time.Hour}), changes: map[job.Key]int{}}
		body(t, r)
	})
}

var errKilled = fmt.Errorf("%w: the node is dead", store.ErrUnavailable)

// failing is the error that a call is to give, if any.
func (r *rig) failing(call string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail == nil {
		return nil
	}
	return r.fail(call)
}

func (r *rig) failWith(fail func(call string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fail
}

func (r *rig) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	if err := r.failing("Update"); err != nil {
		return job.Job{}, err
	}
	pass(r.latency)
	j, err := r.Store.Update(ctx, key, change)
	if err == nil {
		r.mu.Lock()
		r.changes[key]++
		r.at = append(r.at, time.Now())
		r.mu.Unlock()
	}
	return j, err
}

// Names fails as listings do.
func (r *rig) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	if err := r.failing("List"); err != nil {
		return nil, err
	}
	return r.Store.Names(ctx, q)
}

func (r *rig) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	f, err := r.Store.Figures(ctx, q)
	f.Now = f.Now.Add(-r.behind)
	return f, err
}

func (r *rig) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if err := r.failing("ListDocuments"); err != nil {
		return nil, err
	}
	return r.Store.ListDocuments(ctx, q)
}

func (r *rig) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	if err := r.failing("PutDocuments"); err != nil {
		return nil, err
	}
	return r.Store.PutDocuments(ctx, docs)
}

// node is a Manager that may be at work.
type node struct {
	*Manager
	r    *rig
	stop context.CancelFunc
	done chan struct{}
	dead *cut
}

// cut is a node's way to the store, which can be cut.
type cut struct {
	*rig
	mu  sync.Mutex
	now bool
}

func (c *cut) is() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now {
		return errKilled
	}
	return nil
}

func (c *cut) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	if err := c.is(); err != nil {
		return job.Job{}, err
	}
	return c.rig.Update(ctx, key, change)
}

func (c *cut) Entries(ctx context.Context, of store.Index, span store.Span) ([]store.Entry, *store.Position, error) {
	if err := c.is(); err != nil {
		return nil, nil, err
	}
	return c.rig.Entries(ctx, of, span)
}

func (c *cut) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	if err := c.is(); err != nil {
		return nil, err
	}
	return c.rig.PutDocuments(ctx, docs)
}

func (c *cut) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if err := c.is(); err != nil {
		return nil, err
	}
	return c.rig.ListDocuments(ctx, q)
}

// unchecked refuses no change.
type unchecked struct{ updater }

type updater interface {
	Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error)
}

func (unchecked) CheckChange(job.Field, *job.Draft) error { return nil }

// node starts a node.
func (r *rig) node(id string) *node {
	r.Helper()
	c := &cut{rig: r}
	m, err := New(Options{Store: c, Jobs: unchecked{c}, ID: id, Leader: leader.New(leader.Options{Store: c, Node: id, Clock: job.SystemClock()}), Logger: r.log})
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	n := &node{Manager: m, r: r, stop: cancel, done: make(chan struct{}), dead: c}
	go func() {
		defer close(n.done)
		if err := m.Run(ctx); err != nil {
			r.Error(err)
		}
	}()
	return n
}

// end ends a node in order.
func (n *node) end() {
	n.stop()
	<-n.done
}

// kill cuts a node off from the store, for ever; its process ends later.
func (n *node) kill() {
	n.dead.mu.Lock()
	n.dead.now = true
	n.dead.mu.Unlock()
}

// register registers n jobs and gives their keys.
func (r *rig) register(topic string, n int, change ...func(*store.Registration)) []job.Key {
	r.Helper()
	regs := make([]store.Registration, n)
	keys := make([]job.Key, n)
	for i := range regs {
		keys[i] = job.Key{Topic: topic, ID: fmt.Sprintf("%05d", i)}
		regs[i] = store.Registration{
			Key: keys[i], UID: fmt.Sprintf("%026d", i), Spec: job.Spec{Destination: job.Destination(fmt.Sprintf("http://e%d.example/", i%3))},
		}
		for _, c := range change {
			c(&regs[i])
		}
	}
	if _, err := r.Register(r.Context(), regs); err != nil {
		r.Fatal(err)
	}
	return keys
}

// later makes registrations due in an hour.
func later(r *store.Registration) { r.Spec.When.Delay = time.Hour }

// end makes everything that is due end with an outcome.
func (r *rig) end(kind job.OutcomeKind) (n int) {
	r.Helper()
	for {
		taken, err := r.Take(r.Context(), 0, store.TakeOptions{Max: 500, Lease: time.Minute, Limits: store.FlightLimits{HalfOpenLimit: 500}})
		if err != nil {
			r.Fatal(err)
		}
		claims := taken.Claims
		for _, c := range claims {
			attempt := &job.Attempt{Number: c.Job.Attempts + 1, StartedAt: c.Now, Status: 500}
			s := job.Settle(&c.Job, job.Outcome{Kind: kind, Reason: job.ReasonGone, Attempt: attempt}, func(int) (time.Duration, bool) {
				return 3 * time.Hour, true // behind what is listed yet
			})
			if _, err := r.Settle(r.Context(), []job.Settlement{s}); err != nil {
				r.Fatal(err)
			}
			n++
		}
		if len(claims) == 0 {
			return n
		}
	}
}

// deliver delivers what is due to a receiver that takes hold to fail, places
// requests at a time, until ctx ends. A failed job is due again after retry. It
// gives the times at which jobs were sent.
func (r *rig) deliver(ctx context.Context, places int, hold, retry time.Duration) (sent func() map[job.Key][]job.Instant) {
	var mu sync.Mutex
	all := map[job.Key][]job.Instant{}
	for range places {
		go func() {
			for job.Sleep(ctx, job.SystemClock(), 50*time.Millisecond) == nil {
				taken, _ := r.Take(ctx, 0, store.TakeOptions{Max: 1, Lease: time.Hour, Limits: store.FlightLimits{HalfOpenLimit: places}})
				claims := taken.Claims
				for _, c := range claims {
					outcome := c.Job.Before(c.From, c.Earlier, c.Now)
					if outcome == nil {
						mu.Lock()
						all[c.Job.Key] = append(all[c.Job.Key], c.Now)
						mu.Unlock()
						pass(hold)
						outcome = &job.Outcome{Kind: job.OutcomeFailed, Attempt: &job.Attempt{
							Number: c.Job.Attempts + 1, StartedAt: c.Now, Duration: hold, Status: 500,
						}}
					}
					s := job.Settle(&c.Job, *outcome, func(int) (time.Duration, bool) { return retry, true })
					if _, err := r.Settle(context.WithoutCancel(ctx), []job.Settlement{s}); err != nil {
						r.Error(err)
					}
				}
			}
		}()
	}
	return func() map[job.Key][]job.Instant {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(all)
	}
}

// dead makes n dead letters.
func (r *rig) dead(topic string, n int) []job.Key {
	r.Helper()
	keys := r.register(topic, n)
	r.end(job.OutcomeRefused)
	pass(time.Second)
	return keys
}

// await waits until the operation no longer runs.
func (n *node) await(id string) Operation {
	n.r.Helper()
	for range 100_000 {
		o, err := n.Get(n.r.Context(), id)
		if err != nil {
			n.r.Fatal(err)
		}
		if o.State != Running && o.Owner == "" {
			return o
		}
		pass(100 * time.Millisecond)
	}
	n.r.Fatal("the operation does not end")
	return Operation{}
}

func (n *node) create(d Draft) Operation {
	n.r.Helper()
	o, err := n.Create(n.r.Context(), d)
	if err != nil {
		n.r.Fatal(err)
	}
	return o
}

// once expects each of keys, and nothing else, to have been changed once.
func (r *rig) once(keys []job.Key) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, n := range r.changes {
		if n != 1 || !slices.Contains(keys, key) {
			r.Fatalf("%s was changed %d times", key, n)
		}
	}
	if len(r.changes) != len(keys) {
		r.Fatalf("%d jobs were changed, want %d", len(r.changes), len(keys))
	}
}

// changed is how many jobs were changed so far.
func (r *rig) changed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.changes)
}

func (r *rig) states(topic string) map[job.State]int64 {
	r.Helper()
	page, err := listing.Topics(r.Context(), r, store.TopicQuery{Topic: topic, Limit: 1})
	if err != nil || len(page.Topics) != 1 {
		r.Fatal(page, err)
	}
	stats := page.Topics[0]
	for s, n := range stats.States {
		if n == 0 {
			delete(stats.States, s)
		}
	}
	return stats.States
}

func ptr[T any](v T) *T { return &v }

var errDefect = errors.New("a defect")
