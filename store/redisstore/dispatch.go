package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/successors"
)

// Claim claims hinted jobs, in one script call for each batch.
func (s *Store) Claim(ctx context.Context, n int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	var out []store.Claimed
	for len(hints) > 0 {
		batch := hints[:min(len(hints), maxBatch)]
		rest := hints[len(batch):]
		claimed, left, err := s.claimBatch(ctx, s.shards[n], batch, o)
		if err != nil {
			return out, err
		}
		out = append(out, claimed...)
		hints = slices.Concat(left, rest)
		if len(left) > 0 && o.Left != nil {
			o.Left(hints)
			break
		}
	}
	return out, nil
}

// claimBatch claims a batch as far as its bytes allow, and returns the others.
func (s *Store) claimBatch(ctx context.Context, sh *shard, hints []store.Hint, o store.ClaimOptions) (claimed []store.Claimed, left []store.Hint, err error) {
	b := sh.newBatch(len(hints), 0, nil)
	for _, h := range hints {
		b.add(h.Key(), h.Lane)
	}
	keys, args := b.call(sh.own[claimScript],
		signed(o), millis(o.Lease), millis(o.LeaseMargin), sh.wake, o.AwaitWhole)
	reply, err := s.eval(ctx, claimScript, keys, args)
	if err != nil {
		return nil, nil, err
	}
	if len(reply) < 4 || len(reply)%4 != 0 {
		return nil, nil, fmt.Errorf("redisstore: claim answered %d values", len(reply))
	}
	for _, number := range listOf(reply[2]) {
		at := intOf(number)
		if at < 1 || at > len(hints) {
			return nil, nil, fmt.Errorf("redisstore: claim left job %d of %d", at, len(hints))
		}
		left = append(left, hints[at-1])
	}
	claimed, err = s.decodeClaims(sh, hints, reply)
	return claimed, left, err
}

