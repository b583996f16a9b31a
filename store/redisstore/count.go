package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Count adds to the count of a job, with a script call that handles no body.
func (s *Store) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	slot := s.callers.take()
	defer s.callers.give(slot)
	for try := range store.Tries(ctx) {
		is, err := s.countable(ctx, c.Key, try > 0)
		if err != nil {
			return store.Counted{}, err
		}
		if is.Spec.Count == nil {
			return store.Counted{Job: is.Job}, job.ErrNotCounted
		}
		sh := s.shards[s.shardFor(c.Key, is.Spec.OrderKey)]
		answer, err := s.count(ctx, sh, is, slot, c)
		switch {
		case errors.Is(err, redis.Nil): // the job was changed, or is gone
			continue
		case err != nil:
			return store.Counted{}, err
		}
		return is.counted(sh, c.Adds, answer)
	}
	return store.Counted{}, store.ErrConflict
}

// count runs the script.
func (s *Store) count(ctx context.Context, sh *shard, is *countable, slot string, c store.Count) (string, error) {
	lane, due := is.Lane().String(), ""
	if is.Spec.FiresAtDeadline() {
		due = strconv.FormatInt(int64(is.DueAt), 10)
	}
	script := countScript
	if rules.CountNeedsRoom(c.Adds) {
		script = recallScript
	}
	keys := append(sh.own[script], sh.bucket(lane), sh.page(c.Key), sh.counted(is.UID))
	args := []any{
		sh.wake, lane, c.Key.String(), c.Key.ID, is.uid, is.mark, is.Spec.Count.Target, due, slot, s.callers.call(),
		int64(job.MaxCount), job.MaxCountKeys,
	}
	sum, keyed := int64(0), []any(nil)
	for _, a := range c.Adds {
		if a.Key == "" {
			sum += a.N
		} else {
			keyed = append(keyed, a.Key, a.N)
		}
	}
	cmd, err := s.commit(ctx, sh, script, keys, append(append(args, sum), keyed...))
	if refuses(err) {
		return "", fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	if err != nil {
		return "", err
	}
	return cmd.Text()
}

// counted applies the rules of the domain to the script's answer, which describes the job
// before the adds.
func (is *countable) counted(sh *shard, adds []job.Add, answer string) (store.Counted, error) {
	facts, head, _ := strings.Cut(answer, "\n")
	var call, now int64
	var state job.State
	var keys int
	var known string
	// Without keyed adds, known is empty.
	if n, err := fmt.Sscanf(facts, "%d %d %d %d %s", &call, &now, &state, &keys, &known); n < 4 {
		return store.Counted{}, fmt.Errorf("redisstore: count answered %q: %w", facts, err)
	}
	r := record{Job: is.Job}
	if err := r.proceed(decodeProgressHead(head)); err != nil {
		return store.Counted{}, err
	}
	if state == job.Ready {
		r.State = job.Ready
	}
	at := sh.clock.observe(now)
	before := map[string]bool{}
	for _, a := range adds {
		if a.Key != "" && known != "" {
			before[a.Key], known = before[a.Key] || known[0] == '1', known[1:]
		}
	}
	c := store.Counted{Job: r.Job, Now: at}
	t, err := r.Tally(adds, job.CountFacts{Now: at, Keys: keys, Known: func(key string) bool { return before[key] }})
	if err != nil {
		return c, err
	}
	if t.Changes(&c.Job) {
		t.Apply(&c.Job, at)
		c.Job.Version, c.Job.UpdatedAt = c.Job.Version+1, max(at, c.Job.CreatedAt)
	}
	c.Tally = t
	return c, nil
}

// countable has the fields of a job that counting needs. Only a client changes them.
type countable struct {
	job.Job // without what is sent
	uid     []byte
	mark    string
}

// maxCountables bounds the jobs that a node remembers.
const maxCountables = 4096

// countables are the jobs counted last.
type countables struct {
	mu    sync.Mutex
	known map[job.Key]*countable
}

// countable returns a remembered job, or reads it.
func (s *Store) countable(ctx context.Context, key job.Key, afresh bool) (*countable, error) {
	s.countables.mu.Lock()
	is := s.countables.known[key]
	s.countables.mu.Unlock()
	if is != nil && !afresh {
		return is, nil
	}
	_, r, err := s.find(ctx, key)
	if err != nil {
		return nil, err
	}
	is = &countable{Job: r.Job, uid: r.uid, mark: r.mark}
	spec := &is.Spec
	spec.Body, spec.Headers, spec.Labels, spec.ExpectBody = nil, nil, nil, ""
	s.countables.mu.Lock()
	defer s.countables.mu.Unlock()
	if len(s.countables.known) >= maxCountables || s.countables.known == nil {
		s.countables.known = map[job.Key]*countable{}
	}
	if spec.Count != nil {
		s.countables.known[key] = is
	}
	return is, nil
}

// callers number the calls that count, so that a call repeated after a lost reply counts
// once: a slot makes one call at a time, with ascending numbers.
type callers struct {
	mu    sync.Mutex
	name  string // of this process
	free  []string
	made  int
	calls int64
}

func (s *callers) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot
	}
	if s.name == "" {
		s.name = strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // no secret
	}
	s.made++
	return s.name + "." + strconv.Itoa(s.made)
}

func (s *callers) give(slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, slot)
}

// call is the number of the next call.
func (s *callers) call() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.calls
}

// countKeySign precedes a key in the name of its field; see lua/count.lua.
const countKeySign = "k"

// countKeys returns the keys that were counted of a job.
func (s *Store) countKeys(ctx context.Context, sh *shard, uid string) ([]string, error) {
	fields, err := s.db.HKeys(ctx, sh.counted(uid)).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	var keys []string
	for _, field := range fields {
		if key, is := strings.CutPrefix(field, countKeySign); is {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// movedKeysLife is how long keys are kept without their job, which is stored after them.
const movedKeysLife = time.Hour

// putCountKeys stores the counted keys of a job that moves to the shard.
func (s *Store) putCountKeys(ctx context.Context, sh *shard, uid string, keys []string) error {
	for len(keys) > 0 {
		part := keys[:min(len(keys), maxBatch)]
		keys = keys[len(part):]
		args := []any{movedKeysLife.Milliseconds()}
		for _, key := range part {
			args = append(args, countKeySign+key)
		}
		if _, err := s.run(ctx, sh, rememberScript, []string{sh.counted(uid)}, args); err != nil {
			return err
		}
	}
	return nil
}
