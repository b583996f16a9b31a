package sqlstore

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
	"github.com/duehook/duehook/store/rules"
)

const (
	// intakes is how many transactions register jobs at a time. Registrations that arrive meanwhile share the next one, which is cheaper
	// than one each: another one begins beside it for enoughJobs.
	intakes    = 4
	enoughJobs = 100
	// maxRegister bounds the jobs of a transaction.
	maxRegister = 500
)

// arrival is the registrations of one caller.
type arrival struct {
	ctx     context.Context // of the caller
	regs    []store.Registration
	results []store.Registered
	left    bool // out, because the caller has given up
	err     error
}

func (a *arrival) cost() (jobs, bytes int) {
	for i := range a.regs {
		bytes += store.SizeOfSpec(&a.regs[i].Spec)
	}
	return len(a.regs), bytes
}

func newIntake(s *Store) *batch.Batcher[*arrival] {
	return batch.New(batch.Options[*arrival]{Workers: intakes, Enough: enoughJobs, MaxCount: maxRegister, MaxBytes: 4 * store.BatchBytes, Cost: (*arrival).cost}, s.registerAll)
}

// Register registers jobs. Callers at the same time share a transaction.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	var results []store.Registered
	for len(regs) > 0 {
		n := store.Batch(len(regs), maxRegister, func(i int) int { return store.SizeOfSpec(&regs[i].Spec) })
		a := &arrival{ctx: ctx, regs: regs[:n], results: make([]store.Registered, n)}
		if err := s.intake.Do(ctx, a); err != nil {
			return nil, s.explain(err)
		}
		if a.err != nil {
			return nil, a.err
		}
		results, regs = append(results, a.results...), regs[n:]
	}
	return results, nil
}

// registerAll registers jobs together. If the database refuses, the cause may be one of them, which
// must not fail the others.
func (s *Store) registerAll(ctx context.Context, all []*arrival) {
	err := s.registerBatch(ctx, all)
	for _, a := range all {
		if a.err = err; err != nil && len(all) > 1 && !errors.Is(err, store.ErrUnavailable) {
			a.err = s.registerBatch(ctx, []*arrival{a})
		}
		if a.left {
			a.err = gone(a.ctx)
		}
	}
}

// doubtful is how many transactions look which keys are free after one has failed because it did not.
const doubtful = 16

func (s *Store) registerBatch(ctx context.Context, all []*arrival) error {
	doubts, tries := s.doubts.Load() > 0, 0
	if doubts {
		s.doubts.Add(-1)
	}
	err := s.change(ctx, func(ctx context.Context, t *txn) error {
		if tries++; tries == 2 { // most probably, a key was taken
			doubts = true
			s.doubts.Store(doubtful)
		}
		return t.register(ctx, all, doubts)
	})
	if !errors.Is(err, store.ErrFull) {
		return err
	}
	for _, a := range all {
		for i := range a.results {
			a.results[i] = store.Registered{Outcome: store.StoreFull}
		}
	}
	return nil
}

// registering is the registrations of a transaction.
type registering struct {
	t     *txn
	all   []*arrival
	turns records.Turns
	rows  *turns
	admission
}

