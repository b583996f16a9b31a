package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Census counts jobs by their end. Unfinished jobs are counted together, because moving may
// change their states.
type Census struct {
	Unfinished int64 `json:"unfinished"`
	Dead       int64 `json:"dead"`
	Delivered  int64 `json:"delivered"`
	Cancelled  int64 `json:"cancelled"`
	Expired    int64 `json:"expired"`
}

func (c *Census) add(s job.State, n int64) {
	switch s {
	case job.Dead:
		c.Dead += n
	case job.Delivered:
		c.Delivered += n
	case job.Cancelled:
		c.Cancelled += n
	case job.Expired:
		c.Expired += n
	default:
		c.Unfinished += n
	}
}

// Jobs are all of them.
func (c *Census) Jobs() int64 { return c.Unfinished + c.Dead + c.Delivered + c.Cancelled + c.Expired }

// Resharding is the progress of Reshard.
type Resharding struct {
	From, To int
	Resumed  bool
	Before   Census // when it began first
	Moved    int64  // jobs that this run moved
	After    Census // once all are moved
	// Unreadable are jobs whose records cannot be read. They stay where they are.
	Unreadable int64
	Done       bool
}

// ReshardOptions are those of Reshard.
type ReshardOptions struct {
	Options // Shards is the new number
	// Quiet is how long no node may hold a carrier's lock before Reshard moves jobs,
	// Patience how long Reshard waits for that. Zero: longer than layoutAge, and 30 s.
	Quiet, Patience time.Duration
	// Report is called every few seconds; nil: it is not.
	Report func(Resharding)

	hook redis.Hook // of tests
}

// ErrInUse reports that a node is running in the namespace.
var ErrInUse = errors.New("a node is running: stop all nodes of the namespace first, and wait 15 seconds after one was killed")

// Reshard moves a namespace's jobs to another number of shards, while no node is running. A
// running node serves nothing from then on. Reshard may be interrupted at any time and
// continues when it runs again. Each number of shards has keys of its own, so Reshard copies
// jobs to the new shards, looks for each there, and then forgets it in the old ones.
func Reshard(ctx context.Context, o ReshardOptions) (Resharding, error) {
	if o.Quiet == 0 {
		o.Quiet = layoutAge + callTimeout
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Retention = time.Hour // none is forgotten
	to, err := prepare(o.Options, false)
	if err != nil {
		return Resharding{}, err
	}
	defer to.Close() //nolint:errcheck // all is written
	m := &mover{o: o, to: to}
	m.hook(to)
	m.report.To = o.Shards
	return m.run(ctx)
}

// mover is one run of Reshard.
type mover struct {
	o        ReshardOptions
	from, to *Store
	stored   *layout // as stored in Redis
	report   Resharding
	told     time.Time       // when Report was called last
	spoiled  map[string]bool // old shards with jobs that cannot be read, by their prefixes
}

func (m *mover) run(ctx context.Context) (Resharding, error) {
	if err := m.plan(ctx); err != nil || m.report.Done {
		return m.report, err
	}
	old := m.o.Options
	old.Shards = m.report.From
	var err error
	if m.from, err = prepare(old, false); err != nil {
		return m.report, err
	}
	defer m.from.Close() //nolint:errcheck // all is written
	m.hook(m.from)
	if err := m.begin(ctx); err != nil {
		return m.report, err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"set the limits of topics", m.copyLimits},
		{"copy circuits", m.copyCircuits},
		{"move jobs", m.moveJobs},
		{"clear old shards", m.clear},
	} {
		if err := step.do(ctx); err != nil {
			return m.report, fmt.Errorf("%s: %w; run it again to continue", step.what, err)
		}
	}
	if err := m.put(ctx, layout{Version: layoutVersion, Shards: m.report.To}); err != nil {
		return m.report, err
	}
	m.report.Done = true
	if m.report.After != m.report.Before {
		return m.report, fmt.Errorf("all jobs are in their shards, but there were %+v before, and there are %+v now", m.report.Before, m.report.After)
	}
	return m.report, nil
}

func (m *mover) hook(s *Store) {
	if m.o.hook != nil {
		s.db.AddHook(m.o.hook)
	}
}

// plan reads the stored layout and decides whether there is work.
func (m *mover) plan(ctx context.Context) error {
	stored, err := readLayout(ctx, m.to.db, m.o.Namespace)
	if err != nil {
		return m.to.wrap(err)
	}
	if stored == nil {
		return fmt.Errorf("the namespace %s does not exist in Redis: check --namespace and --redis-url", m.o.Namespace)
	}
	switch {
	case stored.Version != layoutVersion:
		return &LayoutError{Namespace: m.o.Namespace, Shards: m.o.Shards, stored: *stored}
	case stored.To != 0 && stored.To != m.o.Shards:
		return &LayoutError{Namespace: m.o.Namespace, Shards: m.o.Shards, stored: *stored}
	}
	m.stored = stored
	m.report.From, m.report.Resumed = stored.Shards, stored.To != 0
	m.report.Done = stored.To == 0 && stored.Shards == m.o.Shards
	return nil
}

