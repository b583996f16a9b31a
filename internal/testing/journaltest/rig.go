package journaltest

import (
	"context"
	"errors"
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
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/journal"
)

// Retention is the usual retention of a test.
const Retention = time.Hour

// Opened is a store with a journal.
type Opened struct {
	store.Store
	J *journal.Journal
}

// Rig is a store with a journal, and helpers that end the test on any error.
type Rig struct {
	Opened
	T    testing.TB
	B    *Backend
	URL  string        // of the journal
	Last store.Claimed // by TakeOne
}

// Flush waits until all changes are written. Close has done so too.
func (o *Opened) Flush() error {
	if err := o.J.Enter(); err != nil {
		return nil
	}
	defer o.J.Leave()
	return o.J.Flush(context.Background())
}

// Exec runs SQL on the writer's connection.
func (o *Opened) Exec(ctx context.Context, text string, args ...any) error {
	_, err := o.J.Writer().ExecContext(ctx, text, args...)
	return err
}

// Fill takes all room for rows that wait.
func (o *Opened) Fill() (release func()) { return o.J.Fill() }

// Pragma reads a setting of the writer's connection.
func (o *Opened) Pragma(t testing.TB, name string) string {
	t.Helper()
	var value string
	NoError(t, "PRAGMA", o.J.Writer().QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value))
	return value
}

// Pause stops the committer. All changes until resume share a transaction.
func (r *Rig) Pause() (resume func()) {
	wait := make(chan struct{})
	c, err := r.J.Begin(r.T.Context(), 0)
	NoError(r.T, "Begin", err)
	defer c.End()
	c.Enqueue(journal.Write{Add: func(*journal.Group) { <-wait }})
	return func() { close(wait) }
}

// With alters the options of a journal.
type With func(*journal.Options)

// Wrapped puts a wrapper around the store.
func Wrapped(w func(store.Restorable) store.Restorable) With {
	return func(o *journal.Options) { o.Store = w(o.Store) }
}

// NewStore returns an empty store in memory, which is closed when the test ends.
func NewStore(t testing.TB, retention time.Duration) *diskstore.Store {
	t.Helper()
	s, err := OpenStore(retention)
	NoError(t, "Open", err)
	t.Cleanup(func() { _ = s.Close() }) // most journals have closed it
	return s
}

// OpenStore is NewStore outside of a test.
func OpenStore(retention time.Duration) (*diskstore.Store, error) {
	return diskstore.Open(diskstore.Options{Retention: retention})
}

// Options returns the usual options of a journal around a store of NewStore.
func Options(t testing.TB, url string, retention time.Duration) journal.Options {
	t.Helper()
	return journal.Options{
		URL: url, Store: NewStore(t, retention), StoreRetention: retention, Host: "host",
	}
}

// Unsynced opens a journal that does not wait for the disk.
func Unsynced(o *journal.Options) { o.Unsynced = true }

// New opens the journal at url, which is closed when the test ends.
func New(t testing.TB, b *Backend, url string, retention time.Duration, alter ...With) *Rig {
	t.Helper()
	r, err := Try(t, b, url, retention, alter...)
	NoError(t, "Open", err)
	return r
}

// Fresh opens a new journal, which does not wait for the disk.
func Fresh(t testing.TB, b *Backend, retention time.Duration, alter ...With) *Rig {
	t.Helper()
	return New(t, b, b.Empty(t), retention, append([]With{Unsynced}, alter...)...)
}

// Try is New, and returns the error.
func Try(t testing.TB, b *Backend, url string, retention time.Duration, alter ...With) (*Rig, error) {
	t.Helper()
	o := Options(t, url, retention)
	for _, a := range alter {
		a(&o)
	}
	s, err := journal.Open(t.Context(), o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = s.Close() }) // most have closed it
	return &Rig{Opened: Opened{s, s.Journal}, T: t, B: b, URL: url}, nil
}

// Restart closes the store and opens its journal for a new one.
func (r *Rig) Restart(retention time.Duration) *Rig {
	r.T.Helper()
	NoError(r.T, "Close", r.Close())
	return New(r.T, r.B, r.URL, retention)
}

