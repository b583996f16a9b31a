package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	shop   = "https://shop.example:443"
	bank   = "https://bank.example:443"
	opsURL = "https://ops.example/alerts"
)

// rig is a store that nodes share, in virtual time.
type rig struct {
	*testing.T
	store.Store
	mu   sync.Mutex
	fail func(call string) error
	next int
	gone []string // silent nodes

	trouble []string // of the server
	blind   bool     // whether there is any is unknown
}

func inBubble(t *testing.T, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, Store: testenv.Store(t, diskstore.Options{Retention: 24 * time.Hour})}
		body(r)
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) { _ = job.Sleep(context.Background(), job.SystemClock(), d) }

// failWith makes calls fail; nil lets them work.
func (r *rig) failWith(fail func(call string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fail
}

// errRefused makes Register refuse what it is given.
var errRefused = errors.New("refused")

// silence makes nodes silent, and only them.
func (r *rig) silence(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = names
}

func (l *link) silent(context.Context) ([]string, error) {
	l.rig.mu.Lock()
	defer l.rig.mu.Unlock()
	return l.gone, nil
}

func (r *rig) troubles() (all []string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble, !r.blind
}

// harm gives the server troubles, and only them.
func (r *rig) harm(blind bool, all ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble, r.blind = all, blind
}

// link is a node's way to the store.
type link struct {
	*rig
	mu  sync.Mutex
	cut bool
}

func (l *link) err(call string) error {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	l.rig.mu.Lock()
	fail := l.rig.fail
	l.rig.mu.Unlock()
	switch {
	case cut:
		return fmt.Errorf("%w: the node is dead", store.ErrUnavailable)
	case fail != nil:
		return fail(call)
	}
	return nil
}

func (l *link) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	err := l.err("Register")
	if errors.Is(err, errRefused) {
		return []store.Registered{{Outcome: store.Exists}}, nil
	}
	if err != nil {
		return nil, err
	}
	return l.rig.Register(ctx, regs)
}

func (l *link) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	if err := l.err("PutDocuments " + docs[0].Kind); err != nil {
		return nil, err
	}
	return l.rig.PutDocuments(ctx, docs)
}

func (l *link) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if err := l.err("ListDocuments"); err != nil {
		return nil, err
	}
	return l.rig.ListDocuments(ctx, q)
}

func (l *link) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	if q.Circuits {
		if err := l.err("Endpoints"); err != nil {
			return store.Figures{}, err
		}
	}
	return l.rig.Figures(ctx, q)
}

// node is a node at work.
type node struct {
	*Manager
	link *link
	stop func()
}

// node starts a node; it is stopped when the test ends, at the latest.
func (r *rig) node(id string) *node {
	r.Helper()
	l := &link{rig: r}
	return r.start(l, id, Options{Store: l, Jobs: own{l}, Silent: l.silent, Troubles: map[string]Troubles{ServerTrouble: r.troubles, InboxTrouble: r.troubles}})
}

func (r *rig) start(l *link, id string, o Options) *node {
	r.Helper()
	counts := NewCounts(r.Store, nil, nil)
	o.Counts, o.Leader = counts, leader.New(leader.Options{Store: l, Node: id, Clock: job.SystemClock()})
	m, err := New(o)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.Error(err)
		}
	})
	r.Cleanup(stop)
	synctest.Wait() // until its first round is over
	return &node{Manager: m, link: l, stop: stop}
}

// kill cuts a node off and stops it, so that it cannot leave in order.
func (n *node) kill() {
	n.link.mu.Lock()
	n.link.cut = true
	n.link.mu.Unlock()
	n.stop()
}

func ptr[T any](v T) *T { return &v }

// rule makes a rule.
func (n *node) rule(name string, d Draft) {
	n.link.Helper()
	d.URL = cmp.Or(d.URL, opsURL)
	if _, _, err := n.Put(context.Background(), name, d); err != nil {
		n.link.Fatal(err)
	}
}

// webhooks are those that were registered, in that order.
func (r *rig) webhooks() []job.Job {
	r.Helper()
	page, err := listing.List(context.Background(), r, store.Query{Topic: Topic, Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	slices.SortStableFunc(page.Jobs, func(a, b job.Job) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return page.Jobs
}

// told are the webhooks in short: rule, status, subject.
func (r *rig) told() []string {
	r.Helper()
	var all []string
	for _, j := range r.webhooks() {
		p := r.payload(&j)
		short := []string{p.Rule, p.Status}
		for _, part := range []*string{p.Topic, p.Endpoint, p.Node, p.Trouble} {
			if part != nil {
				short = append(short, *part)
			}
		}
		all = append(all, strings.Join(short, " "))
	}
	return all
}

// payload is the body of a webhook.
type payload struct {
	Version, Alert, Status, Rule, Metric, Text string
	Topic, Endpoint, Node, Trouble             *string
	Value, Threshold                           float64
	FiredAt                                    string  `json:"fired_at"`
	ResolvedAt                                 *string `json:"resolved_at"`
}

func (r *rig) payload(j *job.Job) payload {
	r.Helper()
	var p payload
	if err := json.Unmarshal(j.Spec.Body, &p); err != nil {
		r.Fatal(err)
	}
	return p
}

// add registers jobs that are due now.
func (r *rig) add(topic, endpoint string, n int) {
	r.Helper()
	for range n {
		r.next++
		id := fmt.Sprintf("%026d", r.next)
		_, err := r.Store.Register(context.Background(), []store.Registration{{
			Key: job.Key{Topic: topic, ID: id}, UID: id, Spec: job.Spec{Destination: job.Destination(endpoint + "/hook")},
		}})
		if err != nil {
			r.Fatal(err)
		}
	}
}

// work attempts all jobs that are due, at a node, with one outcome.
func (r *rig) work(n *node, kind job.OutcomeKind) {
	r.Helper()
	ctx := context.Background()
	s := feed.Observe(r.Store, n.o.Counts.Subscriber())
	taken, err := s.Take(ctx, 0, store.TakeOptions{Max: 1000, Lease: time.Hour, LeaseMargin: time.Hour, Limits: store.FlightLimits{HalfOpenLimit: 1000}})
	if err != nil {
		r.Fatal(err)
	}
	claimed := taken.Claims
	settlements := make([]job.Settlement, len(claimed))
	for i := range claimed {
		attempt := &job.Attempt{Number: 1, StartedAt: claimed[i].Now, Duration: time.Millisecond}
		o := job.Outcome{Kind: kind, Attempt: attempt, Reason: job.ReasonGone, After: 24 * time.Hour}
		if kind == job.OutcomeReleased {
			o.Attempt = nil
		}
		settlements[i] = job.Settle(&claimed[i].Job, o, func(int) (time.Duration, bool) { return 24 * time.Hour, true })
	}
	if _, err := s.Settle(ctx, settlements); err != nil {
		r.Fatal(err)
	}
}

// alerts is what fires, in short.
func (n *node) alerts() []string {
	n.link.Helper()
	all, err := n.Alerts(context.Background())
	if err != nil {
		n.link.Fatal(err)
	}
	var short []string
	for i := range all {
		a := &all[i]
		short = append(short, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s", a.Rule, a.Topic, a.Endpoint, a.Node, number(a.Value))), " "))
	}
	return short
}

// own registers as app does, and refuses no destination.
type own struct {
	store interface {
		Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	}
}

func (o own) RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	return o.store.Register(ctx, regs)
}

func (own) CheckDestination(job.Field, job.Destination) error { return nil }