// begin locks out all nodes, and counts the jobs.
func (m *mover) begin(ctx context.Context) error {
	was := *m.stored
	if !m.report.Resumed {
		if used, err := m.inUse(ctx); used || err != nil { // nothing is touched before
			return cmp.Or(err, ErrInUse)
		}
		if err := m.put(ctx, layout{Version: was.Version, Shards: was.Shards, To: m.report.To}); err != nil {
			return err
		}
	}
	if err := m.awaitQuiet(ctx); err != nil {
		if !m.report.Resumed {
			err = errors.Join(err, m.put(context.WithoutCancel(ctx), was))
		}
		return err
	}
	if m.stored.Before == nil {
		before, err := census(ctx, m.from)
		if err != nil {
			return err
		}
		with := *m.stored
		with.Before = &before
		if err := m.put(ctx, with); err != nil {
			return err
		}
	}
	m.report.Before = *m.stored.Before
	return nil
}

// put writes the layout, if it is as it was.
func (m *mover) put(ctx context.Context, l layout) error {
	stands, err := writeLayout(ctx, m.to.db, m.o.Namespace, m.stored, &l)
	if err != nil {
		return m.to.wrap(err)
	}
	if stands.Version != l.Version || stands.Shards != l.Shards || stands.To != l.To || (stands.Before == nil) != (l.Before == nil) {
		return errors.New("the layout was modified concurrently; is another duehook reshard running?")
	}
	m.stored = stands
	return nil
}

// lookAgain is the interval of checking whether nodes run.
const lookAgainEvery = 250 * time.Millisecond

// inUse reports whether a node holds a carrier's lock. Among running nodes, one always does.
func (m *mover) inUse(ctx context.Context) (bool, error) {
	for _, sh := range m.from.shards {
		if n, err := m.from.db.Exists(ctx, sh.lock).Result(); n > 0 || err != nil {
			return n > 0, m.from.wrap(err)
		}
	}
	return false, nil
}

// awaitQuiet waits until no node has held a lock for Quiet.
func (m *mover) awaitQuiet(ctx context.Context) error {
	clock := job.SystemClock()
	began := clock.Now()
	for since := began; ; {
		used, err := m.inUse(ctx)
		now := clock.Now()
		switch {
		case err != nil:
			return err
		case used:
			since = now
		case now.Sub(since) >= m.o.Quiet:
			return nil
		}
		if now.Sub(began) > m.o.Patience {
			return ErrInUse
		}
		if err := job.Sleep(ctx, clock, lookAgainEvery); err != nil {
			return err
		}
	}
}

// copyLimits sets the limits of topics in the new shards. Their rates start over.
func (m *mover) copyLimits(ctx context.Context) error {
	limits, err := listing.Limits(ctx, m.from)
	if err != nil {
		return err
	}
	for _, topic := range slices.Sorted(maps.Keys(limits)) {
		if limits[topic] == (store.Limits{}) {
			continue // an earlier run has set them, and begun to clear the old ones
		}
		if err := m.to.SetLimits(ctx, topic, limits[topic]); err != nil {
			return err
		}
	}
	return nil
}

// copyCircuits copies circuits to all shards.
func (m *mover) copyCircuits(ctx context.Context) error {
	for _, sh := range m.from.shards {
		circuits, err := m.from.db.HGetAll(ctx, sh.circuits).Result()
		if err != nil {
			return err
		}
		for _, other := range m.to.shards {
			for endpoint, circuit := range circuits {
				if err := m.to.db.HSetNX(ctx, other.circuits, endpoint, circuit).Err(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// clear deletes the keys of old shards, unless unreadable jobs are left there.
func (m *mover) clear(ctx context.Context) error {
	for _, sh := range m.from.shards {
		if m.spoiled[sh.prefix] {
			continue
		}
		err := m.from.eachKey(ctx, sh.prefix+"*", func(keys []string) error {
			if len(keys) == 0 {
				return nil
			}
			return m.from.db.Unlink(ctx, keys...).Err() // they are in one slot
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachKey calls do with the keys of all masters that match a pattern.
func (s *Store) eachKey(ctx context.Context, pattern string, do func(keys []string) error) error {
	scan := func(ctx context.Context, node redis.Cmdable) error {
		return s.eachPage(func(cursor uint64) *redis.ScanCmd { return node.Scan(ctx, cursor, pattern, 1000) }, do)
	}
	cluster, ok := s.db.(*redis.ClusterClient)
	if !ok {
		return scan(ctx, s.db)
	}
	one := make(chan struct{}, 1) // the library asks them all at once
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		one <- struct{}{}
		defer func() { <-one }()
		return scan(ctx, node)
	})
}
