package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/everyfield"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
)

// reg is a registration that is due now.
func reg(id, orderKey string) store.Registration {
	key := job.Key{Topic: "t", ID: id}
	return store.Registration{Key: key, UID: store.OrderUID(store.BindUID(fmt.Sprintf("%026d", rand.Uint32()), key), "t", orderKey), Spec: job.Spec{
		Destination: "http://a.example/", OrderKey: orderKey, Body: []byte(id), Content: 1,
	}}
}

// claimJobs claims jobs, whatever they wait for.
func claimJobs(t *testing.T, s *Store, ids ...string) (claims []job.Job) {
	t.Helper()
	for _, id := range ids { // one by one: several would have to lock their order keys
		var claimed *job.Job
		must.OK(t, s.change(t.Context(), func(ctx context.Context, t *txn) error {
			claimed = nil
			b := &pgx.Batch{}
			key := job.Key{Topic: "t", ID: id}
			t.lock(b, withContent, []job.Key{key})
			if err := t.send(ctx, b); err != nil {
				return err
			}
			r := t.rows.jobs[key]
			if r == nil || r.State.Final() || r.State == job.Running || r.parked {
				return nil
			}
			records.Claim(&r.Job, t.now)
			r.until, r.changed = t.now.Add(time.Minute), true
			j, err := r.job()
			claimed = &j
			return err
		}))
		if claimed != nil {
			claims = append(claims, *claimed)
		}
	}
	return claims
}

func delivered(j *job.Job) job.Settlement {
	return job.Settle(j, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: j.Attempts + 1, Status: 200}}, nil)
}

func TestJobs(t *testing.T) {
	s := openStore(t, newOptions())
	regs := []store.Registration{reg("a", ""), reg("b", ""), reg("a", "")}
	got, err := s.Register(t.Context(), regs)
	must.OK(t, err)
	must.Equal(t, "outcomes", [3]store.RegisterOutcome{got[0].Outcome, got[1].Outcome, got[2].Outcome}, [3]store.RegisterOutcome{store.Created, store.Created, store.Same})
	stored, err := s.Get(t.Context(), regs[0].Key)
	must.OK(t, err)
	if diff := cmp.Diff(got[0].Job, stored); diff != "" {
		t.Errorf("a stored job (-answered +read):\n%s", diff)
	}
	claims := claimJobs(t, s, "a")
	settled, err := s.Settle(t.Context(), []job.Settlement{delivered(&claims[0]), delivered(&claims[0])})
	must.OK(t, err)
	must.Equal(t, "the first run", settled[0].Status, store.Applied)
	settled[0].Repeated = true
	must.Equal(t, "the second run", settled[1], settled[0])
	again, err := s.Settle(t.Context(), []job.Settlement{delivered(&claims[0])})
	must.OK(t, err)
	must.Equal(t, "a later run", again[0], settled[0])
	stored, err = s.Get(t.Context(), regs[0].Key)
	must.OK(t, err)
	must.Equal(t, "state", stored.State, job.Delivered)
	must.Equal(t, "the last attempt's status", stored.LastAttempt.Status, 200)
}

// Many new jobs are copied. They are as others, and a key that is taken fails none of them.
func TestCopiedJobs(t *testing.T) {
	s := openStore(t, newOptions())
	regs := due("t", "http://a.example/", minCopied)
	regs[0].Spec.BizKey, regs[0].Spec.TTL = "order-1", time.Hour
	for _, want := range []store.RegisterOutcome{store.Created, store.Same} {
		got, err := s.Register(t.Context(), regs)
		must.OK(t, err)
		for i, r := range got {
			stored, err := s.Get(t.Context(), regs[i].Key)
			must.OK(t, err)
			must.Equal(t, "the outcome", r.Outcome, want)
			if want == store.Same {
				stored.Spec.Body = nil // it is not answered again
			}
			if diff := cmp.Diff(r.Job, stored); diff != "" {
				t.Errorf("a stored job (-answered +read):\n%s", diff)
			}
		}
	}
	must.Equal(t, "claims", len(take(t, s, terms(2*minCopied)).Claims), minCopied)
}

