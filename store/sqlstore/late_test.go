package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// backend reads the process of a transaction's connection, in its first round trip.
func backend(ctx context.Context, x *txn) (pid int, err error) {
	b := &pgx.Batch{}
	b.Queue("SELECT pg_backend_pid()").QueryRow(func(row pgx.Row) error { return row.Scan(&pid) })
	return pid, x.send(ctx, b)
}

// A write that reaches a server that stands still is undone when the server runs again, if its caller has given up. The server knows
// that by its clock: a request to cancel the write stands still, too.
func TestLateWriteIsUndone(t *testing.T) {
	const wait = 2 * time.Second
	o := newOptions()
	frozen := testenv.Postgres(t, false)
	o.URL, o.MaxConns = frozen.URL("postgres"), 2
	s := openStore(t, o)
	var pid int
	write := func(ctx context.Context, before func() error) error {
		return s.change(ctx, func(ctx context.Context, x *txn) (err error) {
			if pid, err = backend(ctx, x); err != nil {
				return err
			}
			x.deltas.lane(job.Lane{Topic: "t", Endpoint: "http://a.example:80"}).states[job.Waiting]++
			return before()
		})
	}
	done := func() error { return nil }
	must.OK(t, write(t.Context(), func() error { return write(t.Context(), done) })) // both connections know the statements
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	err := write(ctx, frozen.Freeze)
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a write without an answer: %v", err)
	}
	late, cancel := context.WithTimeout(t.Context(), wait) // the server counts from the end of the first round trip
	defer cancel()
	<-late.Done()
	must.OK(t, frozen.Thaw())
	testenv.Eventually(t, testenv.Patience, func() bool {
		var n int
		must.OK(t, s.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid).Scan(&n))
		return n == 0
	}, "the server has ended the connection")
	must.Equal(t, "writes", one[int](t, s, "SELECT count(*) FROM duehook.delta"), 2)
}

// A caller that gives up while its call runs may have repeated it at another node. So nothing is written for it any more.
func TestNothingIsWrittenForCallersThatGaveUp(t *testing.T) {
	s := openStore(t, newOptions())
	ctx, giveUp := context.WithCancel(t.Context())
	err := s.change(ctx, func(ctx context.Context, x *txn) error {
		_, err := backend(ctx, x)
		x.deltas.lane(job.Lane{Topic: "t", Endpoint: "http://a.example:80"}).states[job.Waiting]++
		giveUp()
		return err
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a change without a caller: %v", err)
	}
	must.Equal(t, "writes", one[int](t, s, "SELECT count(*) FROM duehook.delta"), 0)

	must.OK(t, s.SetLimits(t.Context(), "bounded", store.Limits{Capacity: 10})) // their jobs are read before they are written
	for _, topic := range []string{"t", "bounded"} {
		var all []*arrival
		for i, r := range due(topic, "http://a.example/", 2) {
			all = append(all, &arrival{ctx: []context.Context{ctx, t.Context()}[i], regs: []store.Registration{r}, results: make([]store.Registered, 1)})
		}
		s.registerAll(t.Context(), all)
		must.OK(t, all[1].err)
		if !errors.Is(all[0].err, store.ErrUnavailable) {
			t.Errorf("a registration without a caller, beside one that was answered %d: %v", all[1].results[0].Outcome, all[0].err)
		}
	}
	must.Equal(t, "the jobs", one[string](t, s, "SELECT string_agg(id, ' ') FROM duehook.job"), "job-1 job-1")
}
