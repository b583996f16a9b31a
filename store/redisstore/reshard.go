package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
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
	Walked   int64  // jobs examined, moved or not
	Moved    int64  // jobs that this run moved
	Checked  int64  // and found afterwards
	After    Census // once all are checked
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
// continues when it runs again. It writes each job to the new shard before it removes it from
// the old one. At the end it checks each job in its shard and counts all.
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
	epoch    string // of the old shards, if they lack no job; see epochs.go
	tally
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
		{"copy the epoch", m.copyEpoch},
		{"copy documents", m.copyDocuments},
		{"set the limits of topics", m.copyLimits},
		{"copy holds", m.copyCircuits},
		{"move jobs", m.moveJobs},
		{"check jobs", m.checkJobs},
		{"confirm the epoch", m.confirmEpoch},
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
		if err := m.awaitQuiet(ctx, 0); err != nil { // nothing is touched before
			return err
		}
		if err := m.put(ctx, layout{Version: was.Version, Shards: was.Shards, To: m.report.To}); err != nil {
			return err
		}
	}
	if err := m.awaitQuiet(ctx, m.o.Quiet); err != nil {
		if !m.report.Resumed {
			err = errors.Join(err, m.put(context.WithoutCancel(ctx), was))
		}
		return err
	}
	if m.stored.Before == nil {
		var before Census
		for _, sh := range m.from.shards {
			if err := m.census(ctx, m.from, sh, &before); err != nil {
				return err
			}
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

// awaitQuiet waits until no carrier has held a lock for Quiet. Among running nodes, one
// always does.
func (m *mover) awaitQuiet(ctx context.Context, quiet time.Duration) error {
	clock := job.SystemClock()
	began := clock.Now()
	since := began
	for {
		for _, s := range []*Store{m.from, m.to} {
			for _, sh := range s.shards {
				n, err := s.db.Exists(ctx, sh.lock).Result()
				if err != nil {
					return s.wrap(err)
				}
				if n > 0 {
					since = clock.Now()
				}
			}
		}
		now := clock.Now()
		switch {
		case since != began && quiet == 0, now.Sub(began) > m.o.Patience:
			if since != began {
				return ErrInUse
			}
			return nil
		case now.Sub(since) >= quiet:
			return nil
		}
		if err := job.Sleep(ctx, clock, lookAgainEvery); err != nil {
			return err
		}
	}
}

// same reports whether a shard is of both, the old and the new.
func (m *mover) same(sh *shard) bool {
	return slices.ContainsFunc(m.to.shards, func(o *shard) bool { return o.prefix == sh.prefix })
}

// copyDocuments copies the documents, which are in the first shard.
func (m *mover) copyDocuments(ctx context.Context) error {
	from, to := m.from.shards[0], m.to.shards[0]
	if from.prefix == to.prefix {
		return nil
	}
	return m.from.eachKey(ctx, from.prefix+"docs:*", func(keys []string) error {
		for _, key := range keys {
			docs, err := m.from.db.HGetAll(ctx, key).Result()
			if err != nil {
				return err
			}
			for name, text := range docs {
				if err := m.to.db.HSetNX(ctx, to.prefix+key[len(from.prefix):], name, text).Err(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// copyLimits sets the limits of topics in the new shards. Their rates start over.
func (m *mover) copyLimits(ctx context.Context) error {
	limits, err := listing.Limits(ctx, m.from)
	if err != nil {
		return err
	}
	for _, sh := range m.to.shards {
		if err := m.to.db.Del(ctx, sh.tokens).Err(); err != nil {
			return err
		}
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

// clear deletes the keys of removed shards, unless unreadable jobs are left there.
func (m *mover) clear(ctx context.Context) error {
	for _, sh := range m.from.shards {
		if m.same(sh) {
			continue
		}
		left := int64(0)
		for _, page := range sh.jobs {
			n, err := m.from.db.HLen(ctx, page).Result()
			if err != nil {
				return err
			}
			left += n
		}
		if left > 0 {
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
