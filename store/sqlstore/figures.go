package sqlstore

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Figures reads figures: what was folded, and the deltas since then.
func (s *Store) Figures(ctx context.Context, q store.FigureQuery) (f store.Figures, err error) {
	var circuits map[string]store.Circuit
	var lanes laneCounts
	now, err := s.ask(ctx, func(b *pgx.Batch) {
		f, circuits = store.Figures{}, map[string]store.Circuit{}
		if q.Depth {
			s.askDepth(b, &f.Depth)
		}
		if q.Circuits || q.Depth {
			s.askCircuits(b, circuits, `open_until + half_open_until + ramp_from > 0`)
		}
		if q.Limits {
			f.Limits = map[string]store.Limits{}
			s.askLimits(b, f.Limits, ``)
		}
		f.Topics = s.askCounts(b, `SELECT topic, `+stateColumns+` FROM duehook.topic WHERE topic = ANY($1)
	UNION ALL SELECT `+topicOfDelta+`, `+stateColumns+` FROM duehook.delta WHERE lane IS NOT NULL AND `+topicOfDelta+` = ANY($1)`, q.Topics)
		f.Endpoints = s.askCounts(b, `SELECT endpoint, waiting, retrying, running, 0, 0, 0, 0 FROM duehook.endpoint WHERE endpoint = ANY($1)
	UNION ALL SELECT `+endpointOfDelta+`, waiting, retrying, running, 0, 0, 0, 0 FROM duehook.delta WHERE lane IS NOT NULL AND `+endpointOfDelta+` = ANY($1)`, q.Endpoints)
		f.Groups = s.askGroups(b, q.Groups)
		if len(q.Lanes) > 0 {
			lanes = newLaneCounts(&q)
			lanes.ask(s, b)
		}
	})
	if err != nil {
		return store.Figures{}, err
	}
	f.Now, f.Depth.Now = now, now
	lanes.into(&f)
	for endpoint, c := range circuits {
		if is := rules.CircuitAt(c, cmp.Or(q.At, now)); is == (store.Circuit{}) {
			delete(circuits, endpoint)
		} else if circuits[endpoint] = is; q.Depth && is.OpenUntil != 0 {
			f.Depth.OpenCircuits++
		}
	}
	if q.Circuits {
		f.Circuits = circuits
	}
	return f, nil
}

// stateColumns are the counts by state, in the order of countedStates.
const stateColumns = "waiting, retrying, running, delivered, dead, cancelled, expired"

var countedStates = [...]job.State{job.Waiting, job.Retrying, job.Running, job.Delivered, job.Dead, job.Cancelled, job.Expired}

// stateSums are the sums of stateColumns.
const stateSums = "coalesce(sum(waiting), 0)::bigint, coalesce(sum(retrying), 0)::bigint, coalesce(sum(running), 0)::bigint, " +
	"coalesce(sum(delivered), 0)::bigint, coalesce(sum(dead), 0)::bigint, coalesce(sum(cancelled), 0)::bigint, coalesce(sum(expired), 0)::bigint"

// sums scans stateSums behind other columns.
type sums [len(countedStates)]int64

func (s *sums) behind(columns ...any) []any {
	for i := range s {
		columns = append(columns, &s[i])
	}
	return columns
}

func (s *sums) byState() map[job.State]int64 {
	counts := make(map[job.State]int64, len(s))
	for i, state := range countedStates {
		counts[state] = s[i]
	}
	return counts
}

func (s *Store) askDepth(b *pgx.Batch, d *store.Depth) {
	b.Queue(s.sql(`SELECT coalesce(sum(order_keys), 0)::bigint, coalesce(sum(parked), 0)::bigint,
	coalesce(least(min(look), ` + nextLook + `), 0), ` + stateSums + ` FROM (
	SELECT order_keys, parked, NULL::bigint AS look, ` + stateColumns + ` FROM duehook.total
	UNION ALL SELECT order_keys, parked, CASE WHEN ` + endpointOfDelta + ` <> 'pull:' THEN least(wake, lease) ELSE lease END, ` + stateColumns + `
	FROM duehook.delta WHERE lane IS NOT NULL
) AS counted`)).QueryRow(func(row pgx.Row) error {
		var of sums
		err := row.Scan(of.behind(&d.OrderKeys, &d.Behind, (*int64)(&d.OldestDue))...)
		d.States = of.byState()
		return err
	})
}

