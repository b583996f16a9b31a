package sqlstore

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
)

// maxSettle bounds the settlements of a transaction.
const maxSettle = 500

// Settle stores the outcomes of claims. Most jobs are as they were claimed: those are written if their versions are the same, without reading them
// first. The others are read with locks.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	results := make([]store.Settled, len(settlements))
	for from := 0; from < len(settlements); from += maxSettle {
		to := min(from+maxSettle, len(settlements))
		if err := s.settleBatch(ctx, settlements[from:to], results[from:to]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Store) settleBatch(ctx context.Context, settlements []job.Settlement, results []store.Settled) error {
	running, others := asClaimed(settlements)
	if len(running) > 0 {
		err := s.change(ctx, func(ctx context.Context, t *txn) error { return t.settleAsClaimed(ctx, settlements, running, results) })
		switch {
		case isOtherwise(err):
			others = nil
			for i := range settlements {
				others = append(others, i)
			}
		case err != nil:
			return err
		}
	}
	if len(others) == 0 {
		return nil
	}
	some, answers := make([]job.Settlement, len(others)), make([]store.Settled, len(others))
	for i, number := range others {
		some[i] = settlements[number]
	}
	err := s.change(ctx, func(ctx context.Context, t *txn) error { return t.settle(ctx, some, answers) })
	for i, number := range others {
		results[number] = answers[i]
	}
	return err
}

// asClaimed divides settlements, by their numbers: of jobs that are most probably as they were claimed, without order keys and successors, so that
// nothing else follows; and others. A second one of a key is a repetition.
func asClaimed(settlements []job.Settlement) (running, others []int) {
	seen := make(map[job.Key]bool, len(settlements))
	for i := range settlements {
		st := &settlements[i]
		c := st.Claimed
		if !seen[st.Key] && c != nil && c.Key == st.Key && !st.Extends() && st.OrderKey == "" && st.Job == nil && c.State == job.Running && c.Token == st.Token && st.Token != 0 {
			seen[st.Key] = true
			running = append(running, i)
		} else {
			others = append(others, i)
		}
	}
	return running, others
}

// asClaimedColumns are what an outcome changes of a job.
var asClaimedColumns = progressColumns.only("state", "bucket", "wake", "next_at", "updated_at", "ended_at", "version", "attempts", "snoozes",
	"expired_leases", "reason", "dead_group", "settled_by", "settled")

// settledColumns are what names the claim of a job.
var settledColumns = slices.Concat(keyColumns, progressColumns.only("version", "settled_by"))

// isAsClaimed is the condition under which a job is as it was claimed: each change of it raises its version. A job that was registered
// in its place has its token, and may have reached its version, but is not in flight by that claim. No index has the state: by one
// of buckets, PostgreSQL would look rows up, and lock them, in another order than that of keys.
const isAsClaimed = ` AND j.state = 3 AND j.token = u.settled_by AND j.version = u.version - 1`

var (
	asClaimedText = ifAll(asClaimedColumns.update()+isAsClaimed+` AND (u.attempt IS NULL OR cardinality(j.log) < 64 AND pg_column_size(j.log) < 32768)`,
		len(asClaimedColumns.updated()))
	goneText = ifAll(`DELETE FROM duehook.job j USING `+settledColumns.unnest()+` WHERE j.topic = u.topic AND j.id = u.id`+isAsClaimed, len(settledColumns))
)

// ifAll makes a statement with so many parameters fail unless it changes as many rows as another parameter says.
func ifAll(change string, parameters int) string {
	return `WITH changed AS (` + change + ` RETURNING 1) SELECT 1 / (count(*) = $` + strconv.Itoa(parameters+1) + `::bigint)::int FROM changed`
}

// isOtherwise reports whether a statement of ifAll changed fewer rows.
func isOtherwise(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "22012" // division by zero
}

// settleAsClaimed settles jobs that are as they were claimed, without reading them. If one is not, the transaction fails.
func (t *txn) settleAsClaimed(ctx context.Context, settlements []job.Settlement, numbers []int, results []store.Settled) error {
	if err := t.send(ctx, &pgx.Batch{}); err != nil { // it begins, and reads the time
		return err
	}
	for _, number := range numbers {
		st := &settlements[number]
		r := &record{Job: *st.Claimed, lane: st.Lane, keepsEnd: st.Claimed.Spec.KeepsEnd(), stored: true, claimed: true}
		r.Spec, r.LastAttempt = job.Spec{}, nil
		r.note()
		var err error
		if results[number], err = t.apply(records.Turns{}, r, st, &admission{}); err != nil {
			return err
		}
		t.hold(r)
	}
	return nil
}

// settle settles jobs that it reads with locks.
func (t *txn) settle(ctx context.Context, settlements []job.Settlement, results []store.Settled) error {
	keys := make([]job.Key, len(settlements))
	var orders, limited []string
	for i := range settlements {
		st := &settlements[i]
		keys[i] = st.Key
		if st.OrderKey != "" {
			orders = append(orders, records.OrderOf(st.Key.Topic, st.OrderKey))
		}
		if st.OrderKey != "" || st.Job != nil {
			limited = append(limited, st.Key.Topic)
		}
	}
	b := &pgx.Batch{}
	limits := t.readLimits(b, limited, false)
	t.lockTurns(b, orders)
	t.lock(b, withoutContent, sortedKeys(keys))
	if err := t.send(ctx, b); err != nil {
		return err
	}
	turns, rows := t.turns(ctx)
	for i := range settlements {
		var err error
		if results[i], err = t.settleOne(turns, &settlements[i], limits); err != nil {
			return err
		}
	}
	return rows.err
}

func (t *txn) settleOne(turns records.Turns, st *job.Settlement, limits *admission) (store.Settled, error) {
	r := t.readable(st.Key)
	if r == nil || r.gone {
		return store.Settled{Status: store.Missing, Now: t.now}, nil
	}
	if r.was == nil && laneIDOf(st.Lane.String()) == r.laneID { // always so while the job runs
		r.lane = st.Lane
		r.note()
	}
	if r.was == nil {
		return store.Settled{Status: store.Stale, Now: t.now}, nil
	}
	switch records.Meets(&r.Job, r.settledBy, st) {
	case records.Extends:
		r.until, r.changed = t.now.Add(st.Delay), true
		return records.Extended(&r.Job, r.until, t.now), nil
	case records.Repeated:
		earlier := r.settled
		earlier.Repeated = true
		return earlier, nil
	case records.Applies:
		return t.apply(turns, r, st, limits)
	}
	return store.Settled{Status: store.Stale, Now: t.now}, nil
}

// apply makes the change of a settlement that ends its claim.
func (t *txn) apply(turns records.Turns, r *record, st *job.Settlement, limits *admission) (store.Settled, error) {
	before := r.Job
	done := records.Settle(&r.Job, st, t.now)
	r.changed, r.until = true, 0
	if a := records.Attempt(st, &done); a != nil {
		text, err := encodeAttempt(a)
		if err != nil {
			return done, err
		}
		r.append = append(r.append, text)
	}
	if done.To.Final() {
		turns.Leave(r.order, &before)
		t.end(turns, r, limits)
		t.promote(turns, r.order)
	}
	if st.Job != nil {
		done.Shed = t.follow(r.UID, st.Successors(st.Change(r.CancelRequested), r.Version, job.ShedNothing), limits, t.now)
	}
	r.settled, r.settledBy = done, st.Token
	return done, nil
}
