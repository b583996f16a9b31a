package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/kit/leader"
	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Store is what alerts need of a store. Every store.Store is one.
type Store interface {
	store.DeadLetters
	Backlogs(ctx context.Context) (store.Backlogs, error)
	Circuits(ctx context.Context) ([]store.EndpointCircuit, error)
	Depth(ctx context.Context) (store.Depth, error)
	store.Documents
}

// Jobs registers webhooks. A *scheduler.Scheduler is one.
type Jobs interface {
	// RegisterOwn registers jobs of a topic that clients cannot use.
	RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	// CheckDestination refuses a destination that the server must not call. Field
	// names it.
	CheckDestination(field job.Field, d job.Destination) error
}

// Topics tell which topics have thresholds of their own.
type Topics interface {
	// Thresholds are those of all topics that have some, by name, as they are
	// stored. The error is the store's.
	Thresholds(ctx context.Context) (map[string]*Thresholds, error)
	// KnownThresholds are the same as this node knows them, which asks nobody.
	KnownThresholds() map[string]*Thresholds
}

// Journal is what alerts need of one that puts back what the store loses. A
// store.Restoring is one.
type Journal interface {
	RestoreStatus(ctx context.Context) (store.RestoreStatus, error)
}

// DefaultEvery is how often rules are evaluated.
const DefaultEvery = 5 * time.Second

// Options are the settings of a Manager. Store, Jobs, Counts and ID are required.
type Options struct {
	Store  Store
	Jobs   Jobs
	Counts *Counts
	ID     string // of the node, unique to the process
	Topics Topics // nil: no topic has thresholds
	// Journal tells when the store has lost jobs that come back; nil: those that it
	// loses do not.
	Journal Journal
	// Alone: no other node shares the store.
	Alone bool
	// Clock paces evaluating and tells leases; nil is the machine's. How long a
	// value is above its threshold goes by the store's.
	Clock   job.Clock
	Logger  *slog.Logger          // nil: none
	Metrics prometheus.Registerer // nil: the metric is not registered
	// Every is how often rules are evaluated; zero: DefaultEvery.
	Every time.Duration
}

// Manager keeps rules, tells of alerts, and evaluates. Its methods are safe for
// concurrent use.
type Manager struct {
	store    Store
	jobs     Jobs
	rules    *documents.Collection[Rule]
	bookDocs *documents.Collection[book]
	counts   *Counts
	topics   Topics
	journal  Journal
	id       string
	alone    bool
	clock    job.Clock
	log      *slog.Logger
	every    time.Duration
	outage   *outage.Outage
	firing   atomic.Pointer[map[string]int] // alerts by rule, as read last

	leader *leader.Leader // evaluates; used by Run only
	idle   int            // rounds left in which nobody looks for rules; used by Run only
}

// New gives a Manager.
func New(o Options) (*Manager, error) {
	if o.Store == nil || o.Jobs == nil || o.Counts == nil || o.ID == "" {
		return nil, errors.New("alerts: Options.Store, Options.Jobs, Options.Counts or Options.ID is missing")
	}
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	m := &Manager{
		leader: leader.New(leader.Options{Store: o.Store, Task: "alerts", Node: o.ID, Clock: o.Clock, Lease: leaseRounds * o.Every}),
		outage: outage.New("evaluating alerts", o.Clock, o.Logger, rand.Float64),
		rules:  ruleDocuments(o.Store), bookDocs: bookDocuments(o.Store),
		store: o.Store, jobs: o.Jobs, counts: o.Counts, topics: o.Topics, journal: o.Journal, id: o.ID, alone: o.Alone, clock: o.Clock, log: o.Logger, every: o.Every,
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(firingGauge{m}); err != nil {
			return nil, fmt.Errorf("register the alerts' metric: %w", err)
		}
	}
	return m, nil
}

// Rules lists the rules by name, those of topics included. The error is the
// store's.
func (m *Manager) Rules(ctx context.Context) ([]Rule, error) {
	rules, err := m.stored(ctx)
	if err != nil {
		return nil, err
	}
	if m.topics != nil {
		thresholds, err := m.topics.Thresholds(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the thresholds of topics: %w", err)
		}
		rules = append(rules, m.ofTopics(ctx, thresholds)...)
	}
	rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Newer })
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(a.Name, b.Name) })
	return rules, nil
}

