package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/rules"
)

// Claim claims hinted jobs, in one script call for each batch.
func (s *Store) Claim(ctx context.Context, n int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	var out []store.Claimed
	lane := func(i int) job.Lane { return hints[i].Lane }
	if batchOf(len(hints), lane) < len(hints) {
		hints = distinct(hints) // the script gives a job twice if hints of two batches name it
	}
	for len(hints) > 0 {
		batch := hints[:batchOf(len(hints), lane)]
		rest := hints[len(batch):]
		claimed, left, err := s.claimBatch(ctx, s.shards[n], batch, o, out)
		if err != nil {
			return out, err
		}
		out = claimed
		hints = slices.Concat(left, rest)
		if len(left) > 0 && o.Left != nil {
			o.Left(hints)
			break
		}
	}
	return out, nil
}

func distinct(hints []store.Hint) []store.Hint {
	seen := make(map[store.Hint]struct{}, len(hints))
	return slices.DeleteFunc(slices.Clone(hints), func(h store.Hint) bool {
		_, again := seen[h]
		seen[h] = struct{}{}
		return again
	})
}

// claimBatch claims a batch within the bound of bytes. It appends the claims to out, and
// returns the jobs left.
func (s *Store) claimBatch(ctx context.Context, sh *shard, hints []store.Hint, o store.ClaimOptions, out []store.Claimed) (claimed []store.Claimed, left []store.Hint, err error) {
	b := sh.newBatch(len(hints), 0, nil)
	for _, h := range hints {
		b.add(h.Key(), h.Lane)
	}
	keys, args := b.call(sh.own[claimScript],
		signed(o), millis(o.Lease), millis(o.LeaseMargin), sh.wake)
	reply, err := s.eval(ctx, claimScript, keys, args)
	if err != nil {
		return nil, nil, err
	}
	if len(reply) < 2 {
		return nil, nil, fmt.Errorf("redisstore: claim answered %d values", len(reply))
	}
	for _, number := range listOf(reply[1]) {
		at := intOf(number)
		if at < 1 || at > len(hints) {
			return nil, nil, fmt.Errorf("redisstore: claim left job %d of %d", at, len(hints))
		}
		left = append(left, hints[at-1])
	}
	claimed, err = s.decodeClaims(sh, hints, reply, out)
	return claimed, left, err
}

// decodeClaims appends the claimed jobs in the answer of lua/claim.lua to out.
func (s *Store) decodeClaims(sh *shard, hints []store.Hint, reply []any, out []store.Claimed) ([]store.Claimed, error) {
	now := sh.clock.observe(reply[0])
	claims := make([]store.Claimed, len(hints)) // without a time where none was claimed
	for _, same := range reply[2:] {
		jobs := listOf(same)
		if len(jobs) < 3 || len(jobs)%2 != 1 {
			return nil, fmt.Errorf("redisstore: claim answered %d values for jobs with the same head", len(jobs))
		}
		text, _ := jobs[0].(string)
		head, from := decodeProgressHead(text), job.State(intOf(jobs[1]))
		expired, _ := jobs[2].(string)
		earlier, _ := strconv.ParseInt(expired, 10, 64) // a token is at least the time of its claim
		for i := 3; i < len(jobs); i += 2 {
			at := intOf(jobs[i])
			registration, _ := jobs[i+1].(string)
			if at < 1 || at > len(hints) {
				return nil, fmt.Errorf("redisstore: claim answered for job %d of %d", at, len(hints))
			}
			r, err := decodeRegistration(hints[at-1].Key(), registration)
			if err == nil {
				err = r.proceed(head)
			}
			if err != nil {
				// One unreadable job must not block the others. It is claimed again and again.
				s.log.Error("a job's record cannot be read", "error", err)
				continue
			}
			claims[at-1] = store.Claimed{Job: r.Job, Now: now, From: from, Earlier: job.Instant(earlier)}
		}
	}
	for i := range claims {
		if claims[i].Now != 0 {
			out = append(out, claims[i])
		}
	}
	return out, nil
}

// Settle stores outcomes with one script call per shard and batch. Settlements with successors,
// and those of jobs that were changed since they were claimed, take another way (successors.go).
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	out := make([]store.Settled, len(settlements))
	apart := make([]bool, len(settlements))
	for i := range settlements {
		apart[i] = settlements[i].Job != nil && settlements[i].Succeeds()
	}
	where := func(i int) int { return s.shardFor(settlements[i].Key, settlements[i].OrderKey) }
	err := s.toShards(ctx, len(settlements), where, func(ctx context.Context, sh *shard, items []int) ([]int, error) {
		if n := slices.IndexFunc(items, func(i int) bool { return apart[i] }); n >= 0 {
			return s.settleApart(ctx, sh, settlements, items, apart, out)
		}
		size := batchOf(len(items), func(i int) job.Lane { return settlements[items[i]].Lane })
		size = store.Batch(size, maxBatch, func(i int) int { return attemptSize(&settlements[items[i]]) })
		left, err := s.settleBatch(ctx, sh, settlements, items[:size], apart, out)
		return append(left, items[size:]...), err
	})
	if err != nil {
		return nil, err
	}
	s.forgetSettled(ctx, settlements, out)
	return out, nil
}