// register registers jobs. Without doubts, it inserts them all if nothing speaks against it: the transaction fails if a key is taken.
func (t *txn) register(ctx context.Context, all []*arrival, doubts bool) error {
	var topics, orders []string
	var ordered []job.Key
	for _, a := range all {
		for i := range a.regs {
			r := &a.regs[i]
			topics = append(topics, r.Key.Topic)
			if r.Spec.OrderKey != "" {
				orders, ordered = append(orders, records.OrderOf(r.Key.Topic, r.Spec.OrderKey)), append(ordered, r.Key)
			}
		}
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	b := &pgx.Batch{}
	if !doubts && len(ordered) == 0 {
		c := &registering{t: t, all: all, admission: *t.askLimits(b, topics)}
		if err := t.send(ctx, b); err != nil {
			return err
		}
		if c.leaveGone(); c.addAll() {
			return nil
		}
		b = &pgx.Batch{}
	}
	limits := t.readLimits(b, topics, true)
	t.lockTurns(b, orders)
	if len(ordered) > 0 {
		t.lock(b, withContent, sortedKeys(ordered))
	}
	if err := t.send(ctx, b); err != nil {
		return err
	}
	c := &registering{t: t, all: all, admission: *limits}
	c.turns, c.rows = t.turns(ctx)
	c.leaveGone()
	if err := c.insertFree(ctx); err != nil {
		return err
	}
	for _, a := range c.all {
		for i := range a.regs {
			a.results[i] = c.one(&a.regs[i])
		}
	}
	return c.rows.err
}

// leaveGone leaves out the jobs of callers that have given up: see change.
func (c *registering) leaveGone() {
	for _, a := range c.all {
		a.left = a.ctx.Err() != nil
	}
	c.all = slices.DeleteFunc(slices.Clone(c.all), func(a *arrival) bool { return a.left })
}

// addAll adds all jobs, without looking whether their keys are free. It adds none if a key comes twice, or a topic may refuse jobs.
func (c *registering) addAll() bool {
	added := map[job.Key]*record{}
	for _, a := range c.all {
		for i := range a.regs {
			r := &a.regs[i]
			if added[r.Key] != nil || c.restricts(r.Key.Topic) {
				return false
			}
			j := r.Job(c.t.now)
			a.results[i] = store.Registered{Outcome: store.Created, Job: j}
			fresh := newRecord(&j)
			fresh.fresh, fresh.free = true, true
			added[r.Key] = fresh
		}
	}
	c.t.rows.jobs = added
	return true
}

// insertFree inserts the jobs whose keys are most probably free, and then reads the others.
func (c *registering) insertFree(ctx context.Context) error {
	t := c.t
	var free []*record
	var taken []job.Key
	seen := map[job.Key]bool{}
	for _, a := range c.all {
		for i := range a.regs {
			r := &a.regs[i]
			if _, known := t.rows.jobs[r.Key]; known || seen[r.Key] {
				continue
			}
			seen[r.Key] = true
			if c.restricts(r.Key.Topic) {
				taken = append(taken, r.Key)
				continue
			}
			j := r.Job(t.now)
			free = append(free, newRecord(&j))
		}
	}
	if len(free) > 0 {
		left, err := t.insertNew(ctx, free)
		if err != nil {
			return err
		}
		taken = append(taken, left...)
	}
	if len(taken) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	t.lock(b, withContent, sortedKeys(taken))
	return t.send(ctx, b)
}

// insertNew inserts records of free keys, and returns the keys that are taken.
func (t *txn) insertNew(ctx context.Context, all []*record) (taken []job.Key, err error) {
	sortRecords(all)
	inserted := make(map[job.Key]bool, len(all))
	b := &pgx.Batch{}
	collect(b.Queue(t.s.sql(insertFreeText), freshColumns.values(all)...), func(row pgx.Rows) error {
		var key job.Key
		err := row.Scan(&key.Topic, &key.ID)
		inserted[key] = true
		return err
	})
	if err := t.send(ctx, b); err != nil {
		return nil, err
	}
	for _, r := range all {
		if !inserted[r.Key] {
			taken = append(taken, r.Key)
			continue
		}
		r.inserted, r.stored, r.content = true, true, false
		t.hold(r)
	}
	return taken, nil
}

// one decides about a registration.
func (c *registering) one(r *store.Registration) store.Registered {
	t := c.t
	old := t.rows.jobs[r.Key]
	if old != nil && old.inserted && old.UID == r.UID && !old.answered { // just now, by insertFree
		old.answered = true
		return store.Registered{Outcome: store.Created, Job: r.Job(t.now)}
	}
	if old != nil && old.gone {
		old = nil
	}
	j := r.Job(t.now)
	if old != nil && t.rows.bad[r.Key] == nil {
		before, err := old.job()
		if err == nil {
			if outcome := rules.Against(r, &before); outcome != store.Created {
				return store.HeldBy(outcome, before)
			}
		}
		j = r.Over(&old.Job, t.now)
		j.Token = old.Token // no worker of the old job may settle the new one
	}
	if old == nil || old.State.Final() {
		if outcome := c.admits(r.Key.Topic); outcome != store.Created {
			return store.Registered{Outcome: outcome}
		}
		c.unfinished[r.Key.Topic]++
	}
	if old != nil && t.rows.heads[old.order] != nil { // another one has ended, and no turn
		t.leave(c.turns, old)
	}
	fresh := newRecord(&j)
	t.enter(c.turns, fresh)
	t.add(fresh)
	return store.Registered{Outcome: store.Created, Job: j}
}
