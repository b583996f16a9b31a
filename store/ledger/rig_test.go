package ledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/memstore"
)

// options are those of a rig.
type options struct {
	ledger.Options
	Shared bool // the store is one that nodes share
}

// rig is a journal around a store, with helpers that end the test on any error.
type rig struct {
	opened
	t    testing.TB
	o    options
	b    *backend
	url  string
	last store.Claimed // that takeOne took
	// lease is that of takeAny; zero: a minute.
	lease time.Duration
}

// opened is a store with a journal, and what reconciles them.
type opened struct {
	store.Store
	*ledger.Reconciler
	j      *journal.Journal
	shared *ledger.Store // nil: it is this process's own
}

func open(ctx context.Context, o options) (opened, error) {
	if o.Shared {
		s, err := ledger.Open(ctx, o.Options)
		if err != nil {
			return opened{}, err
		}
		return opened{s, s.Reconciler, s.Journal, s}, nil
	}
	s, err := journal.Open(ctx, journal.Options{
		URL: o.URL, Store: o.Store, Namespace: o.Namespace, Metrics: o.Metrics, Clock: o.Clock, Host: o.Host, Logger: o.Logger,
		StoreRetention: o.StoreRetention, Retention: o.Retention, Unsynced: o.Unsynced,
	})
	if err != nil {
		return opened{}, err
	}
	r, err := ledger.NewReconciler(s, ledger.ReconcilerOptions{
		Metrics: o.Metrics, Clock: o.Clock, Logger: o.Logger, StoreRetention: o.StoreRetention, Pace: o.Pace, BeforeRestore: o.BeforeRestore,
	})
	return opened{s, r, s.Journal, nil}, err
}

// Flush waits until everything handed over before is written. Close has done so too.
func (o *opened) Flush() error {
	if err := o.j.Enter(); err != nil {
		return nil
	}
	defer o.j.Leave()
	return o.j.Flush()
}

// Exec runs SQL on the writer's connection.
func (o *opened) Exec(ctx context.Context, text string, args ...any) error {
	_, err := o.j.Writer().ExecContext(ctx, text, args...)
	return err
}

func (o *opened) Flow(ctx context.Context, key job.Key) ([]journal.FlowEntry, error) {
	return o.j.Flow(ctx, key)
}

// Fill takes all room for rows that wait.
func (o *opened) Fill() (release func()) { return o.j.Fill() }

// Pragma asks the writer's connection.
func (o *opened) Pragma(t testing.TB, name string) string {
	t.Helper()
	var value string
	noError(t, "PRAGMA", o.j.Writer().QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value))
	return value
}

// Pause stops the committer, so that what is handed over meanwhile is written in one
// transaction.
func (r *rig) Pause() (resume func()) {
	wait := make(chan struct{})
	c, err := r.j.Begin(r.t.Context(), 0)
	noError(r.t, "Begin", err)
	defer c.End()
	c.Enqueue(journal.Write{Add: func(*journal.Group) { <-wait }})
	return func() { close(wait) }
}

// with alters the options of a rig.
type with func(*options)

// wrapped puts w between the ledger and its memstore.
func wrapped(w func(store.Store) store.Store) with {
	return func(o *options) { o.Store = w(o.Store) }
}

// newRig opens the ledger at url, which is closed when the test ends.
func newRig(t testing.TB, b *backend, url string, retention time.Duration, alter ...with) *rig {
	t.Helper()
	r, err := tryRig(t, b, url, retention, alter...)
	noError(t, "Open", err)
	return r
}

// freshRig opens a new ledger, which does not wait for the disk.
func freshRig(t testing.TB, b *backend, retention time.Duration, alter ...with) *rig {
	t.Helper()
	return newRig(t, b, b.empty(t), retention, append([]with{func(o *options) { o.Unsynced = true }}, alter...)...)
}

func tryRig(t testing.TB, b *backend, url string, retention time.Duration, alter ...with) (*rig, error) {
	t.Helper()
	o := options{Options: ledger.Options{
		URL: url, Store: memstore.New(memstore.Options{Retention: retention}), StoreRetention: retention, Host: "host",
	}}
	for _, a := range alter {
		a(&o)
	}
	s, err := open(t.Context(), o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = s.Close() }) // most have closed it
	return &rig{opened: s, t: t, o: o, b: b, url: url}, nil
}

func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "duehook.db")
}

func noError(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// restart closes the ledger and opens its journal for a new store.
func (r *rig) restart(retention time.Duration) *rig {
	r.t.Helper()
	noError(r.t, "Close", r.Close())
	return newRig(r.t, r.b, r.url, retention)
}

// crash opens a copy of the journal as it is on the disk now, as a process
// would that was started after this one was killed.
func (r *rig) crash(retention time.Duration) *rig {
	r.t.Helper()
	return newRig(r.t, r.b, r.b.copied(r.t, r.b, r.url), retention)
}

// snapshot copies the files of a journal that nobody is writing to.
func snapshot(t testing.TB, path string) string {
	t.Helper()
	to := newPath(t)
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		noError(t, "read the journal", err)
		noError(t, "copy the journal", os.WriteFile(to+suffix, content, 0o600))
	}
	return to
}

func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	noError(r.t, "Sleep", job.Sleep(r.t.Context(), job.SystemClock(), d))
}

func key(id string) job.Key { return job.Key{Topic: "t", ID: id} }

var lastUID, lastNonce atomic.Int64

// reg is a registration that is due after delay.
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
	g.OnConflict = store.Replace
	return g
}