// forgetSettled removes the forwards of jobs that settling has deleted.
func (s *Store) forgetSettled(ctx context.Context, settlements []job.Settlement, out []store.Settled) {
	if len(s.shards) == 1 || s.retention != 0 {
		return
	}
	var jobs []gone
	for i := range out {
		t, r := &settlements[i], &out[i]
		if t.OrderKey != "" && !t.Keep && r.Status == store.Applied && r.To.Final() && r.To != job.Dead {
			jobs = append(jobs, gone{key: t.Key, uid: r.UID, orderKey: t.OrderKey})
		}
	}
	s.unforward(ctx, jobs)
}

// sharedOutcome is the part of a settlement that jobs of a batch share; the script gets it once.
type sharedOutcome struct {
	token                            uint64
	attempts, snoozes, expiredLeases int
	job.Change
	group int // number of its group of dead letters, if any
}

func (o *sharedOutcome) args() []any {
	wait := millis(o.Delay)
	if o.At != 0 {
		wait = -int64(o.At)
	}
	return []any{o.token, fmt.Sprintf("%d %d %d", o.attempts, o.snoozes, o.expiredLeases), int(o.To), wait, o.Reason, o.group}
}

// attemptSize is roughly the bytes of a settlement in a call.
func attemptSize(t *job.Settlement) int {
	if t.Attempt == nil {
		return 0
	}
	return len(t.Attempt.ResponseBody)
}

// settleBatch settles a batch as far as the bytes of its logs allow, and returns the others and
// those that it adds to apart.
func (s *Store) settleBatch(ctx context.Context, sh *shard, all []job.Settlement, batch []int, apart []bool, out []store.Settled) (left []int, err error) {
	b := sh.newBatch(len(batch), 4, func(lane job.Lane, name string) []string {
		return []string{sh.bucket(name), sh.ended(lane.Topic)}
	})
	keep := slices.ContainsFunc(batch, func(i int) bool { return all[i].Keep }) // the others are purged soon
	args := []any{sh.wake, s.retention == 0 && !keep, store.MaxLog, rules.LogBytes(false), 0}
	numbers := make(map[sharedOutcome]int)
	for _, i := range batch {
		t := &all[i]
		var attempt []byte
		if t.Attempt != nil {
			attempt = encodeAttempt(t.Attempt)
		}
		o := sharedOutcome{
			token: t.Token, attempts: t.Attempts, snoozes: t.Snoozes, expiredLeases: t.ExpiredLeases, Change: t.Change(false),
		}
		if o.To == job.Dead {
			o.group = b.group(listing.DeadName(t.Lane, o.Reason))
		}
		n, known := numbers[o]
		if !known {
			n = len(numbers) + 1
			numbers[o] = n
			args = append(args, o.args()...)
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
	if redis.HasErrorPrefix(err, outOfMemory) {
		args[3] = rules.LogBytes(true)
		reply, err = s.eval(ctx, drainScript, keys, args)
	}
	if err != nil {
		return nil, err
	}
	if len(reply) != 1+2*len(batch) {
		return nil, fmt.Errorf("redisstore: settle answered %d values for %d jobs", len(reply), len(batch))
	}
	now := sh.clock.observe(reply[0])
	for n, i := range batch {
		version, ok := reply[1+2*n].(int64)
		uid, _ := reply[2+2*n].(string)
		switch {
		case !ok || version > 0 && len(uid) != uidLen:
			return nil, fmt.Errorf("redisstore: settle answered %v, %q for a job", reply[1+2*n], uid)
		case version > 0:
			out[i] = applied(&all[i], all[i].Change(false), now)
			out[i].UID, out[i].Version = ulid.ULID([]byte(uid)).String(), uint64(version)
			continue
		case version == -2:
			out[i] = store.Settled{Status: store.Stale, Now: now}
			continue
		case version < 0:
			apart[i] = true
		}
		left = append(left, i)
	}
	return left, nil
}

// applied is the result of a settlement that made the change c at now, without the job's uid and
// version.
func applied(t *job.Settlement, c job.Change, now job.Instant) store.Settled {
	r := store.Settled{Status: store.Applied, To: c.To, Reason: c.Reason, Now: now}
	r.NextAt, r.EndedAt = c.Times(now, t.CreatedAt)
	return r
}
