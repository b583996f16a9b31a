package sqlstore

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

// folding folds all deltas.
func folding(t *testing.T, s *Store) {
	t.Helper()
	must.OK(t, s.change(t.Context(), func(ctx context.Context, tx *txn) error {
		return tx.underLock(ctx, "", func(*pgx.Batch) {})
	}))
}

// one is the only value of a query.
func one[T any](t *testing.T, s *Store, query string) (value T) {
	t.Helper()
	must.OK(t, s.pool.QueryRow(t.Context(), s.sql(query)).Scan(&value))
	return value
}

func TestFold(t *testing.T) {
	s := openStore(t, newOptions())
	lane := job.Lane{Topic: "t", Endpoint: "http://a.example:80"}
	urgent := job.Lane{Topic: "t", Endpoint: "http://a.example:80", Priority: job.PriorityOf(9)}
	add := func(change func(d *deltas)) {
		t.Helper()
		must.OK(t, s.change(t.Context(), func(ctx context.Context, tx *txn) error {
			change(&tx.deltas)
			return tx.send(ctx, &pgx.Batch{})
		}))
	}
	is := func(what, query, want string) {
		t.Helper()
		if got := one[string](t, s, query); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	const aLane = `SELECT concat_ws(' ', letter, waiting, running, head, held, "full", wake, lease) FROM duehook.lane WHERE letter = 'M'`
	const aTopic = `SELECT concat_ws(' ', letters, waiting, running, dead, held, "full", wake) FROM duehook.topic`

	add(func(d *deltas) {
		d.lane(lane).states[job.Waiting] = 2
		d.lane(lane).wakeAt(500)
		d.lane(urgent).states[job.Running] = 1
		d.lane(urgent).leaseAt(900)
		d.lane(job.Lane{Topic: "t"}).states[job.Dead] = 1
		d.group("t|M|http://a.example:80|x", 1)
	})
	folding(t, s)
	is("a new lane", aLane, "M 2 0 500 0 f 500")
	is("the other lane", `SELECT concat_ws(' ', letter, running, wake, lease) FROM duehook.lane WHERE letter = 'A'`, "A 1 900")
	is("the topic", aTopic, "{A,M} 2 1 1 0 f 500")
	is("the endpoint", `SELECT concat_ws(' ', waiting, running) FROM duehook.endpoint`, "2 1")
	is("the group", `SELECT dead::text FROM duehook.dead_group`, "1")

	exec(t, s, `UPDATE duehook.lane SET held = 700, wake = 700`)
	exec(t, s, `UPDATE duehook.topic SET held = 700, wake = 700`)
	add(func(d *deltas) { d.lane(lane).states[job.Waiting] = 1; d.lane(lane).wakeAt(400) })
	folding(t, s)
	is("a lane that is put off", aLane, "M 3 0 400 700 f 700")
	is("its topic", aTopic, "{A,M} 3 1 1 700 f 700")

	exec(t, s, `UPDATE duehook.lane SET "full" = true`)
	exec(t, s, `UPDATE duehook.topic SET "full" = true`)
	add(func(d *deltas) { d.lane(lane).states[job.Running] = -1 })
	folding(t, s)
	is("a lane with a free place", aLane, "M 3 -1 400 0 f 400")
	is("its topic is due", aTopic, "{A,M} 3 0 1 0 f 700")

	add(func(d *deltas) {
		d.lane(lane).states[job.Waiting], d.lane(lane).states[job.Running] = -3, 1
		d.lane(urgent).states[job.Running] = -1
		d.lane(job.Lane{Topic: "t"}).states[job.Dead] = -1
		d.group("t|M|http://a.example:80|x", -1)
	})
	folding(t, s)
	const rows = `SELECT (SELECT count(*) FROM duehook.lane) + (SELECT count(*) FROM duehook.topic) + (SELECT count(*) FROM duehook.endpoint) +
		(SELECT count(*) FROM duehook.dead_group) + (SELECT count(*) FROM duehook.delta)`
	if n := one[int](t, s, rows); n != 0 {
		t.Errorf("%d rows are left of nothing", n)
	}
}

// More deltas than one statement folds are folded by several.
func TestFoldMany(t *testing.T) {
	s := openStore(t, newOptions())
	exec(t, s, `INSERT INTO duehook.delta (lane, name, waiting, retrying, running, delivered, dead, cancelled, expired, parked, order_keys)
		SELECT '00000000-0000-0000-0000-000000000000', 't|M|http://a.example:80', 1, 0, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 12000)`)
	folding(t, s)
	if n := one[int](t, s, `SELECT waiting FROM duehook.topic`); n != 12_000 {
		t.Errorf("%d are counted", n)
	}
}