// A job of an order key is parked behind its head, and gets the turn when that has ended.
func TestOrderKeys(t *testing.T) {
	s := openStore(t, newOptions())
	for _, id := range []string{"1", "2", "3"} {
		_, err := s.Register(t.Context(), []store.Registration{reg(id, "k")})
		must.OK(t, err)
	}
	due := func() (ids []string) {
		rows, err := s.pool.Query(t.Context(), s.sql(`SELECT id FROM duehook.job WHERE bucket = 1`))
		must.OK(t, err)
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		must.OK(t, err)
		return ids
	}
	for _, id := range []string{"1", "2", "3"} {
		must.Equal(t, "due", fmt.Sprint(due()), fmt.Sprint([]string{id}))
		_, err := s.Settle(t.Context(), []job.Settlement{delivered(&claimJobs(t, s, id)[0])})
		must.OK(t, err)
	}
	var left int
	must.OK(t, s.pool.QueryRow(t.Context(), s.sql(`SELECT (SELECT count(*) FROM duehook.order_head) + (SELECT count(*) FROM duehook.order_queue)
		+ (SELECT sum(order_keys) + sum(parked) FROM duehook.delta)`)).Scan(&left))
	must.Equal(t, "rows of order keys", left, 0)
}

// Transactions lock rows in one order: calls with the same jobs in any order never meet a deadlock.
func TestRaceWithoutDeadlocks(t *testing.T) {
	s := openStore(t, newOptions())
	var callers sync.WaitGroup
	for worker := range 6 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 25 {
				var regs []store.Registration
				var settlements []job.Settlement
				for _, n := range random.Perm(12) {
					key := ""
					if n%2 == 0 {
						key = fmt.Sprint("k", n%3)
					}
					r := reg(fmt.Sprint(n), key)
					r.OnConflict = job.ConflictReplace
					regs = append(regs, r)
				}
				if _, err := s.Register(t.Context(), regs); err != nil {
					t.Error(err)
				}
				ids := make([]string, 0, 4)
				for _, n := range random.Perm(12)[:4] {
					ids = append(ids, fmt.Sprint(n))
				}
				for _, j := range claimJobs(t, s, ids...) {
					settlements = append(settlements, delivered(&j))
				}
				random.Shuffle(len(settlements), func(i, k int) { settlements[i], settlements[k] = settlements[k], settlements[i] })
				if _, err := s.Settle(t.Context(), settlements); err != nil {
					t.Error(err)
				}
				_, err := s.Update(t.Context(), job.Key{Topic: "t", ID: ids[0]}, func(j *job.Job, now job.Instant) error { _, err := j.Cancel(now); return err })
				if err != nil && !errors.Is(err, job.ErrFinished) && !errors.Is(err, store.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	var deadlocks int
	must.OK(t, s.pool.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'`).Scan(&deadlocks))
	must.Equal(t, "deadlocks", deadlocks, 0)
	for state := range job.Expired + 1 { // the deltas count the jobs
		if state == job.Ready {
			continue
		}
		var jobs, counted int
		must.OK(t, s.pool.QueryRow(t.Context(), s.sql(`SELECT count(*), coalesce((SELECT sum(`+state.String()+`) FROM duehook.delta WHERE lane IS NOT NULL), 0) FROM duehook.job WHERE state = $1`), int(state)).Scan(&jobs, &counted))
		must.Equal(t, state.String(), counted, jobs)
	}
}

// A row that somebody has changed by hand is an unreadable job, which a registration replaces.
func TestDamagedRows(t *testing.T) {
	s := openStore(t, newOptions())
	for _, damage := range []string{
		`spec = 'x'`, `state = 9`, `state = 2`, `state = 4`, `bucket = 0`, `bucket = NULL`, `lane = '00000000-0000-0000-0000-000000000000'`,
		`settled = 'x'`, `log = '{x}'`,
	} {
		t.Run(damage, func(t *testing.T) {
			r := reg("a", "k")
			r.OnConflict = job.ConflictReplace
			_, err := s.Register(t.Context(), []store.Registration{r})
			must.OK(t, err)
			exec(t, s, `UPDATE duehook.job SET `+damage)
			if _, err := s.Get(t.Context(), r.Key); !errors.Is(err, store.ErrUnreadable) {
				t.Errorf("get: %v", err)
			}
			again := reg("a", "k")
			got, err := s.Register(t.Context(), []store.Registration{again})
			must.OK(t, err)
			must.Equal(t, "registered again", got[0].Outcome, store.Created)
			_, err = s.Get(t.Context(), r.Key)
			must.OK(t, err)
		})
	}
}

func TestEveryFieldOfAttempts(t *testing.T) {
	for path, a := range everyfield.Alone[job.Attempt]() {
		text, err := encodeAttempt(a)
		must.OK(t, err)
		got, err := decodeAttempt(text)
		must.OK(t, err)
		if diff := cmp.Diff(*a, got); diff != "" {
			t.Errorf("%s (-stored +read):\n%s", path, diff)
		}
	}
}