// ofTopics are the rules that follow from thresholds. Those of topics that cannot be
// read are not known.
func (m *Manager) ofTopics(ctx context.Context, thresholds map[string]*Thresholds) (all []Rule) {
	for topic, t := range thresholds {
		if t == nil {
			all = append(all, Rule{Name: topic + separator, Newer: true})
			continue
		}
		rules, err := t.rules(topic)
		if err != nil { // it was checked before it was stored
			m.log.ErrorContext(ctx, "the thresholds of a topic cannot be used", "topic", topic, "error", err)
			continue
		}
		all = append(all, rules...)
	}
	return all
}

// stored lists the rules that were made by themselves, with those that cannot be read.
func (m *Manager) stored(ctx context.Context) ([]Rule, error) {
	docs, err := m.rules.All(ctx)
	if err != nil {
		return nil, err
	}
	rules := make([]Rule, len(docs))
	for i := range docs {
		d := &docs[i]
		rules[i] = d.Value
		if d.Err != nil {
			m.log.ErrorContext(ctx, "an alert rule cannot be read; its alerts stay as they are", "error", d.Err)
			rules[i] = Rule{Name: d.Name, Newer: true}
		}
	}
	return rules, nil
}

// Rule gives one rule. Errors: ErrNotFound, or the store's.
func (m *Manager) Rule(ctx context.Context, name string) (Rule, error) {
	if TopicOf(name) != "" {
		rules, err := m.Rules(ctx)
		if err != nil {
			return Rule{}, err
		}
		if i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name }); i >= 0 {
			return rules[i], nil
		}
		return Rule{}, ErrNotFound
	}
	d, err := m.rules.Get(ctx, name)
	return d.Value, notFound(err)
}

// notFound says of a rule that does not exist so.
func notFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return ErrNotFound
	}
	return err
}

// Put makes or replaces a rule. Errors: a *job.ValidationError, ErrTooMany, those of
// Jobs.CheckDestination, or
// the store's, such as store.ErrNewer: what cannot be read is not written over.
// Allow may refuse the rule as it is before, or nil, with the error that is returned then.
func (m *Manager) Put(ctx context.Context, name string, d Draft, allow ...Allow) (_ Rule, created bool, _ error) {
	r, err := d.rule(name)
	if err != nil {
		return Rule{}, false, err
	}
	if r.URL != "" {
		if err := m.jobs.CheckDestination("url", job.Destination(r.URL)); err != nil {
			return Rule{}, false, err
		}
	}
	depth, err := m.store.Depth(ctx)
	if err != nil {
		return Rule{}, false, fmt.Errorf("ask for the store's time: %w", err)
	}
	_, err = m.rules.Update(ctx, name, func(d *documents.Document[Rule]) error {
		var old *Rule
		r.CreatedAt, r.UpdatedAt = depth.Now, depth.Now
		if created = d.Version == 0; !created {
			old, r.CreatedAt = &d.Value, d.Value.CreatedAt
		}
		if err := allowed(allow, old); err != nil {
			return err
		}
		d.Value = r
		return nil
	})
	if errors.Is(err, documents.ErrFull) {
		err = ErrTooMany
	}
	if err != nil {
		return Rule{}, false, err
	}
	m.counts.announce(ctx)
	return r, created, nil
}

// Allow decides on a change by the rule as it is before; nil: there is none.
type Allow func(r *Rule) error

func allowed(allow []Allow, r *Rule) error {
	for _, may := range allow {
		if err := may(r); err != nil {
			return err
		}
	}
	return nil
}

// Delete removes a rule, which resolves its alerts. Errors: ErrNotFound,
// or the store's; allow is as with Put.
func (m *Manager) Delete(ctx context.Context, name string, allow ...Allow) error {
	return notFound(m.rules.Remove(ctx, name, func(d *documents.Document[Rule]) error {
		if len(allow) > 0 && d.Err != nil {
			return d.Err
		}
		return allowed(allow, &d.Value)
	}))
}

// Alerts lists what fires and what is pending, by rule and subject. The error
// is the store's.
func (m *Manager) Alerts(ctx context.Context) ([]Alert, error) {
	books, err := m.books(ctx)
	if err != nil {
		return nil, err
	}
	var all []Alert
	for _, b := range books {
		all = append(all, b.Value.Alerts...)
	}
	slices.SortFunc(all, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return all, nil
}

// books reads what is known of all rules.
func (m *Manager) books(ctx context.Context) (map[string]*storedBook, error) {
	docs, err := m.bookDocs.All(ctx)
	if err != nil {
		return nil, err
	}
	books := make(map[string]*storedBook, len(docs))
	for i := range docs {
		if err := docs[i].Err; err != nil {
			m.log.ErrorContext(ctx, "alerts cannot be read", "error", err)
			continue
		}
		books[docs[i].Name] = &docs[i]
	}
	return books, nil
}