// askCircuits asks for circuits as last changed.
func (s *Store) askCircuits(b *pgx.Batch, circuits map[string]store.Circuit, which string, args ...any) {
	collect(b.Queue(s.sql(`SELECT endpoint, open_until, half_open_until, ramp_from FROM duehook.endpoint WHERE `+which), args...), func(row pgx.Rows) error {
		var endpoint string
		var c store.Circuit
		err := row.Scan(&endpoint, &c.OpenUntil, &c.HalfOpenUntil, &c.RampFrom)
		circuits[endpoint] = c
		return err
	})
}

// askLimits asks for limits of topics; zero if they cannot be read. rest continues the statement.
func (s *Store) askLimits(b *pgx.Batch, limits map[string]store.Limits, rest string, args ...any) {
	collect(b.Queue(s.sql(`SELECT topic, limits FROM duehook.limits `+rest), args...), func(row pgx.Rows) error {
		var topic string
		var text *string
		err := row.Scan(&topic, &text)
		limits[topic] = limitsOf(text)
		return err
	})
}

// askCounts asks for counts of names by state. of selects the name and stateColumns.
func (s *Store) askCounts(b *pgx.Batch, of string, names []string) []map[job.State]int64 {
	if len(names) == 0 {
		return nil
	}
	counts := make([]map[job.State]int64, len(names))
	b.Queue(s.sql(`SELECT name, `+stateSums+` FROM (`+of+`) AS counted (name, `+stateColumns+`) GROUP BY name`), texts(names)).Query(func(rows pgx.Rows) error {
		var name string
		var of sums
		found := map[string]sums{}
		_, err := pgx.ForEachRow(rows, of.behind(&name), func() error {
			found[name] = of
			return nil
		})
		for i, name := range names {
			of := found[name]
			counts[i] = of.byState()
		}
		return err
	})
	return counts
}

func texts(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = text(name)
	}
	return all
}

// askGroups asks for figures of groups of dead letters.
func (s *Store) askGroups(b *pgx.Batch, names []string) []store.DeadFigures {
	if len(names) == 0 {
		return nil
	}
	groups := make([]store.DeadFigures, len(names))
	const end = `(SELECT ended_at FROM duehook.job WHERE dead_group = name ORDER BY ended_at`
	b.Queue(s.sql(`SELECT n, (
		SELECT coalesce(sum(dead), 0) FROM (SELECT dead FROM duehook.dead_group WHERE dead_group.name = g.name
			UNION ALL SELECT dead FROM duehook.delta WHERE lane IS NULL AND delta.name = g.name) AS counted
	)::bigint, coalesce(`+end+` LIMIT 1), 0), coalesce(`+end+` DESC LIMIT 1), 0)
FROM unnest($1::text[]) WITH ORDINALITY AS g (name, n)`), texts(names)).Query(func(rows pgx.Rows) error {
		var n int64
		var g store.DeadFigures
		_, err := pgx.ForEachRow(rows, []any{&n, &g.Count, (*int64)(&g.Oldest), (*int64)(&g.Newest)}, func() error {
			groups[n-1] = g
			return nil
		})
		return err
	})
	return groups
}

// laneCounts counts waiting jobs of lanes.
type laneCounts struct {
	q      *store.DueQuery
	ids    []laneID
	all    []store.LaneFigures
	bounds []int64
	// open: what is in none of the other ranges is in a last one without an end, whose jobs need not be looked at.
	open    bool
	waiting []int64 // the jobs that wait in all
	cost    int
}

func newLaneCounts(q *store.FigureQuery) laneCounts {
	c := laneCounts{q: &q.Due, all: make([]store.LaneFigures, len(q.Lanes)), waiting: make([]int64, len(q.Lanes)), cost: len(q.Lanes)}
	last := len(q.Due.Bounds) - 1
	for i, name := range q.Lanes {
		c.ids, c.all[i].Due = append(c.ids, laneIDOf(name)), make([]int64, last)
	}
	for _, at := range q.Due.Bounds {
		c.bounds = append(c.bounds, int64(at))
	}
	if c.open = q.Due.Bounds[0] <= 0 && q.Due.Bounds[last] == store.EndOfTime; c.open {
		c.bounds = c.bounds[:last]
	}
	return c
}

