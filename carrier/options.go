package carrier

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/job"
)

// Options set up a Carrier. The zero value of a field means its default.
type Options struct {
	// Store is required.
	Store Store
	// Clock times the loops; the machine's by default. Housekeeping always
	// goes by the machine's.
	Clock job.Clock
	// Logger gets nothing by default.
	Logger *slog.Logger
	// Metrics is where the metrics are registered; nowhere by default.
	Metrics prometheus.Registerer
	// Random gives numbers from 0 up to 1, from any goroutine, by which pauses
	// are spread; those of math/rand/v2 by default.
	Random func() float64
	// ID names this node in the journal of stores that keep one. Required.
	ID string

	// Cap is the most hints on a shard's ready list: 1000.
	Cap int
	// Visibility is how long a carried job may wait to be claimed before it is
	// due again: 15 s.
	Visibility time.Duration
	// LongestLease is the longest lease that a claim of any node may get: unknown. It
	// bounds what a clock of the store that was ahead may have put off.
	LongestLease time.Duration
	// EndpointLimit is the most carried and claimed jobs of one endpoint: 256. A
	// negative one means no limit.
	EndpointLimit int
	// TopicLimits are the most carried and claimed jobs of a topic for one
	// endpoint, for topics that have a limit of their own: none.
	TopicLimits map[string]int
	// HalfOpenLimit is the EndpointLimit of one whose hold has just ended: 3.
	HalfOpenLimit int

	// LockTTL is how long a shard's lock outlives a holder that died: 15 s. It
	// is extended every third of it. At least 100 ms.
	LockTTL time.Duration
	// Poll is how often the holder of the lock looks when it knows of nothing
	// due: 1 s. It bounds the delay that a lost wake-up can cause. Carriers
	// without the lock look a third as often. At least 10 ms.
	Poll time.Duration
	// Lag is how far a carrier without the lock stays behind the due times:
	// 40 ms. Jobs are up to that late while a dead holder's lock lasts.
	Lag time.Duration

	// PurgeSchedule and DepthSchedule say when ended jobs are purged and when
	// the depth metrics are sampled, as cron expressions of five fields or
	// such as "@every 30s": "@every 30s" and "@every 30s".
	PurgeSchedule string
	DepthSchedule string
}

const (
	defaultCap           = 1000
	defaultVisibility    = 15 * time.Second
	defaultEndpointLimit = 256
	defaultHalfOpenLimit = 3
	defaultLockTTL       = 15 * time.Second
	defaultPoll          = time.Second
	defaultLag           = 40 * time.Millisecond
	defaultPurgeSchedule = "@every 30s"
	defaultDepthSchedule = "@every 30s"

	minLockTTL = 100 * time.Millisecond
	minPoll    = 10 * time.Millisecond
)

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	o.Cap = cmp.Or(o.Cap, defaultCap)
	o.Visibility = cmp.Or(o.Visibility, defaultVisibility)
	o.EndpointLimit = cmp.Or(o.EndpointLimit, defaultEndpointLimit)
	o.HalfOpenLimit = cmp.Or(o.HalfOpenLimit, defaultHalfOpenLimit)
	o.LockTTL = cmp.Or(o.LockTTL, defaultLockTTL)
	o.Poll = cmp.Or(o.Poll, defaultPoll)
	o.Lag = cmp.Or(o.Lag, defaultLag)
	o.PurgeSchedule = cmp.Or(o.PurgeSchedule, defaultPurgeSchedule)
	o.DepthSchedule = cmp.Or(o.DepthSchedule, defaultDepthSchedule)
	return o
}

func (o Options) check() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("carrier: "+format, args...))
		}
	}
	require(o.Store != nil, "a store is required")
	require(o.ID != "", "an ID is required")
	require(o.Cap > 0, "the cap of the ready list must be positive, not %d", o.Cap)
	require(o.Visibility > 0, "the visibility deadline must be positive, not %v", o.Visibility)
	require(o.HalfOpenLimit > 0, "the probe limit must be positive, not %d", o.HalfOpenLimit)
	require(o.LockTTL >= minLockTTL, "the lock's TTL must be at least %v, not %v", minLockTTL, o.LockTTL)
	require(o.Poll >= minPoll, "the poll interval must be at least %v, not %v", minPoll, o.Poll)
	require(o.Lag > 0, "the lag must be positive, not %v", o.Lag)
	return errors.Join(errs...)
}
