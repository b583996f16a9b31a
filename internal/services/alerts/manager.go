package alerts

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/kit/leader"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// Store is the part of a store that alerts need.
type Store interface {
	store.Reader
	store.Documents
}

// Jobs registers webhooks. An *app.App is one.
type Jobs interface {
	// RegisterOwn registers jobs of a topic that clients cannot use.
	RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	// CheckDestination returns an error for a destination that the node must not call.
	// The error names the field.
	CheckDestination(field job.Field, d job.Destination) error
}

// DefaultEvery is how often rules are evaluated.
const DefaultEvery = 5 * time.Second

// Options are the settings of a Manager. Store, Jobs, Counts and ID are required.
type Options struct {
	Store  Store
	Jobs   Jobs
	Counts *Counts
	ID     string // of the node, unique to the process
	// Alone: no other node shares the store.
	Alone bool
	// Clock paces evaluation and leases; nil: the machine's. Alerts use the store's time.
	Clock   job.Clock
	Logger  *slog.Logger          // nil: none
	Metrics prometheus.Registerer // nil: the metric is not registered
	// Every is how often rules are evaluated; zero: DefaultEvery.
	Every time.Duration
}

// Manager stores rules, evaluates them, and notifies of alerts. Its methods are safe for
// concurrent use.
type Manager struct {
	o        Options
	rules    *documents.Collection[Rule]
	bookDocs *documents.Collection[book]
	firing   atomic.Pointer[map[string]int] // alerts by rule, as of the last read

	leader *leader.Leader // evaluates; used by Run only
	idle   int            // rounds left without a look for rules; used by Run only
}

// New returns a Manager.
func New(o Options) (*Manager, error) {
	if o.Store == nil || o.Jobs == nil || o.Counts == nil || o.ID == "" {
		return nil, errors.New("alerts: Options.Store, Options.Jobs, Options.Counts or Options.ID is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Every = cmp.Or(o.Every, DefaultEvery)
	m := &Manager{o: o, rules: ruleDocuments(o.Store, o.Clock), bookDocs: bookDocuments(o.Store)}
	if !o.Alone {
		m.leader = leader.New(leader.Options{Store: o.Store, Task: "alerts", Node: o.ID, Clock: o.Clock, Lease: leaseRounds * o.Every})
	}
	return m, metered.Register(o.Metrics, "alerts", firingGauge{m})
}

// Rules lists all rules by name. The error is the store's.
func (m *Manager) Rules(ctx context.Context) ([]Rule, error) {
	rules, err := m.stored(ctx)
	if err != nil {
		return nil, err
	}
	rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Newer })
	for i := range rules {
		rules[i].show(ctx)
	}
	sort.Slice(rules, func(i, j int) bool { return rules[i].Name < rules[j].Name })
	return rules, nil
}

// stored lists the rules that are documents, including unreadable ones.
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
			m.o.Logger.ErrorContext(ctx, "an alert rule cannot be read; its alerts do not change", "error", d.Err)
			rules[i] = Rule{Name: d.Name, Newer: true}
		}
	}
	return rules, nil
}

// Rule returns one rule. Errors: ErrNotFound, a *job.ValidationError, or the store's.
func (m *Manager) Rule(ctx context.Context, name string) (Rule, error) {
	if err := checkLength(name); err != nil {
		return Rule{}, err
	}
	d, err := m.rules.Get(ctx, name)
	d.Value.show(ctx)
	return d.Value, err
}

// show leaves what the caller may see of a rule.
func (r *Rule) show(ctx context.Context) {
	r.URL = string(access.SightOf(ctx).URL(job.Destination(r.URL)))
}

// Put creates or replaces a rule. Errors: a *job.ValidationError, ErrTooMany, those of
// Jobs.CheckDestination and allow, or the store's, such as store.ErrNewer: Put does not
// overwrite an unreadable rule.
func (m *Manager) Put(ctx context.Context, name string, d Draft, allow ...documents.Allow) (_ Rule, created bool, _ error) {
	r, err := d.rule(name)
	if err != nil {
		return Rule{}, false, err
	}
	if r.URL != "" {
		if err := m.o.Jobs.CheckDestination("url", job.Destination(r.URL)); err != nil {
			return Rule{}, false, err
		}
	}
	if r, created, err = m.rules.Set(ctx, name, r, allow...); err == nil {
		m.o.Counts.announce(ctx)
	}
	return r, created, err
}

// Delete deletes a rule, which resolves its alerts. Errors: ErrNotFound, a
// *job.ValidationError, those of allow, or the store's.
func (m *Manager) Delete(ctx context.Context, name string, allow ...documents.Allow) error {
	if err := checkLength(name); err != nil {
		return err
	}
	return m.rules.Remove(ctx, name, allow...)
}

// Alerts lists firing and pending alerts, by rule and subject. The error is the store's.
func (m *Manager) Alerts(ctx context.Context) ([]Alert, error) {
	books, err := m.books(ctx)
	if err != nil {
		return nil, err
	}
	var all []Alert
	for _, b := range books {
		all = append(all, b.Value.Alerts...)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Endpoint, b.Endpoint)) < 0
	})
	return all, nil
}

// books reads the states of all rules.
func (m *Manager) books(ctx context.Context) (map[string]*storedBook, error) {
	docs, err := m.bookDocs.All(ctx)
	if err != nil {
		return nil, err
	}
	books := make(map[string]*storedBook, len(docs))
	for i := range docs {
		if err := docs[i].Err; err != nil {
			m.o.Logger.ErrorContext(ctx, "alerts cannot be read", "error", err)
			continue
		}
		books[docs[i].Name] = &docs[i]
	}
	return books, nil
}
