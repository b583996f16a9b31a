package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Register registers jobs, with a script call for each shard and batch.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	out := make([]store.Registered, len(regs))
	here, taken, err := s.reserve(ctx, regs)
	if err != nil {
		return nil, err
	}
	where := func(n int) int { return s.shardFor(regs[here[n]].Key, regs[here[n]].Spec.OrderKey) }
	err = s.toShards(ctx, len(here), where, func(ctx context.Context, sh *shard, numbers []int) ([]int, error) {
		items := make([]int, len(numbers))
		for n, number := range numbers {
			items[n] = here[number]
		}
		size := store.Batch(len(items), maxRegister, func(i int) int { return store.SizeOfSpec(&regs[items[i]].Spec) })
		left, err := s.registerBatch(ctx, sh, regs, items[:size], out)
		again := make([]int, len(left), len(left)+len(items)-size)
		for n, i := range left {
			again[n], _ = slices.BinarySearch(here, i)
		}
		return append(again, numbers[size:]...), err
	})
	for _, i := range taken {
		if err == nil {
			out[i], err = s.registerElsewhere(ctx, regs[i])
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// registerBatch registers a batch, within a bound on the bytes of the jobs that hold the
// keys already. It returns the jobs left.
func (s *Store) registerBatch(ctx context.Context, sh *shard, regs []store.Registration, batch []int, out []store.Registered) (left []int, err error) {
	jobs := make([]newJob, len(batch))
	for n, i := range batch {
		if jobs[n], err = newJobOf(&regs[i]); err != nil {
			return nil, err
		}
	}
	a, err := s.takeIn(ctx, sh, jobs)
	if err != nil {
		return nil, err
	}
	for n, i := range batch {
		switch v := &a.verdicts[n]; {
		case v.left:
			left = append(left, i)
		case v.refused != 0:
			out[i] = store.Registered{Outcome: v.refused}
		case v.by.missing():
			out[i] = store.Registered{Outcome: store.Created, Job: regs[i].Job(a.now)}
		default:
			out[i], err = s.registerTaken(ctx, sh, regs[i], v.by)
			if led := (*forwardedError)(nil); errors.As(err, &led) {
				out[i], err = s.registerElsewhere(ctx, regs[i])
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return left, nil
}

func newJobOf(r *store.Registration) (newJob, error) {
	is := job.Job{Key: r.Key, Spec: r.Spec}
	when := r.Spec.When.Of(r.Key)
	j := newJob{
		key: r.Key, lane: is.Lane(), names: is.Indexes(),
		due: millis(when.Delay),
	}
	due, ttl, timeout := j.due, millis(r.Spec.TTL), millis(r.Spec.Timeout)
	if at := int64(when.At); at != 0 {
		j.due, due = -at, -1
	}
	if at := int64(r.ExpiresAt()); at != 0 {
		j.terms, ttl = orEmpty(-at)+" "+orEmpty(timeout), -1
	} else if ttl > 0 || timeout > 0 || r.Spec.OrderKey != "" {
		j.terms = orEmpty(ttl) + " " + orEmpty(timeout)
	}
	if r.Spec.OrderKey != "" {
		j.terms += " " + r.Spec.OrderKey
	}
	var err error
	j.body, err = encodeBody(r.UID, &r.Spec, due, ttl)
	return j, err
}

// orEmpty is a number as text, empty for zero.
func orEmpty(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// takeIn registers jobs whose keys are free, together with other callers' jobs unless they
// are many.
func (s *Store) takeIn(ctx context.Context, sh *shard, jobs []newJob) (*arrival, error) {
	a := &arrival{jobs: jobs}
	if len(jobs) >= goesAlone {
		return a, s.sendArrivals(ctx, sh, []*arrival{a})
	}
	if err := sh.intake.Do(ctx, a); err != nil {
		return nil, err
	}
	return a, a.err
}

// sendAll sends arrivals together. If Redis refuses, the cause may be one of them, which
// must not fail the others.
func (s *Store) sendAll(ctx context.Context, sh *shard, batch []*arrival) {
	err := s.sendArrivals(ctx, sh, batch)
	for i, a := range batch {
		if isReply(err) && len(batch) > 1 {
			a.err = s.sendArrivals(ctx, sh, batch[i:i+1])
		} else {
			a.err = err
		}
	}
}

func (s *Store) sendArrivals(ctx context.Context, sh *shard, batch []*arrival) error {
	total := 0
	for _, a := range batch {
		total += len(a.jobs)
	}
	b := sh.newBatch(total, 4, nil)
	for _, a := range batch {
		for i := range a.jobs {
			j := &a.jobs[i]
			b.add(j.key, j.lane, j.body, j.due, j.terms, b.indexes(j.names))
		}
	}
	keys, args := b.call(sh.own[registerScript], sh.wake)
	cmd, err := s.commit(ctx, sh, registerScript, keys, args)
	if refuses(err) {
		return s.refused(ctx, sh, batch, err)
	}
	if err != nil {
		return err
	}
	reply, err := timed(cmd)
	if err != nil {
		return err
	}
	if len(reply) != 1+total {
		return fmt.Errorf("redisstore: register answered %d values for %d jobs", len(reply), total)
	}
	now, reply := sh.clock.observe(reply[0]), reply[1:]
	for _, a := range batch {
		a.now, a.verdicts = now, make([]verdict, len(a.jobs))
		for i := range a.jobs {
			if a.verdicts[i], err = verdictOf(reply[i]); err != nil {
				return err
			}
		}
		reply = reply[len(a.jobs):]
	}
	return nil
}

// verdict reports why a job was not registered, if it was not.
type verdict struct {
	by      raw                   // the record that has its key
	refused store.RegisterOutcome // or zero
	left    bool                  // for another call: this one has read enough
}

// verdictOf reads the answer of lua/register.lua for a job.
func verdictOf(reply any) (v verdict, err error) {
	switch r := reply.(type) {
	case string:
		v.refused, v.left = refusals[r], r == "left"
		if r != "" && v.refused == 0 && !v.left {
			err = fmt.Errorf("redisstore: register answered %q", r)
		}
	case []any:
		v.by, err = rawOf(r)
	default:
		err = fmt.Errorf("redisstore: register answered %T for a job", r)
	}
	return v, err
}

// refusals are the answers of lua/register.lua for jobs whose topic accepts no more.
var refusals = map[string]store.RegisterOutcome{"full": store.TopicFull, "draining": store.TopicDraining}

// registerTaken registers a job whose key is held by the record w.
func (s *Store) registerTaken(ctx context.Context, sh *shard, reg store.Registration, w raw) (store.Registered, error) {
	last := job.Job{Key: reg.Key}
	for range store.Tries(ctx) {
		var old *record
		if !w.missing() {
			var err error
			old, err = s.decode(ctx, sh, reg.Key, w)
			if errors.Is(err, errRecord) {
				s.log.Error("a job's record cannot be read; it is registered anew", "error", err)
				err, old, w = s.forget(ctx, sh, reg.Key, w), nil, raw{}
			}
			if err != nil {
				return store.Registered{}, err
			}
		}
		if old != nil {
			last = old.Job
			// Our own record: the script was sent again after its reply was lost. With Renew,
			// an earlier call may have registered it.
			if old.UID == reg.UID && reg.OnConflict != job.ConflictRenew {
				return store.Registered{Outcome: store.Created, Job: old.Job}, nil
			}
			if outcome := rules.Against(&reg, &old.Job); outcome != store.Created {
				return store.HeldBy(outcome, old.Job), nil
			}
		}
		current, now, err := s.read(ctx, sh, reg.Key)
		if err != nil {
			return store.Registered{}, err
		}
		if current != w {
			w = current
			continue
		}
		j := reg.Job(now)
		if old != nil {
			j = reg.Over(&old.Job, now)
		}
		if j.DueAt == j.CreatedAt-1 { // which the record cannot tell from none
			j.DueAt, j.NextAt = j.CreatedAt, j.CreatedAt
		}
		fresh := newRecord(j, nil)
		if old != nil {
			fresh.Token = old.Token // no worker of the old job may settle the new one
		}
		written, err := s.put(ctx, takeScript, sh, old, fresh, nil)
		switch {
		case refuses(err):
			return s.refusedOver(ctx, sh, reg, w, err)
		case err != nil:
			return store.Registered{}, err
		case written == full:
			return store.Registered{Outcome: store.TopicFull}, nil
		case written == draining:
			return store.Registered{Outcome: store.TopicDraining}, nil
		case written != outrun:
			return store.Registered{Outcome: store.Created, Job: fresh.Job}, nil
		}
	}
	return store.HeldBy(store.Busy, last), nil
}

// forget removes the entries of a job whose record w cannot be read, so that its key is
// free. Its lane may be any lane of the topic.
func (s *Store) forget(ctx context.Context, sh *shard, key job.Key, w raw) error {
	lanes, err := s.allNames(ctx, sh.lanesOf(key.Topic), 0)
	if err != nil {
		return err
	}
	groups, err := s.allNames(ctx, sh.deadsOf(key.Topic), 0)
	if err != nil {
		return err
	}
	c := change{key: key, was: w, from: position{lane: job.Lane{Topic: key.Topic}, state: int(job.Delivered)}}
	if name, err := s.holding(ctx, key.ID, lanes, sh.bucket); err != nil {
		return err
	} else if name != "" {
		c.from.state = int(job.Waiting)
		if c.from.lane, err = job.ParseLane(name); err != nil {
			return err
		}
	}
	if c.from.group, err = s.holding(ctx, key.ID, groups, sh.dead); err != nil {
		return err
	} else if c.from.group != "" {
		c.from.state = int(job.Dead)
	}
	if lane, turn, err := s.turnOf(ctx, sh, key); err != nil {
		return err
	} else if turn != "" {
		c.from.lane, c.from.turn = lane, turn
	}
	_, err = s.change(ctx, s.commit, changeScript, sh, false, []change{c.forgetting()})
	return err
}

// holding is the first of the named ZSETs that has an entry of a job; empty if none has.
func (s *Store) holding(ctx context.Context, id string, names []string, keyOf func(name string) string) (string, error) {
	for some := range slices.Chunk(names, countsAtOnce) {
		pipe := s.db.Pipeline()
		scores := make([]*redis.FloatCmd, len(some))
		for i, name := range some {
			scores[i] = pipe.ZScore(ctx, keyOf(name), id)
		}
		if err := s.exec(ctx, pipe); err != nil {
			return "", err
		}
		for i, score := range scores {
			if score.Err() == nil {
				return some[i], nil
			}
		}
	}
	return "", nil
}