func (r *rig) register(want store.RegisterOutcome, regs ...store.Registration) []job.Job {
	r.t.Helper()
	results, err := r.Register(r.t.Context(), regs)
	noError(r.t, "Register", err)
	jobs := make([]job.Job, len(results))
	for i, res := range results {
		equal(r.t, "outcome of "+regs[i].Key.String(), res.Outcome, want)
		jobs[i] = res.Job
	}
	return jobs
}

func (r *rig) add(g store.Registration) job.Job {
	r.t.Helper()
	return r.register(store.Created, g)[0]
}

func (r *rig) get(id string) job.Job {
	r.t.Helper()
	j, err := r.Get(r.t.Context(), key(id))
	noError(r.t, "Get "+id, err)
	return j
}

func (r *rig) update(id string, change func(*job.Job, job.Instant) error) job.Job {
	r.t.Helper()
	j, err := r.Update(r.t.Context(), key(id), change)
	noError(r.t, "Update "+id, err)
	return j
}

func cancel(j *job.Job, now job.Instant) error {
	_, err := j.Cancel(now)
	return err
}

func replay(j *job.Job, now job.Instant) error { return j.Replay(now) }

func runAt(w job.When) func(*job.Job, job.Instant) error {
	return func(j *job.Job, now job.Instant) error { return j.Reschedule(w, now) }
}

var carryAll = store.CarryOptions{Cap: 10_000, Visibility: time.Minute, By: "carrier"}

// take carries and claims everything that is due.
func (r *rig) take() []store.Claimed {
	r.t.Helper()
	ctx := r.t.Context()
	_, err := r.Carry(ctx, 0, carryAll)
	noError(r.t, "Carry", err)
	hints, err := r.Pop(ctx, 0, 10_000, 0)
	noError(r.t, "Pop", err)
	claims, err := r.Claim(ctx, 0, hints, store.ClaimOptions{
		Nonce: fmt.Sprint("n", lastNonce.Add(1)), Lease: time.Hour, By: "worker",
	})
	noError(r.t, "Claim", err)
	return claims
}

func (r *rig) takeOne() store.Claimed {
	r.t.Helper()
	claims := r.take()
	if len(claims) != 1 {
		r.t.Fatalf("claimed %d jobs, want 1", len(claims))
	}
	r.last = claims[0]
	return claims[0]
}

// settlement is what outcome kind makes of a claim; a failure is followed by
// another attempt after retry, if that is not negative, and a snooze after it.
func settlement(c store.Claimed, kind job.OutcomeKind, retry time.Duration) job.Settlement {
	status := map[job.OutcomeKind]int{job.OutcomeDelivered: 200}[kind]
	return job.Settle(&c.Job, job.Outcome{
		Kind: kind, After: map[job.OutcomeKind]time.Duration{job.OutcomeSnoozed: retry}[kind],
		Attempt: &job.Attempt{
			Number: c.Job.Attempts + 1, StartedAt: c.Now, Duration: time.Second, Status: status,
			ResponseBody: fmt.Sprint("answer ", c.Job.Attempts+1), Error: "some_class",
			Timings: job.Timings{DNS: time.Microsecond, Connect: time.Millisecond, TLS: 2 * time.Millisecond, FirstByte: time.Second, Reused: true},
		},
	}, func(int) (time.Duration, bool) { return retry, retry >= 0 })
}

func (r *rig) settle(settlements ...job.Settlement) []store.Settled {
	r.t.Helper()
	settled, err := r.Settle(r.t.Context(), settlements)
	noError(r.t, "Settle", err)
	for i := range settled {
		equal(r.t, "status of the settlement", settled[i].Status, store.Applied)
	}
	return settled
}

// run takes the one job that is due and settles it.
func (r *rig) run(kind job.OutcomeKind, retry time.Duration) {
	r.t.Helper()
	r.settle(settlement(r.takeOne(), kind, retry))
}

func (r *rig) log(id string) []job.Attempt {
	r.t.Helper()
	log, err := r.Attempts(r.t.Context(), key(id))
	noError(r.t, "Attempts", err)
	return log
}

// all is every job with its log, by key.
func (r *rig) all() map[string]store.RestoredJob {
	r.t.Helper()
	jobs := map[string]store.RestoredJob{}
	q := store.Query{Limit: 100}
	for {
		page, err := r.List(r.t.Context(), q)
		noError(r.t, "List", err)
		for _, j := range page.Jobs {
			log, err := r.Attempts(r.t.Context(), j.Key)
			noError(r.t, "Attempts", err)
			jobs[j.Key.String()] = store.RestoredJob{Job: j, Log: log}
		}
		if page.Next == "" {
			return jobs
		}
		q.Cursor = page.Next
	}
}

// query gives the first column of all rows, read by a connection of its own.
func (r *rig) query(text string, args ...any) []string {
	r.t.Helper()
	noError(r.t, "Flush", r.Flush())
	return r.b.query(r.t, r.url, text, args...)
}

func (b *backend) query(t testing.TB, url, text string, args ...any) []string {
	t.Helper()
	db, err := b.open(url)
	noError(t, "open", err)
	defer db.Close()
	rows, err := db.QueryContext(context.Background(), text, args...)
	noError(t, text, err)
	defer rows.Close()
	var column []string
	for rows.Next() {
		var v sql.NullString
		noError(t, text, rows.Scan(&v))
		column = append(column, v.String)
	}
	noError(t, text, rows.Err())
	return column
}
