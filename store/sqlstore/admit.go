package sqlstore

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// admission decides whether topics accept jobs.
type admission struct {
	limits     map[string]store.Limits
	unfinished map[string]int // jobs of the topics with a capacity
}

// askLimits queues reading the limits of topics, without what needs their counts.
func (t *txn) askLimits(b *pgx.Batch, topics []string) *admission {
	a := &admission{limits: map[string]store.Limits{}, unfinished: map[string]int{}}
	t.s.askLimits(b, a.limits, `WHERE topic = ANY($1)`, topics)
	return a
}

// readLimits reads the limits of topics. With lock, it first locks those of topics with a capacity, so that no other
// transaction adds to their jobs.
func (t *txn) readLimits(b *pgx.Batch, topics []string, lock bool) *admission {
	slices.Sort(topics)
	if topics = slices.Compact(topics); len(topics) == 0 {
		return &admission{limits: map[string]store.Limits{}, unfinished: map[string]int{}}
	}
	const ofCapacity = `FROM duehook.limits l WHERE l.topic = ANY($1) AND (l.limits::json->>'Capacity')::bigint > 0`
	if lock {
		b.Queue(t.s.sql(`SELECT 1 `+ofCapacity+` ORDER BY l.topic FOR UPDATE`), topics)
	}
	a := t.askLimits(b, topics)
	collect(b.Queue(t.s.sql(`SELECT l.topic, coalesce((SELECT waiting + retrying + running FROM duehook.topic t WHERE t.topic = l.topic ORDER BY rev DESC LIMIT 1), 0) +
		coalesce((SELECT sum(d.waiting + d.retrying + d.running) FROM duehook.delta d WHERE starts_with(d.name, l.topic || '|')), 0) `+ofCapacity), topics), func(row pgx.Rows) error {
		var topic string
		var n int
		if err := row.Scan(&topic, &n); err != nil {
			return err
		}
		a.unfinished[topic] = n
		return nil
	})
	return a
}

// admits returns Created if the topic accepts another unfinished job, and otherwise why not.
func (a *admission) admits(topic string) store.RegisterOutcome {
	return rules.Admits(new(a.limits[topic]), int64(a.unfinished[topic]))
}

// isFull reports whether the topic has reached its capacity.
func (a *admission) isFull(topic string) bool {
	return rules.IsFull(new(a.limits[topic]), int64(a.unfinished[topic]))
}

// restricts reports whether the topic may refuse jobs.
func (a *admission) restricts(topic string) bool {
	l := a.limits[topic]
	return l.Draining || l.Capacity > 0
}
