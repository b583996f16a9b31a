package sqlstore

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// nextLook is when a take looks at the first topic or lease; NULL: never.
const (
	nextLook  = `least(` + firstWake + `), (SELECT min(lease) FROM duehook.lane WHERE lease >= ` + leaseBound + `))`
	firstWake = `(SELECT min(wake) FROM duehook.topic WHERE wake >= ` + wakeBound // open for more conditions
)

// readDue queues reading the database's time, and what is due.
func (t *taking) readDue(b *pgx.Batch) {
	t.readTopics(b)
	t.readLanes(b)
	if t.o.Pull == nil {
		t.readFirst(b)
	}
}

// atNow is the time of the take, $1, which is 0 until it is known.
const atNow = `WITH c AS MATERIALIZED (SELECT coalesce(nullif($1::bigint, 0), ` + clock + `) AS now)`

// readTopics queues reading the time, and the topics that are due, or that have a lease that has ended. For
// consumers of pull queues these are the topics that they ask for.
func (t *taking) readTopics(b *pgx.Batch) {
	t.topics, t.endpoints, t.lanes = map[string]*topicRow{}, map[string]*endpointRow{}, nil
	t.known, t.own = map[job.Lane]*laneRow{}, map[job.Lane]*int{}
	const topics = atNow + `
		SELECT c.now, coalesce(x.topic, ''), coalesce(x.due, false), coalesce(t.running, 0), coalesce(t.letters, '{}'), coalesce(t.pace, 0), coalesce(t.first, 0), l.limits,
		coalesce(` + nextLook + `, 0), coalesce((SELECT at FROM duehook.total), 0), ` + wakeBound + ` FROM c LEFT JOIN LATERAL (`
	const rest = `) x ON true LEFT JOIN LATERAL (SELECT * FROM duehook.topic WHERE topic = x.topic ORDER BY rev DESC LIMIT 1) t ON true LEFT JOIN duehook.limits l ON l.topic = x.topic ORDER BY x.due DESC, x.at, t.served NULLS FIRST`
	var q *pgx.QueuedQuery
	if t.o.Pull != nil {
		q = b.Queue(t.s.sql(topics+`SELECT p AS topic, false AS due, 0 AS at FROM unnest($2::text[]) p`+rest), int64(t.now), t.o.Pull)
	} else {
		q = b.Queue(t.s.sql(topics+`(SELECT topic, true AS due, wake AS at FROM duehook.topic WHERE wake >= `+wakeBound+` AND wake <= c.now ORDER BY wake LIMIT $2)
			UNION ALL (SELECT topic, false, lease FROM duehook.lane WHERE lease >= `+leaseBound+` AND lease <= c.now ORDER BY lease LIMIT $2)`+rest), int64(t.now), topicsAtOnce)
	}
	collect(q, func(row pgx.Rows) error {
		r := &topicRow{}
		var pace float64
		var limits *string
		var next job.Instant
		if err := row.Scan(&t.now, &r.name, &r.due, &r.running, &r.letters, &pace, &r.first, &limits, &next, &t.seen, &t.wakes); err != nil {
			return err
		}
		r.limits = rules.Topic{Limits: limitsOf(limits), Next: pace}
		if t.o.Pull == nil {
			t.next = next
			note(&t.next, t.total.lease)
			r.held, r.full = r.limits.Hold(t.now, r.running)
		}
		if _, known := t.topics[r.name]; !known && r.name != "" {
			t.topics[r.name] = r
		}
		return nil
	})
}

// readWeights queues reading the weights of topics that have workers of the caller.
func (t *taking) readWeights(b *pgx.Batch) {
	if t.o.Workers != nil && len(t.o.Workers.Has) > 0 {
		t.weights = map[string]store.Limits{}
		t.s.askLimits(b, t.weights, `WHERE topic = ANY($1)`, slices.Collect(maps.Keys(t.o.Workers.Has)))
	}
}

// limitsOf reads the limits of a topic. Unreadable ones, which somebody wrote by hand, limit nothing.
func limitsOf(text *string) (l store.Limits) {
	if text == nil || json.Unmarshal([]byte(*text), &l) != nil {
		return store.Limits{}
	}
	return l
}