// decodeClaims decodes the answer of lua/claim.lua for claimed jobs.
func (s *Store) decodeClaims(sh *shard, hints []store.Hint, reply []any) ([]store.Claimed, error) {
	now := sh.clock.observe(reply[0])
	var heads []progressHead // which claimed jobs share
	for _, text := range textsOf(reply[1]) {
		heads = append(heads, decodeProgressHead(text))
	}
	lasts, err := decodeLasts(reply[3])
	if err != nil {
		return nil, err
	}
	out := make([]store.Claimed, 0, len(reply)/4)
	for i := 4; i < len(reply); i += 4 {
		at, from, head := intOf(reply[i]), intOf(reply[i+1]), intOf(reply[i+2])
		registration, _ := reply[i+3].(string)
		if at < 1 || at > len(hints) || head < 1 || head > len(heads) {
			return nil, fmt.Errorf("redisstore: claim answered for job %d of %d, with head %d of %d", at, len(hints), head, len(heads))
		}
		r, err := decodeRegistration(hints[at-1].Key(), registration)
		if err == nil {
			err = r.proceed(heads[head-1])
		}
		if err != nil {
			// The others must not suffer; this one is claimed again and again.
			s.log.Error("a job's record cannot be read", "error", err)
			continue
		}
		c := store.Claimed{Job: r.Job, Now: now, From: job.State(from)}
		if last := lasts[at]; last != "" {
			if uid := ulid.ULID([]byte(last[:uidLen])).String(); uid != r.UID {
				c.After, c.AfterUID = job.Key{Topic: r.Topic, ID: last[uidLen:]}, uid
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// Settle stores outcomes with one script call per shard and batch.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	out := make([]store.Settled, len(settlements))
	place := func(i int) int { return s.place(settlements[i].Key, settlements[i].OrderKey) }
	err := s.toShards(ctx, len(settlements), place, func(ctx context.Context, sh *shard, items []int) ([]int, error) {
		if items, followed := apart(settlements, items); len(followed) > 0 {
			left, err := s.settleFollowed(ctx, sh, settlements, followed[:min(len(followed), followedAtOnce)], out)
			left = append(left, followed[min(len(followed), followedAtOnce):]...)
			return append(left, items...), err
		}
		size := store.Batch(len(items), maxBatch, func(i int) int { return attemptSize(&settlements[items[i]]) })
		left, err := s.settleBatch(ctx, sh, settlements, items[:size], out)
		return append(left, items[size:]...), err
	})
	if err != nil {
		return nil, err
	}
	s.forgetSettled(ctx, settlements, out)
	return out, nil
}

// forgetSettled removes the forwards of jobs that settling has forgotten, and moves those of
// jobs whose places successors took.
func (s *Store) forgetSettled(ctx context.Context, settlements []job.Settlement, out []store.Settled) {
	if len(s.shards) == 1 {
		return
	}
	var jobs []gone
	for i := range out {
		t, r := &settlements[i], &out[i]
		if t.OrderKey == "" || r.Status != store.Applied || !r.To.Final() || r.To == job.Dead {
			continue
		}
		g := gone{key: t.Key, uid: r.UID, orderKey: t.OrderKey}
		if t.Again != nil {
			for _, next := range successors.Settled(t, r) {
				if next.Key == t.Key {
					g.next = next.UID
				}
			}
		}
		if g.next != "" || s.retention == 0 && !t.Keep {
			jobs = append(jobs, g)
		}
	}
	s.unforward(ctx, jobs)
}

// kind is the part of a settlement that jobs of a batch share; the script gets it once.
type kind struct {
	token                            uint64
	attempts, snoozes, expiredLeases int
	usual, cancelled                 end
}

// end is a job.Change with the number of its group of dead letters, if any.
type end struct {
	job.Change
	group int
}

func (b *batch) end(t *job.Settlement, cancelRequested bool) end {
	e := end{Change: t.Change(cancelRequested)}
	if e.To == job.Dead {
		e.group = b.group(listing.DeadName(t.Lane, e.Reason))
	}
	return e
}

func (k *kind) args() []any {
	tries := fmt.Sprintf("%d %d %d", k.attempts, k.snoozes, k.expiredLeases)
	args := append(make([]any, 0, 10), k.token, tries)
	for _, c := range []*end{&k.usual, &k.cancelled} {
		wait := millis(c.Delay)
		if c.At != 0 {
			wait = -int64(c.At)
		}
		args = append(args, int(c.To), wait, c.Reason, c.group)
	}
	return args
}

// attemptSize is about what a settlement takes of a call.
func attemptSize(t *job.Settlement) int {
	if t.Attempt == nil {
		return 0
	}
	return len(t.Attempt.ResponseBody)
}

// settleBatch settles a batch as far as the bytes of its logs allow, and returns the others.
func (s *Store) settleBatch(ctx context.Context, sh *shard, all []job.Settlement, batch []int, out []store.Settled) (left []int, err error) {
	b := sh.newBatch(len(batch), 4, func(lane job.Lane, name string) []string {
		return []string{sh.bucket(name), sh.ended(lane.Topic)}
	})
	keep := slices.ContainsFunc(batch, func(i int) bool { return all[i].Keep }) // the others are purged soon
	args := []any{sh.wake, s.retention == 0 && !keep, store.MaxLog, store.MaxLogBytes, 0}
	numbers := make(map[kind]int)
	for _, i := range batch {
		t := &all[i]
		var attempt []byte
		if t.Attempt != nil {
			attempt = encodeAttempt(t.Attempt)
		}
		k := kind{
			token: t.Token, attempts: t.Attempts, snoozes: t.Snoozes, expiredLeases: t.ExpiredLeases,
			usual: b.end(t, false), cancelled: b.end(t, true),
		}
		n, known := numbers[k]
		if !known {
			n = len(numbers) + 1
			numbers[k] = n
			args = append(args, k.args()...)
		}
		var created any = int64(t.CreatedAt)
		if t.OrderKey != "" {
			created = strconv.FormatInt(int64(t.CreatedAt), 10) + " " + t.OrderKey
		}
		b.add(t.Key, t.Lane, n, attempt, created, b.indexes(t.Indexes))
	}
	args[4] = len(numbers)
	keys, args := b.call(sh.own[settleScript], args...)
	reply, err := s.eval(ctx, settleScript, keys, args)
	if err != nil {
		return nil, err
	}
	if len(reply) != 2+3*len(batch) {
		return nil, fmt.Errorf("redisstore: settle answered %d values for %d jobs", len(reply), len(batch))
	}
	results, err := decodeResults(reply[1], sh.clock.observe(reply[0]))
	if err != nil {
		return nil, err
	}
	for n, i := range batch {
		answer := reply[2+3*n : 2+3*n+3]
		if answer[0] == statusLeft {
			left = append(left, i)
		} else if out[i], err = settled(answer, results); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// decodeResults decodes the results that the settled jobs share. The first is for jobs that
// were not settled.
func decodeResults(reply any, now job.Instant) ([]store.Settled, error) {
	const fields = 5
	values := listOf(reply)
	if len(values)%fields != 0 {
		return nil, fmt.Errorf("redisstore: settle answered %d values for results", len(values))
	}
	all := append(make([]store.Settled, 0, 1+len(values)/fields), store.Settled{Now: now})
	for ; len(values) > 0; values = values[fields:] {
		reason, _ := values[3].(string)
		all = append(all, store.Settled{
			To: job.State(intOf(values[0])), NextAt: job.Instant(max(intOf(values[1]), 0)), EndedAt: job.Instant(max(intOf(values[2]), 0)),
			Reason: reason, Now: now, Version: uint64(intOf(values[4])),
		})
	}
	return all, nil
}

// statusLeft is the status of a job that needs another call.
const statusLeft = int64(4)

// settled reads the answer for one job.
func settled(reply []any, results []store.Settled) (store.Settled, error) {
	status, ok := reply[0].(int64)
	if !ok {
		return store.Settled{}, fmt.Errorf("redisstore: settle answered %T for a status", reply[0])
	}
	number := intOf(reply[1])
	if number < 0 || number >= len(results) {
		return store.Settled{}, fmt.Errorf("redisstore: settle answered result %d of %d", number, len(results)-1)
	}
	r := results[number]
	switch status {
	case 2:
		r.Status = store.Stale
	case 3:
		r.Status = store.Missing
	}
	r.Repeated = status == 1
	if uid, _ := reply[2].(string); len(uid) == uidLen {
		r.UID = ulid.ULID([]byte(uid)).String()
	}
	return r, nil
}
