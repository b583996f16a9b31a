package sqlstore

import (
	"context"
	"hash/fnv"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
)

// foldAtOnce bounds the deltas of one statement, and foldRounds the statements of one transaction.
const (
	foldAtOnce = 5_000
	foldRounds = 4
)

// takeLock is the key of the take lock. Its holder alone writes lane, topic, endpoint, dead_group and total, so that limits
// of jobs in flight hold exactly.
func (s *Store) takeLock() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("duehook take " + s.schema))
	return int64(h.Sum64())
}

// lockTaking queues the wait for the take lock. commit is the synchronous_commit of the transaction; empty: as it is.
func (s *Store) lockTaking(b *pgx.Batch, commit string) {
	b.Queue(`SELECT set_config('synchronous_commit', coalesce(nullif($2, ''), current_setting('synchronous_commit')), true),
		pg_advisory_xact_lock($1)`, s.takeLock(), commit)
}

// underLock takes the take lock, folds, and sends what queue adds. It sends that again if the fold leaves rows of what has
// no job any more, and deletes these.
func (t *txn) underLock(ctx context.Context, commit string, queue func(b *pgx.Batch)) error {
	b, f := &pgx.Batch{}, &folded{from: t.s.folds.from(job.SystemClock().Now())}
	t.s.lockTaking(b, commit)
	t.fold(b, f)
	queue(b)
	if err := t.send(ctx, b); err != nil {
		return err
	}
	if rest, err := t.foldRest(ctx, f); err != nil || !rest {
		return err
	}
	b = &pgx.Batch{}
	queue(b)
	return t.send(ctx, b)
}

// Bounds of searches by time. What is written below that of wakes counts as due at the bound, which is never later than the
// time of the take that wrote it: nobody waits longer for that, and nothing is below. The bound of leases falls with what is written.
const (
	wakeBound  = `coalesce((SELECT wake FROM duehook.total), 0)`
	leaseBound = `coalesce((SELECT lease FROM duehook.total), 0)`
)

// notBefore is a time, or the bound if that is later; NULL for NULL.
func notBefore(bound, time string) string {
	return `CASE WHEN ` + time + ` IS NOT NULL THEN greatest(` + time + `, ` + bound + `) END`
}

// firstOf is the bound of the lanes of a topic.
func firstOf(topic string) string {
	return `coalesce((SELECT first FROM duehook.topic WHERE topic.topic = ` + topic + ` ORDER BY rev DESC LIMIT 1), 0)`
}

// revOf is the rev of a row; of a new one it is the time, so that it is above those of earlier rows.
func revOf(table, key string) string {
	return `coalesce((SELECT rev FROM duehook.` + table + ` WHERE ` + table + `.` + table + ` = ` + key + ` ORDER BY rev DESC LIMIT 1), ` + clock + `)`
}