// laneColumns are the columns of a lane, x, and its endpoint.
const laneColumns = `x.name, x.running, coalesce(x.head, 0), x.head_id, x.held, x."full", coalesce(x.wake, 0), coalesce(x.lease, 0),
	coalesce(e.running, 0), coalesce(e.open_until, 0), coalesce(e.half_open_until, 0), coalesce(e.ramp_from, 0)`

// dueLanes are the due lanes of due topics but $5, in their order: up to $2 in all, and $4 of each letter of a topic. Up to $3 topics are read.
const dueLanes = `SELECT x.*, q.nth FROM (
		SELECT t.topic, t.first, l.letter, greatest(1, least($4::bigint, $2::bigint / t.n)) AS most, row_number() OVER (ORDER BY t.wake, t.served, t.topic, l.letter) AS nth
		FROM (SELECT *, count(*) OVER () AS n FROM (SELECT d.* FROM c CROSS JOIN LATERAL
				(SELECT topic, letters, wake, served, first FROM duehook.topic WHERE wake >= ` + wakeBound + ` AND wake <= c.now AND topic <> ALL($5::text[]) ORDER BY wake LIMIT $3) d) due) t
			CROSS JOIN LATERAL unnest(t.letters) AS l (letter)
	) q CROSS JOIN c CROSS JOIN LATERAL
		(SELECT * FROM duehook.lane WHERE topic = q.topic AND letter = q.letter AND wake >= q.first AND wake <= c.now AND NOT pulled ORDER BY wake LIMIT q.most) x`

// readLanes queues reading the due lanes, and those with a lease that has ended.
func (t *taking) readLanes(b *pgx.Batch) {
	if t.o.Pull != nil {
		var ids []laneID
		for _, topic := range t.o.Pull {
			for _, l := range job.PullLanes(topic) {
				ids = append(ids, laneIDOf(l.String()))
			}
		}
		collect(b.Queue(t.s.sql(`SELECT false, `+laneColumns+` FROM duehook.lane x LEFT JOIN duehook.endpoint e ON e.endpoint = x.endpoint
			WHERE x.lane = ANY($1) AND x.head IS NOT NULL ORDER BY x.topic, x.letter`), ids), t.scanLane)
		return
	}
	collect(b.Queue(t.s.sql(atNow+` SELECT x.nth > 0, `+laneColumns+` FROM (
			(`+dueLanes+`) UNION ALL (SELECT l.*, 0 FROM c CROSS JOIN LATERAL (SELECT * FROM duehook.lane WHERE lease >= `+leaseBound+` AND lease <= c.now ORDER BY lease LIMIT $3) l)
		) x LEFT JOIN duehook.endpoint e ON e.endpoint = x.endpoint ORDER BY x.nth, x.wake`), int64(t.now), lanesAtOnce, topicsAtOnce, t.room, t.crowded()), t.scanLane)
}

func (t *taking) scanLane(row pgx.Rows) error {
	l, e := &laneRow{}, &endpointRow{}
	var name string
	var due bool
	if err := row.Scan(&due, &name, &l.running, &l.head, &l.headID, &l.held, &l.full, &l.wake, &l.lease,
		&e.running, &e.circuit.OpenUntil, &e.circuit.HalfOpenUntil, &e.circuit.RampFrom); err != nil {
		return err
	}
	var err error
	if l.lane, err = job.ParseLane(name); err != nil {
		return err
	}
	if l.topic = t.topics[l.lane.Topic]; l.topic == nil || t.known[l.lane] != nil || due && l.topic.held != 0 {
		return nil
	}
	plain := l.lane.Plain()
	if t.own[plain] == nil {
		t.own[plain] = new(int)
	}
	l.own = t.own[plain]
	*l.own += l.running
	l.id, e.name = laneIDOf(name), l.lane.Endpoint
	if known := t.endpoints[e.name]; known != nil {
		e = known
	} else {
		e.circuit = rules.CircuitAt(e.circuit, t.now)
		t.endpoints[e.name] = e
	}
	l.endpoint, t.known[l.lane] = e, l
	t.lanes = append(t.lanes, l)
	return nil
}

