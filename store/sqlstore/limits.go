package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// SetLimits replaces the limits of a topic. A take looks at the topic at once, and puts it off again if the new limits do.
func (s *Store) SetLimits(ctx context.Context, topic string, l store.Limits) error {
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode the limits of %s: %w", topic, err)
	}
	return s.change(ctx, func(ctx context.Context, t *txn) error {
		had := map[string]store.Limits{}
		err := t.underLock(ctx, "", func(b *pgx.Batch) { s.askLimits(b, had, `WHERE topic = $1 FOR UPDATE`, topic) })
		if err != nil {
			return err
		}
		old := had[topic]
		if old == l {
			return nil
		}
		b := &pgx.Batch{}
		if l == (store.Limits{}) {
			b.Queue(s.sql(`DELETE FROM duehook.limits WHERE topic = $1`), topic)
		} else {
			b.Queue(s.sql(`INSERT INTO duehook.limits (topic, limits) VALUES ($1, $2) ON CONFLICT (topic) DO UPDATE SET limits = $2`), topic, string(data))
		}
		b.Queue(s.sql(`INSERT INTO duehook.topic AS x (topic, rev) SELECT $1, `+revOf("topic", "$1")+`
			ON CONFLICT (topic, rev) DO UPDATE SET held = 0, "full" = false, wake = least(x.wake, $2), pace = CASE WHEN $3 THEN x.pace ELSE 0 END`),
			topic, int64(t.now), old.Rate == l.Rate)
		if l == (store.Limits{}) {
			b.Queue(s.sql(`DELETE FROM duehook.topic WHERE topic = $1 AND waiting = 0 AND retrying = 0 AND running = 0 AND delivered = 0 AND dead = 0
				AND cancelled = 0 AND expired = 0 AND parked = 0 AND order_keys = 0`), topic)
		}
		t.call(b, `name >= $2 AND name < $2 || '~'`, job.LanePrefix(topic))
		if err := t.send(ctx, b); err != nil {
			return err
		}
		t.calls = true
		t.tell(topic, t.now)
		return nil
	})
}
