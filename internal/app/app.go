package app

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// Store is the part of a store that an App needs. Every store.Store is one.
type Store interface {
	registrar
	store.Reader
	Count(ctx context.Context, c store.Count) (store.Counted, error)
	ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error)
}

// Options are the settings of an App. Only Store is required.
type Options struct {
	Store Store
	// Clock dates uids; nil is the machine's. The store's clock decides about jobs.
	Clock job.Clock
	// Pace is the clock by which overviews are shown for a while; nil is Clock.
	Pace job.Clock
	// NewUID makes the uid of a job with this key; one without an id gets the uid as
	// its id. Nil: ULIDs that increase.
	NewUID func(key job.Key) (string, error)
	// Metrics is where duehook_registrations_total is registered; nil: nowhere.
	Metrics prometheus.Registerer

	// Bounds are those of jobs; zero values are those of WithDefaults.
	Bounds job.Bounds
	// Policy is the server's retry policy, for jobs without one of their own.
	Policy retrypolicy.Policy
	// Carry are the options of the carriers, which explain why jobs wait.
	Carry store.CarryOptions
	// Guard refuses destinations at registration.
	Guard Guard

	Topics    *topics.Manager  // nil: topics have no defaults, and calls about topics fail
	Groups    *groups.Manager  // nil: there are none
	Endpoints Deliverer        // nil: calls that try or test an endpoint fail
	Recent    *recent.Recorder // nil: no attempts are known
}

// App does what clients ask for. It is safe for concurrent use.
type App struct {
	o         Options
	metrics   *metrics
	overviews *overviews
	counters  counters
	tests     atomic.Int64 // of endpoints, in flight
}

// New makes an App. It starts nothing.
func New(o Options) (*App, error) {
	if o.Store == nil {
		return nil, errors.New("app: Options.Store is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Pace = cmp.Or(o.Pace, o.Clock)
	if o.NewUID == nil {
		o.NewUID = newUIDs(o.Clock).next
	}
	o.Recent = cmp.Or(o.Recent, recent.New(recent.Options{}))
	o.Bounds = o.Bounds.WithDefaults()
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	return &App{o: o, metrics: m, overviews: newOverviews()}, nil
}

// Bounds are the bounds of jobs.
func (s *App) Bounds() job.Bounds { return s.o.Bounds }

// Policy is the server's retry policy.
func (s *App) Policy() retrypolicy.Policy { return s.o.Policy }

// CheckDestination is the check of Options.Guard.
func (s *App) CheckDestination(field job.Field, d job.Destination) error {
	return s.o.Guard.Check(field, d)
}
