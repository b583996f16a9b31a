package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/listing"
)

// retention is the usual retention of a test.
const retention = time.Hour

type options = ledger.Options

// with alters the options of a rig.
type with func(*options)

// wrapped puts a wrapper around the store.
func wrapped(w func(store.Restorable) store.Restorable) with {
	return func(o *options) { o.Store = w(o.Store) }
}

// rig is a store with a ledger, and helpers that end the test on any error.
type rig struct {
	*ledger.Store
	T    testing.TB
	B    *backend
	URL  string        // of the ledger
	Last store.Claimed // by TakeOne
	o    options
	// lease is that of takeAny; zero: a minute.
	lease time.Duration
}

// newStore returns an empty store in memory, which is closed when the test ends.
func newStore(t testing.TB, retention time.Duration) diskstore.Embedded {
	t.Helper()
	s, err := openStore(retention)
	noError(t, "Open", err)
	t.Cleanup(func() { _ = s.Close() }) // most ledgers have closed it
	return s
}

// openStore is newStore outside of a test.
func openStore(retention time.Duration) (diskstore.Embedded, error) {
	return diskstore.Open(diskstore.Options{Retention: retention})
}

// newRig opens the ledger at url around an empty store. It is closed when the test ends.
func newRig(t testing.TB, b *backend, url string, retention time.Duration, alter ...with) *rig {
	t.Helper()
	r, err := tryRig(t, b, url, retention, alter...)
	noError(t, "Open", err)
	return r
}

// freshRig opens an empty ledger.
func freshRig(t testing.TB, b *backend, retention time.Duration, alter ...with) *rig {
	t.Helper()
	return newRig(t, b, b.Empty(t), retention, alter...)
}

func tryRig(t testing.TB, b *backend, url string, retention time.Duration, alter ...with) (*rig, error) {
	t.Helper()
	o := options{URL: url, Store: newStore(t, retention), StoreRetention: retention, Host: "host"}
	for _, a := range alter {
		a(&o)
	}
	s, err := ledger.Open(t.Context(), o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = s.Close() }) // most have closed it
	return &rig{Store: s, T: t, B: b, URL: url, o: o}, nil
}

// restored opens the ledger at url around an empty store, and restores what that lost.
func (r *rig) restored(url string) *rig {
	r.T.Helper()
	next := newRig(r.T, r.B, url, retention, func(o *options) { o.Pace.SecondLook = time.Microsecond })
	_, err := next.CompareOnce(r.T.Context())
	noError(r.T, "CompareOnce", err)
	return next
}

// Restart ends the node; the store loses everything, and the next node restores it.
func (r *rig) Restart() *rig {
	r.T.Helper()
	noError(r.T, "Close", r.Close())
	return r.restored(r.URL)
}

// Crash restores a copy of the ledger as it is now, like a node that starts after this one was
// killed and the store lost everything.
func (r *rig) Crash() *rig {
	r.T.Helper()
	return r.restored(r.B.copied(r.T, r.URL))
}

// Exec runs SQL on the writer's connection.
func (r *rig) Exec(ctx context.Context, text string, args ...any) error {
	_, err := r.Writer().ExecContext(ctx, text, args...)
	return err
}

// Flush waits until all changes are written. Close has done so too.
func (r *rig) Flush() error { return r.FlushAll(context.Background()) }