// Crash opens a copy of the journal as it is now, like a process that starts after this
// one was killed.
func (r *Rig) Crash(retention time.Duration) *Rig {
	r.T.Helper()
	return New(r.T, r.B, r.B.copied(r.T, r.URL), retention)
}

// NewPath returns the path of a journal that is not there yet.
func NewPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "duehook.db")
}

// NoError ends the test if err is not nil.
func NoError(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Equal ends the test unless got is want.
func Equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// Snapshot copies the files of a journal that nobody is writing to.
func Snapshot(t testing.TB, path string) string {
	t.Helper()
	to := NewPath(t)
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		NoError(t, "read the journal", err)
		NoError(t, "copy the journal", os.WriteFile(to+suffix, content, 0o600)) //nolint:gosec // a path of this test
	}
	return to
}

// Pass advances the clock.
func (r *Rig) Pass(d time.Duration) {
	r.T.Helper()
	NoError(r.T, "Sleep", job.Sleep(r.T.Context(), job.SystemClock(), d))
}

// Key is the key of the topic t and an id.
func Key(id string) job.Key { return job.Key{Topic: "t", ID: id} }

var lastUID, lastNonce atomic.Int64

// Reg is a registration that is due after delay.
func Reg(id string, delay time.Duration) store.Registration {
	return store.Registration{
		Key: Key(id), UID: fmt.Sprintf("%026d", lastUID.Add(1)),
		Spec: job.Spec{
			Destination: "http://a.example/hook", BizKey: "biz-" + id, Body: []byte(`{"id":"` + id + `"}`), BodyForm: job.BodyJSON,
			When: job.When{Delay: delay},
		},
	}
}

// Replacing is reg for the place of another job.
func Replacing(id string, delay time.Duration) store.Registration {
	g := Reg(id, delay)
	g.OnConflict = job.ConflictReplace
	return g
}

// RegisterAs registers jobs with the outcome want.
func (r *Rig) RegisterAs(want store.RegisterOutcome, regs ...store.Registration) []job.Job {
	r.T.Helper()
	results, err := r.Register(r.T.Context(), regs)
	NoError(r.T, "Register", err)
	jobs := make([]job.Job, len(results))
	Equal(r.T, "results", len(results), len(regs))
	for i, g := range regs {
		Equal(r.T, "outcome of "+g.Key.String(), results[i].Outcome, want)
		jobs[i] = results[i].Job
	}
	return jobs
}

// Add creates a job.
func (r *Rig) Add(g store.Registration) job.Job {
	r.T.Helper()
	return r.RegisterAs(store.Created, g)[0]
}

// Job returns a job.
func (r *Rig) Job(id string) job.Job {
	r.T.Helper()
	j, err := r.Get(r.T.Context(), Key(id))
	NoError(r.T, "Get "+id, err)
	return j
}

// Change updates a job.
func (r *Rig) Change(id string, change func(*job.Job, job.Instant) error) job.Job {
	r.T.Helper()
	j, err := r.Update(r.T.Context(), Key(id), change)
	NoError(r.T, "Update "+id, err)
	return j
}

// Cancel cancels a job; for Update.
func Cancel(j *job.Job, now job.Instant) error {
	_, err := j.Cancel(now)
	return err
}

// Replay replays a job; for Update.
func Replay(j *job.Job, now job.Instant) error { return j.Replay(now) }

// RunAt returns a change that reschedules a job.
func RunAt(w job.When) func(*job.Job, job.Instant) error {
	return func(j *job.Job, now job.Instant) error { return j.Reschedule(w, now) }
}

// CarryAll are options that carry everything.
var CarryAll = store.CarryOptions{Cap: 10_000, Visibility: time.Minute, By: "carrier"}

// TakeDue carries and claims everything that is due.
func (r *Rig) TakeDue() []store.Claimed {
	r.T.Helper()
	ctx := r.T.Context()
	_, err := r.Carry(ctx, 0, CarryAll)
	NoError(r.T, "Carry", err)
	hints, err := r.Pop(ctx, 0, 10_000, 0)
	NoError(r.T, "Pop", err)
	claims, err := r.Claim(ctx, 0, hints, store.ClaimOptions{
		Nonce: fmt.Sprint("n", lastNonce.Add(1)), Lease: time.Hour, By: "worker",
	})
	NoError(r.T, "Claim", err)
	return claims
}

