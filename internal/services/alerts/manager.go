package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/leader"
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

// Troubles returns what is wrong with something, each with its cause, and whether all of it is known.
type Troubles func() (all []string, known bool)

// Options are the settings of a Manager. Store, Jobs, Counts and Silent are required.
type Options struct {
	Store  Store
	Jobs   Jobs
	Counts *Counts
	// Silent returns the names of nodes without heartbeats.
	Silent func(ctx context.Context) ([]string, error)
	// Troubles are those of the metrics ServerTrouble and InboxTrouble; nil: there are none.
	Troubles map[string]Troubles
	// Leader elects the node that evaluates; nil: no other node shares the store.
	Leader *leader.Leader
	// Clock paces evaluation; nil: the machine's. Alerts use the store's time.
	Clock   job.Clock
	Logger  *slog.Logger          // nil: none
	Metrics prometheus.Registerer // nil: the metric is not registered
}

// Manager stores rules, evaluates them, and notifies of alerts. Its methods are safe for
// concurrent use.
type Manager struct {
	o      Options
	rules  *documents.Collection[Rule]
	firing *prometheus.GaugeVec // alerts by rule
}

type stored = documents.Document[Rule]

// New returns a Manager.
func New(o Options) (*Manager, error) {
	if o.Store == nil || o.Jobs == nil || o.Counts == nil || o.Silent == nil {
		return nil, errors.New("alerts: a required option is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	m := &Manager{o: o, rules: ruleDocuments(o.Store, o.Clock)}
	m.firing = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "duehook_alert_firing", Help: "Alerts that fire, by rule; on the node that evaluates them.",
	}, []string{"rule"})
	return m, metered.Register(o.Metrics, "alerts", m.firing)
}

// Rules lists the readable rules by name, with their alerts. The error is the store's.
func (m *Manager) Rules(ctx context.Context) ([]Rule, error) {
	docs, err := m.rules.All(ctx)
	rules := make([]Rule, 0, len(docs))
	for i := range docs {
		if r := docs[i].Value; docs[i].Err == nil && !r.Deleted {
			rules = append(rules, r.shown(ctx))
		}
	}
	return rules, err
}

// Alerts lists firing alerts, by rule and subject. The error is the store's.
func (m *Manager) Alerts(ctx context.Context) (all []Alert, err error) {
	rules, err := m.Rules(ctx)
	for i := range rules {
		alerts := slices.DeleteFunc(rules[i].Alerts, func(a Alert) bool { return a.ResolvedAt != 0 })
		slices.SortFunc(alerts, func(a, b Alert) int { return a.compare(b.Subject) })
		for _, a := range alerts {
			a.Rule = rules[i].Name
			all = append(all, a)
		}
	}
	return all, err
}

// Rule returns one rule. Errors: ErrNotFound, a *job.ValidationError, or the store's.
func (m *Manager) Rule(ctx context.Context, name string) (Rule, error) {
	if err := checkName(name); err != nil {
		return Rule{}, err
	}
	d, err := m.rules.Get(ctx, name)
	if err == nil && d.Value.Deleted {
		err = ErrNotFound
	}
	return d.Value.shown(ctx), err
}

// shown is what the caller may see of a rule.
func (r Rule) shown(ctx context.Context) Rule {
	r.URL = string(access.SightOf(ctx).URL(job.Destination(r.URL)))
	return r
}

// Put creates or replaces a rule, and keeps its alerts. Errors: a *job.ValidationError, ErrTooMany, those of
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
	put, err := m.rules.Update(ctx, name, func(d *stored) error {
		created, r.Alerts = d.Version == 0 || d.Value.Deleted, d.Value.Alerts
		d.Value = r
		return nil
	}, allow...)
	if err != nil {
		return Rule{}, false, err
	}
	return put.Value, created, nil
}

// Delete deletes a rule, whose alerts are resolved then. Errors: ErrNotFound, a
// *job.ValidationError, those of allow, or the store's.
func (m *Manager) Delete(ctx context.Context, name string, allow ...documents.Allow) error {
	if err := checkName(name); err != nil {
		return err
	}
	_, err := m.rules.Change(ctx, name, func(d *stored) error {
		d.Value.Deleted = true
		return nil
	}, allow...)
	return err
}

// tell registers webhooks. After an error, it is called with them again.
func (m *Manager) tell(ctx context.Context, regs []store.Registration) error {
	if len(regs) == 0 {
		return nil
	}
	registered, err := m.o.Jobs.RegisterOwn(ctx, regs)
	if err != nil {
		return fmt.Errorf("register webhooks of alerts: %w", err)
	}
	for i := range registered {
		switch registered[i].Outcome {
		case store.Created, store.Same, store.Kept, store.DeadLetter:
			m.o.Logger.WarnContext(ctx, "alert", "webhook", regs[i].Key.ID, "labels", regs[i].Spec.Labels)
		case store.StoreFull:
			return fmt.Errorf("register webhooks of alerts: %w", store.ErrFull)
		default:
			return fmt.Errorf("the topic %s accepts no webhook", Topic)
		}
	}
	return nil
}