// readRivals adds the other lanes of the same topic and endpoint, if the topic has priorities: their jobs count for the
// same limit, and those of a higher priority go before.
func (t *taking) readRivals(ctx context.Context) error {
	var topics, endpoints []string
	seen := map[job.Lane]bool{}
	for _, l := range t.lanes {
		if plain := l.lane.Plain(); len(l.topic.letters) > 1 && !seen[plain] && !l.lane.Pulled() {
			seen[plain] = true
			topics, endpoints = append(topics, plain.Topic), append(endpoints, plain.Endpoint)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	collect(b.Queue(t.s.sql(`SELECT false, `+laneColumns+` FROM unnest($1::text[], $2::text[]) AS q (topic, endpoint)
		JOIN duehook.lane x ON x.endpoint = q.endpoint AND x.name >= q.topic || '|' AND x.name < q.topic || '}' LEFT JOIN duehook.endpoint e ON e.endpoint = x.endpoint`),
		topics, endpoints), t.scanLane)
	return t.send(ctx, b)
}

// leaseEnded reports whether a lease of the lane may have ended.
func (l *laneRow) leaseEnded(now job.Instant) bool { return l.lease != 0 && l.lease <= now }

// firstJobs are the first x.n jobs of a bucket of the lane x from x.at and x.id on: those that are due, and one more. Before x.at there are only
// entries of jobs that are gone, which vacuum has not removed.
func firstJobs(bucket, now string) string {
	of := `SELECT ctid AS place, id, wake, state, version, token, created_at, timeout, order_key, expired_leases, octet_length(spec) AS size FROM duehook.job
		WHERE lane = x.lane AND bucket = ` + bucket + ` AND `
	// The second one has one lower bound: with two, PostgreSQL would walk over all that are due.
	return `((` + of + `(wake, id) >= (x.at, x.id) AND wake <= ` + now + ` ORDER BY wake, id LIMIT x.n) UNION ALL
		(` + of + `wake > greatest(` + now + `, x.at - 1) ORDER BY wake, id LIMIT 1)) ORDER BY wake, id LIMIT x.n`
}

// candidateColumns are the columns of a candidate, j.
const candidateColumns = `j.place, coalesce(j.id, ''), coalesce(j.wake, 0), coalesce(j.state, 0), coalesce(j.version, 0), coalesce(j.token, 0), coalesce(j.created_at, 0),
	coalesce(j.timeout, 0), coalesce(j.order_key, ''), coalesce(j.expired_leases, 0), coalesce(j.size, 0)`

// readFirst queues reading the first waiting jobs of the due lanes: as many as the lanes need if each may have an equal part.
func (t *taking) readFirst(b *pgx.Batch) {
	q := b.Queue(t.s.sql(atNow+` SELECT x.name, x.n, `+candidateColumns+`
		FROM (SELECT name, lane, head AS at, head_id AS id, nth, $4::bigint / count(*) OVER () + 2 AS n FROM (`+dueLanes+`) due) x CROSS JOIN c
			LEFT JOIN LATERAL (`+firstJobs("1", "c.now")+`) j ON true
		ORDER BY x.nth, j.wake, j.id`), int64(t.now), lanesAtOnce, topicsAtOnce, t.room, t.crowded())
	collect(q, func(row pgx.Rows) error {
		c := &candidate{}
		var name string
		var most int
		if err := c.scan(row, &name, &most); err != nil {
			return err
		}
		lane, err := job.ParseLane(name)
		if c.lane = t.known[lane]; c.lane == nil {
			return err
		}
		if c.lane.waits.most = most; c.id != "" {
			c.lane.waits.jobs = append(c.lane.waits.jobs, c)
		}
		return nil
	})
}

// readCandidates reads the jobs of each lane that may go, and one more waiting one, which tells when to look again. It leaves out what was
// read before.
func (t *taking) readCandidates(ctx context.Context, plan *rules.Plan, run *rules.Run) error {
	var ask asking
	for i := range plan.Visits {
		v := &plan.Visits[i]
		l := t.lanes[v.Lane]
		if v.PutOff != 0 {
			continue
		}
		most := max(run.Share(v), 1) + 1
		if l.leaseEnded(t.now) {
			l.flies.most = most
			ask.add(v.Lane, l.id, bucketFlight, 0, "", most)
		}
		if l.head != 0 && !l.lane.Pulled() && !l.waits.suffices(most) {
			l.waits = reading{most: most}
			ask.add(v.Lane, l.id, bucketDue, l.head, l.headID, most)
		}
	}
	return t.ask(ctx, &ask)
}

// readWaiting reads the jobs that wait in the lanes of pull queues, and leaves lanes without a due one out: they have no
// share.
func (t *taking) readWaiting(ctx context.Context) error {
	var ask asking
	for i, l := range t.lanes {
		l.waits.most = t.room + 1
		ask.add(i, l.id, bucketDue, l.head, l.headID, l.waits.most)
	}
	if err := t.ask(ctx, &ask); err != nil {
		return err
	}
	t.lanes = slices.DeleteFunc(t.lanes, func(l *laneRow) bool {
		if l.waits.isDue(t.now) {
			return false
		}
		if c := l.waits.left(); c != nil {
			t.noteAt(c.wake)
		}
		return true
	})
	return nil
}

// asking is a question for candidates.
type asking struct {
	numbers []int32 // of lanes
	lanes   []laneID
	buckets []int16
	from    []int64
	fromIDs []string
	most    []int32
}

func (a *asking) add(number int, lane laneID, bucket int16, from job.Instant, fromID string, most int) {
	a.numbers, a.lanes, a.buckets = append(a.numbers, int32(number)), append(a.lanes, lane), append(a.buckets, bucket)
	a.from, a.fromIDs, a.most = append(a.from, int64(from)), append(a.fromIDs, fromID), append(a.most, int32(most))
}

// ask reads candidates.
func (t *taking) ask(ctx context.Context, a *asking) error {
	if len(a.lanes) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	q := b.Queue(t.s.sql(`SELECT x.number, x.bucket, `+candidateColumns+`
		FROM unnest($1::int4[], $2::uuid[], $3::int2[], $4::int8[], $5::text[], $6::int4[]) WITH ORDINALITY AS x (number, lane, bucket, at, id, n, nth)
			CROSS JOIN LATERAL (`+firstJobs("x.bucket", "$7")+`) j
		ORDER BY x.nth, j.wake, j.id`), a.numbers, a.lanes, a.buckets, a.from, a.fromIDs, a.most, int64(t.now))
	collect(q, func(row pgx.Rows) error {
		c := &candidate{}
		var number int
		var bucket int16
		if err := c.scan(row, &number, &bucket); err != nil {
			return err
		}
		c.lane = t.lanes[number]
		if bucket == bucketFlight {
			c.lane.flies.jobs = append(c.lane.flies.jobs, c)
		} else {
			c.lane.waits.jobs = append(c.lane.waits.jobs, c)
		}
		return nil
	})
	return t.send(ctx, b)
}

// scan reads a candidate behind other columns.
func (c *candidate) scan(row pgx.Rows, before ...any) error {
	var state int16
	var timeout int64
	err := row.Scan(append(before, &c.place, &c.id, &c.wake, &state, &c.version, &c.token, &c.created, &timeout, &c.order, &c.expired, &c.size)...)
	c.state, c.timeout = job.State(state), time.Duration(timeout)
	return err
}

// readHeads locks the heads of the order keys of due candidates. A candidate that is not the head cannot be claimed.
func (t *taking) readHeads(ctx context.Context) error {
	var orders []string
	var all []*candidate
	for _, l := range t.lanes {
		for _, c := range slices.Concat(l.flies.jobs, l.waits.jobs) {
			if c.order != "" && c.wake <= t.now {
				orders, all = append(orders, c.order), append(all, c)
			}
		}
	}
	if len(orders) == 0 {
		return nil
	}
	slices.Sort(orders)
	orders = slices.Compact(orders)
	heads := make(map[string]string, len(orders))
	b := &pgx.Batch{}
	q := b.Queue(t.s.sql(`SELECT order_key, id FROM duehook.order_head WHERE order_key = ANY($1) FOR UPDATE SKIP LOCKED`), orders)
	collect(q, func(row pgx.Rows) error {
		var order, id string
		err := row.Scan(&order, &id)
		heads[order] = id
		return err
	})
	if err := t.send(ctx, b); err != nil {
		return err
	}
	for _, c := range all {
		id, known := heads[c.order]
		c.locked, c.behind = !known, known && id != c.id
	}
	return nil
}