// TakeOne is TakeDue for one job.
func (r *Rig) TakeOne() store.Claimed {
	r.T.Helper()
	claims := r.TakeDue()
	if len(claims) != 1 {
		r.T.Fatalf("claimed %d jobs, want 1", len(claims))
	}
	r.Last = claims[0]
	return claims[0]
}

// Settlement is what outcome kind makes of a claim; a failure is followed by
// another attempt after retry, if that is not negative, and a snooze after it.
func Settlement(c store.Claimed, kind job.OutcomeKind, retry time.Duration) job.Settlement {
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

// SettleAll settles claims that are current.
func (r *Rig) SettleAll(settlements ...job.Settlement) []store.Settled {
	r.T.Helper()
	settled, err := r.Settle(r.T.Context(), settlements)
	NoError(r.T, "Settle", err)
	for i := range settled {
		Equal(r.T, "status of the settlement", settled[i].Status, store.Applied)
	}
	return settled
}

// RunOne takes the one job that is due and settles it.
func (r *Rig) RunOne(kind job.OutcomeKind, retry time.Duration) {
	r.T.Helper()
	r.SettleAll(Settlement(r.TakeOne(), kind, retry))
}

// LogOf returns the attempts of a job.
func (r *Rig) LogOf(id string) []job.Attempt {
	r.T.Helper()
	log, err := r.Attempts(r.T.Context(), Key(id))
	NoError(r.T, "Attempts", err)
	return log
}

// All is every job with its log, by key.
func (r *Rig) All() map[string]store.RestoredJob {
	r.T.Helper()
	jobs := map[string]store.RestoredJob{}
	q := store.Query{Limit: 100}
	for {
		page, err := r.List(r.T.Context(), q)
		NoError(r.T, "List", err)
		for _, j := range page.Jobs {
			log, err := r.Attempts(r.T.Context(), j.Key)
			NoError(r.T, "Attempts", err)
			jobs[j.Key.String()] = store.RestoredJob{Job: j, Log: log}
		}
		if page.Next == "" {
			return jobs
		}
		q.Cursor = page.Next
	}
}

// Query returns the first column of all rows, read by a connection of its own.
func (r *Rig) Query(text string, args ...any) []string {
	r.T.Helper()
	NoError(r.T, "Flush", r.Flush())
	return r.B.Query(r.T, r.URL, text, args...)
}

// Count returns the first column of the first row.
func (r *Rig) Count(text string, args ...any) string {
	r.T.Helper()
	return r.Query(text, args...)[0]
}

// ReadOnly makes every write fail, until it is taken back.
func (r *Rig) ReadOnly(on bool) {
	r.T.Helper()
	NoError(r.T, "Exec", r.Exec(r.T.Context(), r.B.readOnly(on)))
}

// Unavailable ends the test unless err is store.ErrUnavailable.
func Unavailable(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%s: %v, want ErrUnavailable", what, err)
	}
}

// History returns the history of a job as people read it: from>to attempt actor reason.
func (r *Rig) History(id string) []string {
	r.T.Helper()
	return r.Query(fmt.Sprintf(`SELECT CONCAT(COALESCE(from_state, ''), '>', to_state, ' ', attempt, ' ', actor, ' ', reason)
		FROM history WHERE id = '%s' ORDER BY at, seq`, id))
}

// PurgeSome purges up to limit jobs and returns their number.
func (r *Rig) PurgeSome(limit int) int {
	r.T.Helper()
	n, err := r.Purge(r.T.Context(), limit)
	NoError(r.T, "Purge", err)
	return n
}

// Rows counts the Rows of the tables.
func (r *Rig) Rows() map[string]string {
	r.T.Helper()
	rows := map[string]string{}
	for _, table := range []string{"message", "payload", "flow"} {
		rows[table] = r.Count("SELECT count(*) FROM " + table)
	}
	return rows
}

// IsError ends the test unless err is want.
func IsError(t testing.TB, what string, err, want error) {
	t.Helper()
	if want == nil {
		NoError(t, what, err)
		return
	}
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}
