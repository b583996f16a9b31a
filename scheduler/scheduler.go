package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler/topics"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Store is the part of a store that a Scheduler needs. Every store.Store is one.
type Store interface {
	rules.Registrar
	store.Reader
	Count(ctx context.Context, c store.Count) (store.Counted, error)
	Limits(ctx context.Context) (map[string]store.Limits, error)
}

// Topics keeps the settings of topics. A *topics.Manager is one.
type Topics interface {
	Get(ctx context.Context, topic string) (topics.Topic, error)
	// Known are the topics with settings or a status, by name, as far as this node
	// knows. Callers must not change the map.
	Known() map[string]topics.Topic
	Put(ctx context.Context, topic string, s topics.Settings, allow ...topics.Allow) (topics.Topic, error)
	Delete(ctx context.Context, topic string, allow ...topics.Allow) error
	SetStatus(ctx context.Context, topic string, s topics.Status, allow ...topics.Allow) (topics.Topic, error)
	// Defaults are the defaults of the topic's jobs, or nil.
	Defaults(topic string) *job.Defaults
}

// Recent knows the recent attempts of all nodes. A *recent.Recorder is one.
type Recent interface {
	Activity(ctx context.Context, now job.Instant) (recent.Activity, error)
	Health(ctx context.Context) (map[string]recent.Health, error)
}

// Options are the settings of a Scheduler. Only Store is required.
type Options struct {
	Store Store
	// Clock gives the time in uids and paces overviews; nil is the machine's. The
	// store's clock decides about jobs.
	Clock job.Clock
	// NewUID makes the uid of a job with this key; one without an id gets the uid as
	// its id. Nil: ULIDs that increase.
	NewUID func(key job.Key) (string, error)
	// Metrics is where duehook_registrations_total is registered; nil: nowhere.
	Metrics prometheus.Registerer

	// Limits bound jobs; zero values mean a body of 256 KiB and a timeout of 60 s.
	Limits job.Limits
	// Policy is the server's retry policy, for jobs without one of their own.
	Policy retrypolicy.Policy
	// Carry are the options of the carriers, which explain why jobs wait.
	Carry store.CarryOptions
	// CheckURL refuses destinations at registration; nil refuses none.
	CheckURL func(rawURL string) error

	Topics    Topics    // nil: topics have no settings
	Groups    Groups    // nil: there are none
	Endpoints Deliverer // nil: no endpoint can be tried or tested
	Recent    Recent    // nil: no attempts are known
}

// Scheduler does what clients ask for. It is safe for concurrent use.
type Scheduler struct {
	o         Options
	metrics   *metrics
	overviews *overviews
	counters  counters
	tests     atomic.Int64 // of endpoints, in flight
}

// New makes a Scheduler. It starts nothing.
func New(o Options) (*Scheduler, error) {
	if o.Store == nil {
		return nil, errors.New("scheduler: Options.Store is missing")
	}
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.NewUID == nil {
		o.NewUID = newUIDs(o.Clock).next
	}
	if o.Endpoints == nil {
		o.Endpoints = noDeliverer{}
	}
	if o.Topics == nil {
		o.Topics = noTopics{}
	}
	if o.Groups == nil {
		o.Groups = noGroups{}
	}
	if o.Recent == nil {
		o.Recent = recent.New(recent.Options{})
	}
	o.Limits.MaxBody = cmp.Or(o.Limits.MaxBody, 256<<10)
	o.Limits.MaxTimeout = cmp.Or(o.Limits.MaxTimeout, time.Minute)
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	return &Scheduler{o: o, metrics: m, overviews: newOverviews()}, nil
}

// Limits are the limits of jobs.
func (s *Scheduler) Limits() job.Limits { return s.o.Limits }

// Policy is the server's retry policy.
func (s *Scheduler) Policy() retrypolicy.Policy { return s.o.Policy }

// BlockedError refuses a destination that the server must not call. Its cause is
// for the log: a client could learn from it about the network of the server.
type BlockedError struct {
	Field job.Field // that names the destination, as in a job.FieldError
	Cause error
}

func (e *BlockedError) Error() string { return fmt.Sprintf("%s is blocked: %v", e.Field, e.Cause) }

func (e *BlockedError) Unwrap() error { return e.Cause }

// CheckDestination returns a *BlockedError if the server must not call the
// destination, which the field names.
func (s *Scheduler) CheckDestination(field job.Field, d job.Destination) error {
	if s.o.CheckURL == nil {
		return nil
	}
	if err := s.o.CheckURL(string(d)); err != nil {
		return &BlockedError{Field: field, Cause: err}
	}
	return nil
}