// foldDeltas adds deltas to the figures, and wakes what they wake: a lane that is put off stays so, unless one of its
// jobs is no longer in flight. A topic or lane that waits for a place is looked at again then.
var foldDeltas = `WITH d AS (
	DELETE FROM duehook.delta WHERE seq = ANY(ARRAY(SELECT seq FROM duehook.delta WHERE seq > $2 ORDER BY seq LIMIT $1))
	RETURNING seq, lane, name, split_part(name, '|', 1) AS topic, split_part(name, '|', 2) AS letter, split_part(name, '|', 3) AS endpoint,
		split_part(name, '|', 3) = 'pull:' AS pulled,
		waiting, retrying, running, delivered, dead, cancelled, expired, parked, order_keys, wake, lease
), lanes AS (
	INSERT INTO duehook.lane AS x (lane, rev, name, topic, letter, endpoint, pulled, waiting, retrying, running, parked, head, head_id, wake, lease)
	SELECT lane, ` + revOf("lane", "d.lane") + `, name, topic, letter, endpoint, pulled, sum(waiting), sum(retrying), sum(running), sum(parked),
		min(wake), '', ` + notBefore(firstOf("d.topic"), "min(wake)") + `, min(lease)
	FROM d WHERE lane IS NOT NULL AND endpoint <> '' GROUP BY d.lane, name, topic, letter, endpoint, pulled ORDER BY 1
	ON CONFLICT (lane, rev) DO UPDATE SET rev = x.rev + 1,
		waiting = x.waiting + excluded.waiting, retrying = x.retrying + excluded.retrying,
		running = x.running + excluded.running, parked = x.parked + excluded.parked,
		head = least(x.head, excluded.head), lease = CASE WHEN x.running + excluded.running > 0 THEN least(x.lease, excluded.lease) ELSE excluded.lease END,
		head_id = CASE WHEN x.head IS NULL OR excluded.head <= x.head THEN '' ELSE x.head_id END,
		held = CASE WHEN x."full" AND excluded.running < 0 THEN 0 ELSE x.held END,
		"full" = x."full" AND excluded.running >= 0,
		wake = CASE WHEN x."full" AND excluded.running < 0 THEN ` + notBefore(firstOf("x.topic"), "least(x.head, excluded.head)") + `
			WHEN excluded.wake IS NULL THEN x.wake
			ELSE least(x.wake, greatest(excluded.wake, x.held)) END
	RETURNING lane, waiting, retrying, running, parked
), topics AS (
	INSERT INTO duehook.topic AS x (topic, rev, letters, waiting, retrying, running, delivered, dead, cancelled, expired, parked, order_keys, wake)
	SELECT topic, ` + revOf("topic", "d.topic") + `, coalesce(array_agg(DISTINCT letter) FILTER (WHERE endpoint <> '' AND NOT pulled), '{}'), sum(waiting), sum(retrying), sum(running),
		sum(delivered), sum(dead), sum(cancelled), sum(expired), sum(parked), sum(order_keys),
		` + notBefore(wakeBound, "min(wake) FILTER (WHERE NOT pulled)") + `
	FROM d WHERE lane IS NOT NULL GROUP BY d.topic ORDER BY 1
	ON CONFLICT (topic, rev) DO UPDATE SET rev = x.rev + 1,
		letters = CASE WHEN x.letters @> excluded.letters THEN x.letters
			ELSE ARRAY(SELECT DISTINCT letter COLLATE "C" FROM unnest(x.letters || excluded.letters) AS letter ORDER BY 1) END,
		waiting = x.waiting + excluded.waiting, retrying = x.retrying + excluded.retrying, running = x.running + excluded.running,
		delivered = x.delivered + excluded.delivered, dead = x.dead + excluded.dead,
		cancelled = x.cancelled + excluded.cancelled, expired = x.expired + excluded.expired,
		parked = x.parked + excluded.parked, order_keys = x.order_keys + excluded.order_keys,
		held = CASE WHEN x."full" AND excluded.running < 0 THEN 0 ELSE x.held END,
		"full" = x."full" AND excluded.running >= 0,
		wake = CASE WHEN x."full" AND excluded.running < 0 THEN ` + wakeBound + `
			WHEN excluded.wake IS NULL THEN x.wake
			ELSE least(x.wake, greatest(excluded.wake, x.held)) END
	RETURNING topic, waiting, retrying, running, delivered, dead, cancelled, expired, parked, order_keys
), endpoints AS (
	INSERT INTO duehook.endpoint AS x (endpoint, waiting, retrying, running)
	SELECT endpoint, sum(waiting), sum(retrying), sum(running)
	FROM d WHERE lane IS NOT NULL AND endpoint <> '' GROUP BY 1 ORDER BY 1
	ON CONFLICT (endpoint) DO UPDATE SET
		waiting = x.waiting + excluded.waiting, retrying = x.retrying + excluded.retrying, running = x.running + excluded.running
	RETURNING endpoint, waiting, retrying, running, open_until + half_open_until + ramp_from AS circuit
), groups AS (
	INSERT INTO duehook.dead_group AS x (name, dead)
	SELECT name, sum(dead) FROM d WHERE lane IS NULL GROUP BY 1 ORDER BY 1
	ON CONFLICT (name) DO UPDATE SET dead = x.dead + excluded.dead
	RETURNING name, dead
)
SELECT (SELECT count(*) FROM d), (SELECT coalesce(min(seq), 0) FROM d), (SELECT coalesce(max(seq), 0) FROM d), coalesce(min(lease), 0),
	pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
	ARRAY(SELECT lane FROM lanes WHERE waiting = 0 AND retrying = 0 AND running = 0 AND parked = 0),
	ARRAY(SELECT topic FROM topics WHERE waiting = 0 AND retrying = 0 AND running = 0 AND delivered = 0 AND dead = 0 AND cancelled = 0
		AND expired = 0 AND parked = 0 AND order_keys = 0),
	ARRAY(SELECT endpoint FROM endpoints WHERE waiting = 0 AND retrying = 0 AND running = 0 AND circuit = 0),
	ARRAY(SELECT name FROM groups WHERE dead = 0),
	coalesce(sum(order_keys), 0)::bigint, coalesce(sum(parked), 0)::bigint, ` + stateSums + ` FROM d WHERE lane IS NOT NULL`

// folded is what a fold did.
type folded struct {
	deltas                    int
	from                      int64    // the bound of seq
	lanes                     []laneID // that have no job any more, and the same of the others
	topics, endpoints, groups []string
}

// fold queues the statement.
func (t *txn) fold(b *pgx.Batch, f *folded) {
	b.Queue(t.s.sql(foldDeltas), foldAtOnce, f.from).QueryRow(func(row pgx.Row) error {
		var lanes []laneID
		var topics, endpoints, groups []string
		var of total
		var r reach
		if err := row.Scan(of.behind(&f.deltas, &r.least, &r.highest, &of.lease, &r.running, &r.unborn, &lanes, &topics, &endpoints, &groups, &of.orderKeys, &of.parked)...); err != nil {
			return err
		}
		t.total.add(&of)
		t.folds.add(r)
		f.lanes, f.topics = append(f.lanes, lanes...), append(f.topics, topics...)
		f.endpoints, f.groups = append(f.endpoints, endpoints...), append(f.groups, groups...)
		return nil
	})
}