// noError ends the test if err is not nil.
func noError(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// equal ends the test unless got is want.
func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// Pass advances the clock.
func (r *rig) Pass(d time.Duration) {
	r.T.Helper()
	noError(r.T, "Sleep", job.Sleep(r.T.Context(), job.SystemClock(), d))
}

// key is the key of the topic t and an id.
func key(id string) job.Key { return job.Key{Topic: "t", ID: id} }

var lastUID, lastNonce atomic.Int64

// Reg is a registration that is due after delay.
func reg(id string, delay time.Duration) store.Registration {
	return store.Registration{
		Key: key(id), UID: fmt.Sprintf("%026d", lastUID.Add(1)),
		Spec: job.Spec{
			Destination: "http://a.example/hook", BizKey: "biz-" + id, Body: []byte(`{"id":"` + id + `"}`), BodyForm: job.BodyJSON,
			When: job.When{Delay: delay},
		},
	}
}

// replacing is reg for the place of another job.
func replacing(id string, delay time.Duration) store.Registration {
	g := reg(id, delay)
	g.OnConflict = job.ConflictReplace
	return g
}

// RegisterAs registers jobs with the outcome want.
func (r *rig) RegisterAs(want store.RegisterOutcome, regs ...store.Registration) []job.Job {
	r.T.Helper()
	results, err := r.Register(r.T.Context(), regs)
	noError(r.T, "Register", err)
	jobs := make([]job.Job, len(results))
	equal(r.T, "results", len(results), len(regs))
	for i, g := range regs {
		equal(r.T, "outcome of "+g.Key.String(), results[i].Outcome, want)
		jobs[i] = results[i].Job
	}
	return jobs
}

// Add creates a job.
func (r *rig) Add(g store.Registration) job.Job {
	r.T.Helper()
	return r.RegisterAs(store.Created, g)[0]
}

// Job returns a job.
func (r *rig) Job(id string) job.Job {
	r.T.Helper()
	j, err := r.Get(r.T.Context(), key(id))
	noError(r.T, "Get "+id, err)
	return j
}

// Change updates a job.
func (r *rig) Change(id string, change func(*job.Job, job.Instant) error) job.Job {
	r.T.Helper()
	j, err := r.Update(r.T.Context(), key(id), change)
	noError(r.T, "Update "+id, err)
	return j
}

// cancel cancels a job; for Update.
func cancel(j *job.Job, now job.Instant) error {
	_, err := j.Cancel(now)
	return err
}

// replay replays a job; for Update.
func replay(j *job.Job, now job.Instant) error { return j.Replay(now) }

// runAt returns a change that reschedules a job.
func runAt(w job.When) func(*job.Job, job.Instant) error {
	return func(j *job.Job, now job.Instant) error { return j.Reschedule(w, now) }
}

// carryAll are options that carry everything.
var carryAll = store.CarryOptions{Cap: 10_000, Visibility: time.Minute, By: "carrier"}

// TakeDue carries and claims everything that is due.
func (r *rig) TakeDue() []store.Claimed {
	r.T.Helper()
	claims, err := r.tryClaim(r.carried())
	noError(r.T, "Claim", err)
	return claims
}

// carried carries what is due, and returns it.
func (r *rig) carried() []store.Hint {
	r.T.Helper()
	ctx := r.T.Context()
	_, err := r.Carry(ctx, 0, carryAll)
	noError(r.T, "Carry", err)
	hints, err := r.Pop(ctx, 0, 10_000, 0)
	noError(r.T, "Pop", err)
	return hints
}

// tryClaim claims hinted jobs.
func (r *rig) tryClaim(hints []store.Hint) ([]store.Claimed, error) {
	return r.Claim(r.T.Context(), 0, hints, store.ClaimOptions{
		Nonce: fmt.Sprint("n", lastNonce.Add(1)), Lease: time.Hour, By: "worker",
	})
}

// TakeOne is TakeDue for one job.
func (r *rig) TakeOne() store.Claimed {
	r.T.Helper()
	claims := r.TakeDue()
	if len(claims) != 1 {
		r.T.Fatalf("claimed %d jobs, want 1", len(claims))
	}
	r.Last = claims[0]
	return claims[0]
}

// settlement is what outcome kind makes of a claim; a failure is followed by
// another attempt after retry, if that is not negative, and a snooze after it.
func settlement(c store.Claimed, kind job.OutcomeKind, retry time.Duration) job.Settlement {
	status := map[job.OutcomeKind]int{job.OutcomeDelivered: 200}[kind]
	return job.Settle(&c.Job, job.Outcome{
		Kind: kind, After: map[job.OutcomeKind]time.Duration{job.OutcomeSnoozed: retry}[kind],
		Attempt: &job.Attempt{
			Number: c.Job.Attempts + 1, StartedAt: c.Now, Duration: time.Second, Status: status, Version: c.Job.Version,
			ResponseBody: fmt.Sprint("answer ", c.Job.Attempts+1), Error: "some_class",
			Timings: job.Timings{DNS: time.Microsecond, Connect: time.Millisecond, TLS: 2 * time.Millisecond, FirstByte: time.Second, Reused: true},
		},
	}, func(int) (time.Duration, bool) { return retry, retry >= 0 })
}

// SettleAll settles claims that are current.
func (r *rig) SettleAll(settlements ...job.Settlement) []store.Settled {
	r.T.Helper()
	settled, err := r.Settle(r.T.Context(), settlements)
	noError(r.T, "Settle", err)
	for i := range settled {
		equal(r.T, "status of the settlement", settled[i].Status, store.Applied)
	}
	return settled
}

// RunOne takes the one job that is due and settles it.
func (r *rig) RunOne(kind job.OutcomeKind, retry time.Duration) {
	r.T.Helper()
	r.SettleAll(settlement(r.TakeOne(), kind, retry))
}

// LogOf returns the attempts of a job.
func (r *rig) LogOf(id string) []job.Attempt {
	r.T.Helper()
	log, err := store.Attempts(r.T.Context(), r, key(id))
	noError(r.T, "Attempts", err)
	return log
}

// All is every job with its log, by key.
func (r *rig) All() map[string]store.RestoredJob {
	r.T.Helper()
	jobs := map[string]store.RestoredJob{}
	q := store.Query{Limit: 100}
	for {
		page, err := listing.List(r.T.Context(), r, q)
		noError(r.T, "List", err)
		for _, j := range page.Jobs {
			log, err := store.Attempts(r.T.Context(), r, j.Key)
			noError(r.T, "Attempts", err)
			jobs[j.Key.String()] = store.RestoredJob{Job: j, Log: log}
		}
		if page.Next == "" {
			return jobs
		}
		q.Cursor = page.Next
	}
}

// Query returns the first column of all rows, read by a connection of its own.
func (r *rig) Query(text string, args ...any) []string {
	r.T.Helper()
	noError(r.T, "Flush", r.Flush())
	return r.B.Query(r.T, r.URL, text, args...)
}

// Count returns the first column of the first row.
func (r *rig) Count(text string, args ...any) string {
	r.T.Helper()
	return r.Query(text, args...)[0]
}

// ReadOnly makes every write fail, until it is taken back.
func (r *rig) ReadOnly(on bool) {
	r.T.Helper()
	noError(r.T, "Exec", r.Exec(r.T.Context(), r.B.readOnly(on)))
}

// unavailable ends the test unless err is store.ErrUnavailable.
func unavailable(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%s: %v, want ErrUnavailable", what, err)
	}
}

// History returns the history of a job as people read it: from>to attempt actor reason.
func (r *rig) History(id string) []string {
	r.T.Helper()
	return r.Query(fmt.Sprintf(`SELECT CONCAT(COALESCE(from_state, ''), '>', to_state, ' ', attempt, ' ', actor, ' ', reason)
		FROM history WHERE id = '%s' ORDER BY at, seq`, id))
}

// PurgeSome purges up to limit jobs and returns their number.
func (r *rig) PurgeSome(limit int) int {
	r.T.Helper()
	n, err := r.Purge(r.T.Context(), limit)
	noError(r.T, "Purge", err)
	return n
}

// Rows counts the Rows of the tables.
func (r *rig) Rows() map[string]string {
	r.T.Helper()
	rows := map[string]string{}
	for _, table := range []string{"message", "payload", "flow"} {
		rows[table] = r.Count("SELECT count(*) FROM " + table)
	}
	return rows
}

// isError ends the test unless err is want.
func isError(t testing.TB, what string, err, want error) {
	t.Helper()
	if want == nil {
		noError(t, what, err)
		return
	}
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}