// of calls visit for each row of the answer about lanes, whose first column is the number of the lane from 1.
func (c *laneCounts) of(q *pgx.QueuedQuery, columns int, visit func(l *store.LaneFigures, lane int, values []int64)) {
	q.Query(func(rows pgx.Rows) error {
		values := make([]int64, columns)
		into := make([]any, columns)
		for i := range values {
			into[i] = &values[i]
		}
		_, err := pgx.ForEachRow(rows, into, func() error {
			lane := int(values[0]) - 1
			visit(&c.all[lane], lane, values[1:])
			return nil
		})
		return err
	})
}

func (c *laneCounts) ask(s *Store, b *pgx.Batch) {
	if c.open {
		c.askWaiting(s, b)
	}
	buckets := []int16{1}
	if c.q.Behind {
		buckets = append(buckets, 2)
	}
	for _, bucket := range buckets {
		if len(c.bounds) > 1 {
			c.askRanges(s, b, bucket)
		}
	}
	if c.q.First {
		c.of(b.Queue(s.sql(`SELECT n, wake FROM unnest($1::uuid[]) WITH ORDINALITY AS l (lane, n), LATERAL (
	SELECT wake FROM duehook.job WHERE job.lane = l.lane AND bucket = 1 ORDER BY wake, id LIMIT 1
) AS first`), c.ids), 2, func(l *store.LaneFigures, _ int, values []int64) { l.First = job.Instant(values[0]) })
	}
}

func (c *laneCounts) askWaiting(s *Store, b *pgx.Batch) {
	count := "waiting + retrying"
	if !c.q.Behind {
		count += " - parked"
	}
	c.of(b.Queue(s.sql(`SELECT n, (
	SELECT coalesce(sum(n), 0) FROM (SELECT `+count+` AS n FROM duehook.lane WHERE lane.lane = l.lane
		UNION ALL SELECT `+count+` FROM duehook.delta WHERE delta.lane = l.lane) AS counted
)::bigint FROM unnest($1::uuid[]) WITH ORDINALITY AS l (lane, n)`), c.ids), 2, func(_ *store.LaneFigures, lane int, values []int64) { c.waiting[lane] = values[0] })
}

// askRanges counts the jobs in a bucket between bounds. The lanes share q.Most.
func (c *laneCounts) askRanges(s *Store, b *pgx.Batch, bucket int16) {
	most := max(c.q.Most/len(c.ids), 1)
	c.of(b.Queue(s.sql(`SELECT n, width_bucket(wake, $3::bigint[]), count(*) FILTER (WHERE nth <= $4), coalesce(min(wake) FILTER (WHERE nth > $4), 0)
FROM unnest($1::uuid[]) WITH ORDINALITY AS l (lane, n), LATERAL (
	SELECT wake, row_number() OVER (ORDER BY wake, id) AS nth FROM (
		SELECT wake, id FROM duehook.job WHERE job.lane = l.lane AND bucket = $2 AND wake >= $5 AND wake < $6 ORDER BY wake, id LIMIT $4 + 1
	) AS first
) AS counted GROUP BY 1, 2`), c.ids, bucket, c.bounds, int64(most), c.bounds[0], c.bounds[len(c.bounds)-1]), 4,
		func(l *store.LaneFigures, _ int, values []int64) {
			in, count, left := values[0], values[1], job.Instant(values[2])
			l.Due[in-1] += count
			c.cost += int(count)
			if left != 0 && (l.PartialFrom == 0 || left < l.PartialFrom) {
				l.PartialFrom = left
			}
		})
}

// into gives the counts to figures.
func (c *laneCounts) into(f *store.Figures) {
	f.Lanes, f.Cost = c.all, c.cost
	if !c.open {
		return
	}
	for i := range c.all {
		l := &c.all[i]
		if l.PartialFrom != 0 {
			continue
		}
		for _, n := range l.Due {
			c.waiting[i] -= n
		}
		l.Due[len(l.Due)-1] += max(c.waiting[i], 0)
	}
}
