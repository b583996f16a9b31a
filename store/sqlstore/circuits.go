package sqlstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// SetCircuit opens or closes the circuit of an endpoint.
func (s *Store) SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error {
	return s.change(ctx, func(ctx context.Context, t *txn) error {
		circuits := map[string]store.Circuit{}
		err := t.underLock(ctx, "", func(b *pgx.Batch) { s.askCircuits(b, circuits, `endpoint = $1`, endpoint) })
		if err != nil {
			return err
		}
		c, exists := circuits[endpoint]
		is := rules.ChangedCircuit(c, to, d, t.now)
		if is == c || !exists && to != store.CircuitOpen {
			return nil
		}
		t.total.looks = true
		b := &pgx.Batch{}
		b.Queue(s.sql(`INSERT INTO duehook.endpoint (endpoint, open_until, half_open_until, ramp_from) VALUES ($1, $2, $3, $4)
			ON CONFLICT (endpoint) DO UPDATE SET open_until = $2, half_open_until = $3, ramp_from = $4`),
			endpoint, int64(is.OpenUntil), int64(is.HalfOpenUntil), int64(is.RampFrom))
		if to != store.CircuitOpen { // a take puts the lanes off when it meets an open circuit
			t.call(b, `endpoint = $2`, endpoint)
		}
		if err := t.send(ctx, b); err != nil {
			return err
		}
		t.calls = true
		return nil
	})
}

// call has lanes that are put off looked at now.
func (t *txn) call(b *pgx.Batch, which, name string) {
	t.total.low = true
	b.Queue(t.s.sql(`WITH called AS (
			UPDATE duehook.lane SET held = 0, "full" = false, wake = head, lease = least(lease, $1) WHERE (held > 0 OR lease IS NOT NULL) AND `+which+`
			RETURNING topic, wake, pulled
		) UPDATE duehook.topic SET first = 0, wake = CASE WHEN held = 0 THEN $1 ELSE wake END
			WHERE topic = ANY(ARRAY(SELECT DISTINCT topic FROM called WHERE wake IS NOT NULL AND NOT pulled))`),
		int64(t.now), name)
}

// correct corrects what was stored while the clock was ahead: circuits half-open, ramps begin now, leases end within the
// longest one (zero: they stay), and each lane is looked at.
func (t *taking) correct(ctx context.Context) error {
	t.total.back = true
	circuits := map[string]store.Circuit{}
	b := &pgx.Batch{}
	t.s.askCircuits(b, circuits, `open_until + half_open_until + ramp_from > 0`)
	if err := t.send(ctx, b); err != nil {
		return err
	}
	b = &pgx.Batch{}
	for endpoint, c := range circuits {
		c = rules.CorrectedCircuit(c, t.now)
		b.Queue(t.s.sql(`UPDATE duehook.endpoint SET open_until = $2, half_open_until = $3, ramp_from = $4 WHERE endpoint = $1`),
			endpoint, int64(c.OpenUntil), int64(c.HalfOpenUntil), int64(c.RampFrom))
	}
	if longest := t.o.Limits.Longest; longest > 0 {
		b.Queue(t.s.sql(`UPDATE duehook.job j SET wake = $1 FROM (
				SELECT topic, id FROM duehook.job WHERE lane = ANY(ARRAY(SELECT lane FROM duehook.lane WHERE running > 0)) AND bucket = 0 AND wake > $1
				FOR UPDATE SKIP LOCKED
			) far WHERE j.topic = far.topic AND j.id = far.id`), int64(t.now.Add(longest)))
	}
	b.Queue(t.s.sql(`UPDATE duehook.lane SET held = 0, "full" = false, wake = head, lease = least(lease, $1)`), int64(t.now))
	b.Queue(t.s.sql(`UPDATE duehook.topic SET held = 0, "full" = false, wake = least(wake, $1), first = 0`), int64(t.now))
	b.Queue(t.s.sql(`UPDATE duehook.total SET wake = 0, lease = 0`))
	t.readDue(b)
	return t.send(ctx, b)
}