// total is what a transaction under the take lock adds to the sums of all topics.
type total struct {
	sums
	orderKeys, parked int64
	looks             bool        // it writes times by the clock
	low               bool        // it writes times before the bounds
	lease             job.Instant // the earliest one that it writes to a lane; 0: none
	back              bool        // the clock was set back
	by                *taking     // gets the time of the next look; nil: nobody asks
}

func (t *total) add(of *total) {
	for i := range t.sums {
		t.sums[i] += of.sums[i]
	}
	t.orderKeys += of.orderKeys
	t.parked += of.parked
	note(&t.lease, of.lease)
}

// write queues the change. It is once in a transaction: each writes another version of the row.
func (t *total) write(s *Store, b *pgx.Batch, now job.Instant) {
	if *t == (total{}) {
		return
	}
	crowded, due := []string{}, now
	if t.by != nil {
		crowded, due = t.by.crowded(), t.by.now
	}
	args := []any{int64(now), t.back, t.orderKeys, t.parked, t.back || t.low, int64(t.lease)}
	for _, n := range t.sums {
		args = append(args, n)
	}
	const ofLanes = `(SELECT min(lease) FROM duehook.lane WHERE lease >= least(` + leaseBound + `, nullif($6::bigint, 0))`
	q := b.Queue(s.sql(`WITH first AS (
			SELECT `+firstWake+`) AS wake, `+ofLanes+`) AS lease
		), written AS (
			INSERT INTO duehook.total AS x (one, at, order_keys, parked, wake, lease, `+stateColumns+`)
			SELECT true, $1, $3, $4, CASE WHEN $5 THEN 0 ELSE least($1, first.wake) END, CASE WHEN $5 THEN 0 ELSE coalesce(first.lease, `+noTime+`) END,
				$7, $8, $9, $10, $11, $12, $13 FROM first
			ON CONFLICT (one) DO UPDATE SET wake = excluded.wake, lease = excluded.lease,
				at = CASE WHEN $2 THEN excluded.at ELSE greatest(x.at, excluded.at) END, order_keys = x.order_keys + excluded.order_keys, parked = x.parked + excluded.parked,
				waiting = x.waiting + excluded.waiting, retrying = x.retrying + excluded.retrying, running = x.running + excluded.running,
				delivered = x.delivered + excluded.delivered, dead = x.dead + excluded.dead, cancelled = x.cancelled + excluded.cancelled,
				expired = x.expired + excluded.expired
		) SELECT coalesce(CASE WHEN cardinality($14::text[]) = 0 THEN least(wake, lease)
			ELSE least(`+firstWake+` AND (topic <> ALL($14) OR wake > $15)), `+ofLanes+` AND (topic <> ALL($14) OR lease > $15))) END, 0) FROM first`),
		append(args, crowded, int64(due))...)
	if t.by != nil { // it asks again for topics that are due and get none of its workers now
		q.QueryRow(func(row pgx.Row) error { return row.Scan(&t.by.next) })
	}
}

// foldRest folds what the first statement has left, and deletes rows of what has no job. It reports whether it did something.
func (t *txn) foldRest(ctx context.Context, f *folded) (changes bool, err error) {
	for n := 1; f.deltas == foldAtOnce && n < foldRounds; n++ {
		b := &pgx.Batch{}
		t.fold(b, f)
		if err := t.send(ctx, b); err != nil {
			return false, err
		}
		changes = true
	}
	b := &pgx.Batch{}
	if len(f.lanes) > 0 {
		b.Queue(t.s.sql(`DELETE FROM duehook.lane WHERE lane = ANY($1) AND waiting = 0 AND retrying = 0 AND running = 0 AND parked = 0`), f.lanes)
	}
	if len(f.topics) > 0 { // the pace of a rate outlasts the jobs
		b.Queue(t.s.sql(`DELETE FROM duehook.topic AS t WHERE topic = ANY($1) AND waiting = 0 AND retrying = 0 AND running = 0 AND delivered = 0
			AND dead = 0 AND cancelled = 0 AND expired = 0 AND parked = 0 AND order_keys = 0
			AND NOT EXISTS (SELECT FROM duehook.limits AS l WHERE l.topic = t.topic)`), f.topics)
	}
	if len(f.endpoints) > 0 {
		b.Queue(t.s.sql(`DELETE FROM duehook.endpoint WHERE endpoint = ANY($1) AND waiting = 0 AND retrying = 0 AND running = 0
			AND open_until = 0 AND half_open_until = 0 AND ramp_from = 0`), f.endpoints)
	}
	if len(f.groups) > 0 {
		b.Queue(t.s.sql(`DELETE FROM duehook.dead_group WHERE name = ANY($1) AND dead = 0`), f.groups)
	}
	if b.Len() == 0 {
		return changes, nil
	}
	return true, t.send(ctx, b)
}
