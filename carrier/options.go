package carrier

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Options of a Carrier. A zero field has its default.
type Options struct {
	// Store is required.
	Store Store
	// Lists are the ready lists of the store. Nil: it has none, and nothing is carried.
	Lists store.ReadyList
	// Clock is the machine's by default.
	Clock job.Clock
	// Logger is none by default.
	Logger *slog.Logger
	// Metrics is none by default: metrics are not registered.
	Metrics prometheus.Registerer
	// Random returns numbers from 0 up to 1 that spread pauses. It is safe for
	// concurrent use. Default: math/rand/v2.
	Random func() float64

	// CarryOptions are the terms of each call of Lists.Carry. The defaults are a Cap of
	// 1000, a Visibility of 15 s and a HalfOpenLimit of 3.
	store.CarryOptions

	// LockTTL is the TTL of a shard's lock: 15 s. The holder extends it three times
	// in that time. At least 100 ms.
	LockTTL time.Duration
	// Poll is the interval of rounds of the lock holder without due jobs: 1 s. It
	// bounds the delay by a lost wake-up. Carriers without the lock poll a third as
	// often. At least 10 ms.
	Poll time.Duration
	// Lag is how long after its due time a carrier without the lock carries a job:
	// 40 ms. It is the delay of jobs until the lock of a dead holder expires.
	Lag time.Duration

	// Housekeeping is the interval at which ended jobs are purged and the
	// metrics of the store are sampled: 30 s. At least 1 s.
	Housekeeping time.Duration
	// Waiting takes the due jobs of topics at that interval, and nil after a call that
	// failed. Nil: they are not sampled.
	Waiting func(*store.Backlogs)
	// MayPurge reports whether ended jobs may be purged now. Nil: always.
	MayPurge func() bool
}

const (
	defaultCap           = 1000
	defaultVisibility    = 15 * time.Second
	defaultHalfOpenLimit = 3
	defaultLockTTL       = 15 * time.Second
	defaultPoll          = time.Second
	defaultLag           = 40 * time.Millisecond
	defaultHousekeeping  = 30 * time.Second

	minLockTTL      = 100 * time.Millisecond
	minPoll         = 10 * time.Millisecond
	minHousekeeping = time.Second
)

func (o Options) withDefaults() Options {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Random == nil {
		o.Random = rand.Float64
	}
	o.Cap = cmp.Or(o.Cap, defaultCap)
	o.Visibility = cmp.Or(o.Visibility, defaultVisibility)
	o.HalfOpenLimit = cmp.Or(o.HalfOpenLimit, defaultHalfOpenLimit)
	o.LockTTL = cmp.Or(o.LockTTL, defaultLockTTL)
	o.Poll = cmp.Or(o.Poll, defaultPoll)
	o.Lag = cmp.Or(o.Lag, defaultLag)
	o.Housekeeping = cmp.Or(o.Housekeeping, defaultHousekeeping)
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
	require(o.Cap > 0, "the cap of the ready list must be positive, not %d", o.Cap)
	require(o.Visibility > 0, "the visibility deadline must be positive, not %v", o.Visibility)
	require(o.HalfOpenLimit > 0, "the limit of half-open circuits must be positive, not %d", o.HalfOpenLimit)
	require(o.LockTTL >= minLockTTL, "the lock's TTL must be at least %v, not %v", minLockTTL, o.LockTTL)
	require(o.Poll >= minPoll, "the poll interval must be at least %v, not %v", minPoll, o.Poll)
	require(o.Lag > 0, "the lag must be positive, not %v", o.Lag)
	require(o.Housekeeping >= minHousekeeping, "the housekeeping interval must be at least %v, not %v", minHousekeeping, o.Housekeeping)
	return errors.Join(errs...)
}
