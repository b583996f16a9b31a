package sqlstore

import (
	"github.com/jackc/pgx/v5"
)

// writeRows writes the counts of a round, and when to look again.
func (t *taking) writeRows(b *pgx.Batch) {
	t.writeLanes(b)
	t.writeEndpoints(b)
	t.writeTopics(b)
	if (t.total.looks || t.shared) && t.o.Pull == nil {
		t.total.by = t
	}
}

// look computes when to look at a visited lane again.
func (t *taking) look(l *laneRow) {
	t.lookAtLeases(l)
	t.lookAtWaiting(l)
	note(&t.total.lease, l.lease)
	if l.wake != 0 {
		l.wake = max(l.wake, l.topic.first)
	}
}

func (t *taking) lookAtLeases(l *laneRow) {
	if l.flies.most > 0 {
		l.lease = 0
		if c := l.flies.left(); c != nil {
			l.lease = c.wake
			if c.behind || c.locked {
				l.lease = max(l.lease, t.now.Add(turnLook))
			}
		}
	}
	for _, all := range [][]*candidate{l.flies.jobs, l.waits.jobs} {
		for _, c := range all {
			if c.gone {
				note(&l.lease, c.until) // 0: it is parked
			}
		}
	}
}

func (t *taking) lookAtWaiting(l *laneRow) {
	if l.waits.most > 0 {
		l.head, l.headID = 0, ""
		if c := l.waits.left(); c != nil {
			l.head, l.headID = c.wake, c.id
			if c.locked && l.held == 0 {
				l.held = t.now.Add(lockedLook)
			}
		}
	}
	switch first := max(l.head, l.held); {
	case l.head == 0:
		l.wake = 0
	case first > t.now:
		l.wake = first
	case l.turn, l.wake == 0, l.wake > t.now: // to the end of the line
		l.wake = t.now
	}
}

func (t *taking) writeLanes(b *pgx.Batch) {
	var all []*laneRow
	for _, l := range t.lanes {
		if l.visited {
			t.look(l)
			all = append(all, l)
		}
	}
	if len(all) == 0 {
		return
	}
	b.Queue(t.s.sql(`UPDATE duehook.lane x SET rev = x.rev + 1, waiting = x.waiting + q.waiting, retrying = x.retrying + q.retrying, running = x.running + q.running,
			parked = x.parked + q.parked, head = q.head, head_id = q.head_id, held = q.held, "full" = q."full", wake = q.wake, lease = q.lease
		FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::text[], $8::int8[], $9::bool[], $10::int8[], $11::int8[])
			AS q (lane, waiting, retrying, running, parked, head, head_id, held, "full", wake, lease)
		WHERE x.ctid = (SELECT ctid FROM duehook.lane WHERE lane.lane = q.lane ORDER BY rev DESC LIMIT 1)`),
		column(all, func(l *laneRow) laneID { return l.id }),
		column(all, func(l *laneRow) int64 { return int64(l.waiting) }), column(all, func(l *laneRow) int64 { return int64(l.retrying) }),
		column(all, func(l *laneRow) int64 { return int64(l.counts.running) }), column(all, func(l *laneRow) int64 { return int64(l.parked) }),
		column(all, func(l *laneRow) *int64 { return orNull(int64(l.head)) }), column(all, func(l *laneRow) string { return l.headID }),
		column(all, func(l *laneRow) int64 { return int64(l.held) }), column(all, func(l *laneRow) bool { return l.full }),
		column(all, func(l *laneRow) *int64 { return orNull(int64(l.wake)) }), column(all, func(l *laneRow) *int64 { return orNull(int64(l.lease)) }))
}

func (t *taking) writeEndpoints(b *pgx.Batch) {
	var all []*endpointRow
	for _, e := range t.endpoints {
		if e.counts != (counts{}) {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return
	}
	b.Queue(t.s.sql(`UPDATE duehook.endpoint x SET waiting = x.waiting + q.waiting, retrying = x.retrying + q.retrying, running = x.running + q.running
		FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[]) AS q (endpoint, waiting, retrying, running) WHERE x.endpoint = q.endpoint`),
		column(all, func(e *endpointRow) string { return e.name }),
		column(all, func(e *endpointRow) int64 { return int64(e.waiting) }), column(all, func(e *endpointRow) int64 { return int64(e.retrying) }),
		column(all, func(e *endpointRow) int64 { return int64(e.counts.running) }))
}

// writeTopics writes topics that were due, or whose lanes were visited. A topic that was due goes to the end of the line.
func (t *taking) writeTopics(b *pgx.Batch) {
	var all []*topicRow
	for _, r := range t.topics {
		if r.due || r.visited {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return
	}
	t.total.looks = true
	for _, r := range all {
		t.total.add(&total{sums: sums{int64(r.waiting), int64(r.retrying), int64(r.counts.running)}, parked: int64(r.parked)})
	}
	args := []any{
		column(all, func(r *topicRow) string { return r.name }),
		column(all, func(r *topicRow) int64 { return int64(r.waiting) }), column(all, func(r *topicRow) int64 { return int64(r.retrying) }),
		column(all, func(r *topicRow) int64 { return int64(r.counts.running) }), column(all, func(r *topicRow) int64 { return int64(r.parked) }),
		column(all, func(r *topicRow) *float64 {
			if !r.paced {
				return nil
			}
			return &r.limits.Next
		}),
	}
	const add = `UPDATE duehook.topic x SET rev = x.rev + 1, waiting = x.waiting + q.waiting, retrying = x.retrying + q.retrying, running = x.running + q.running,
		parked = x.parked + q.parked, pace = coalesce(q.pace, x.pace)`
	const from = ` FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::float8[]`
	const current = ` WHERE x.ctid = (SELECT ctid FROM duehook.topic WHERE topic.topic = q.topic ORDER BY rev DESC LIMIT 1)`
	if t.o.Pull != nil {
		b.Queue(t.s.sql(add+from+`) AS q (topic, waiting, retrying, running, parked, pace)`+current), args...)
		return
	}
	args = append(args,
		column(all, func(r *topicRow) int64 { return int64(r.held) }), column(all, func(r *topicRow) bool { return r.full }),
		column(all, func(r *topicRow) bool { return r.counts.running > 0 }), int64(t.now), int64(t.wakes))
	b.Queue(t.s.sql(add+`, first = least(m.wake, $10), held = q.held, "full" = q."full", served = CASE WHEN q.served THEN $10 ELSE x.served END,
		wake = CASE WHEN m.wake IS NULL THEN NULL ELSE greatest(m.wake, q.held, $10, $11) END`+
		from+`, $7::int8[], $8::bool[], $9::bool[]) AS q (topic, waiting, retrying, running, parked, pace, held, "full", served) CROSS JOIN LATERAL
			(SELECT min(l.wake) AS wake FROM (SELECT letters, first FROM duehook.topic WHERE topic.topic = q.topic ORDER BY rev DESC LIMIT 1) t
				CROSS JOIN LATERAL unnest(t.letters) AS letter CROSS JOIN LATERAL
				(SELECT wake FROM duehook.lane WHERE topic = q.topic AND letter = letter.letter AND wake >= t.first AND NOT pulled ORDER BY wake LIMIT 1) l
			) m`+current), args...)
}
