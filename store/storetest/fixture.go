package storetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// long never ends within a test, short ends while it waits.
const (
	long  = time.Hour
	short = 20 * time.Millisecond
)

// patience bounds waiting for what is certain to come.
const patience = 2 * time.Minute

// reporter is where a fixture reports to: a testing.TB or a rapid.T.
type reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// fixture is a store under test with helpers that end the test on any error.
type fixture struct {
	reporter
	store.Store
	ctx     context.Context
	keeps   bool                 // finished jobs can be looked up
	repeats bool                 // Harness.Repeats
	carries bool                 // Harness.ReadyList
	left    map[int][]store.Hint // of shards: what a claim left
}

// open opens a store; it is closed when the test ends, unless the caller
// closes it.
func (h Harness) open(t testing.TB, o Options, callerCloses bool) *fixture {
	t.Helper()
	o.Shards = max(o.Shards, 1)
	f := &fixture{reporter: t, Store: h.Open(t, o), ctx: t.Context(), keeps: o.Retention > 0, repeats: h.Repeats, carries: h.ReadyList, left: map[int][]store.Hint{}}
	if !callerCloses {
		t.Cleanup(func() {
			if err := f.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	return f
}

func (f *fixture) isError(what string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("%s: %v, want %v", what, err, want)
	}
}

func (f *fixture) noError(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

// equal fails the test when got is not want. Empty and nil are the same.
func equal[T any](f *fixture, what string, got, want T) {
	f.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		f.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// eventually polls until cond holds.
func (f *fixture) eventually(what string, cond func() bool) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	for !cond() {
		if job.Sleep(ctx, job.SystemClock(), 2*time.Millisecond) != nil {
			f.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// Building registrations.

var lastUID atomic.Int64

// newUID is a valid ULID that no other registration has, also when it is bound to a key.
func newUID() string { return fmt.Sprintf("%019d%07d", lastUID.Add(1), 0) }

// uidFor is such a uid, by which the job of a key is found.
func uidFor(topic, id string) string { return store.BindUID(newUID(), job.Key{Topic: topic, ID: id}) }

const (
	urlA = "http://a.example:8080/hook"
	urlB = "http://b.example:8080/hook"
)

func laneOf(topic, url string) job.Lane {
	j := job.Job{Key: job.Key{Topic: topic}, Spec: job.Spec{Destination: job.Destination(url)}}
	return j.Lane()
}

// reg is a registration that is due now, with a body of its own.
func reg(topic, id string, with ...func(*store.Registration)) store.Registration {
	r := store.Registration{
		Key: job.Key{Topic: topic, ID: id}, UID: uidFor(topic, id),
		Spec: job.Spec{Destination: urlA, Body: []byte(`{"id":"` + id + `"}`), BodyForm: job.BodyJSON},
	}
	for _, w := range with {
		w(&r)
	}
	r.Spec.Content = contentOf(&r.Spec)
	return r
}

// contentOf is a fingerprint like those of package app: of other content there is another.
func contentOf(s *job.Spec) job.Fingerprint {
	own := *s
	own.Content = 0
	h := fnv.New64a()
	_, _ = h.Write(encoding.AppendSpec(nil, &own))
	return job.Fingerprint(h.Sum64())
}

func delay(d time.Duration) func(*store.Registration) {
	return func(r *store.Registration) { r.Spec.When = job.When{Delay: d} }
}

func to(url string) func(*store.Registration) {
	return func(r *store.Registration) { r.Spec.Destination = job.Destination(url) }
}

func biz(key string) func(*store.Registration) {
	return func(r *store.Registration) { r.Spec.BizKey = key }
}

// labelled gives labels: keys and values in turn, sorted by key.
func labelled(pairs ...string) func(*store.Registration) {
	return func(r *store.Registration) {
		r.Spec.Labels = nil
		for i := 0; i < len(pairs); i += 2 {
			r.Spec.Labels = append(r.Spec.Labels, job.Label{Key: pairs[i], Value: pairs[i+1]})
		}
	}
}

func ttl(d time.Duration) func(*store.Registration) {
	return func(r *store.Registration) { r.Spec.TTL = d }
}

func body(b string) func(*store.Registration) {
	return func(r *store.Registration) { r.Spec.Body = []byte(b) }
}

func onConflict(p job.OnConflict) func(*store.Registration) {
	return func(r *store.Registration) { r.OnConflict = p }
}

func timeout(d time.Duration) func(*store.Registration) {
	return func(r *store.Registration) { r.Spec.Timeout = d }
}

// Calling the store.

// register registers and expects every outcome to be want.
func (f *fixture) register(want store.RegisterOutcome, regs ...store.Registration) []job.Job {
	f.Helper()
	results, err := f.Register(f.ctx, regs)
	f.noError("Register", err)
	equal(f, "number of results", len(results), len(regs))
	jobs := make([]job.Job, len(results))
	for i, r := range results {
		equal(f, "outcome of "+regs[i].Key.String(), r.Outcome, want)
		equal(f, "key of the result", r.Job.Key, regs[i].Key)
		jobs[i] = f.whole(r)
	}
	return jobs
}

// whole is the job of an answer, with the body and the headers that store.HeldBy leaves out.
func (f *fixture) whole(r store.Registered) job.Job {
	f.Helper()
	j := r.Job
	if r.Outcome == store.Created || j.UID == "" {
		return j
	}
	equal(f, "bytes of a job that holds a key", len(j.Spec.Body)+len(j.Spec.Headers), 0)
	stored := f.get(j.Key)
	j.Spec.Body, j.Spec.Headers = stored.Spec.Body, stored.Spec.Headers
	return j
}

// add registers one new job.
func (f *fixture) add(r store.Registration) job.Job {
	f.Helper()
	return f.register(store.Created, r)[0]
}

func (f *fixture) get(key job.Key) job.Job {
	f.Helper()
	j, err := f.Get(f.ctx, key)
	f.noError("Get "+key.String(), err)
	return j
}

func (f *fixture) update(key job.Key, change func(*job.Job, job.Instant) error) job.Job {
	f.Helper()
	j, err := f.Update(f.ctx, key, change)
	f.noError("Update "+key.String(), err)
	return j
}

func (f *fixture) depth() store.Depth {
	f.Helper()
	d, err := f.Depth(f.ctx)
	f.noError("Depth", err)
	return d
}

func (f *fixture) now() job.Instant {
	f.Helper()
	now, err := f.Now(f.ctx)
	f.noError("Now", err)
	return now
}

// waitPast waits until the store's clock has passed at.
func (f *fixture) waitPast(at job.Instant) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	for {
		now := f.now()
		if now > at {
			return
		}
		if err := job.Sleep(ctx, job.SystemClock(), min(at.Sub(now), short)+time.Millisecond); err != nil {
			f.Fatalf("the store's clock stands at %d, waiting for %d", now, at)
		}
	}
}

// carryOptions are generous: every due job is carried, and none again.
var carryOptions = store.CarryOptions{Cap: 10_000, Visibility: long, FlightLimits: store.FlightLimits{HalfOpenLimit: 10_000}}

// carry carries everything that may be carried now, on all shards.
func (f *fixture) carry(o store.CarryOptions) []store.Carried {
	f.Helper()
	var all []store.Carried
	for shard := range f.Shards() {
		for range 1_000 {
			r, err := f.readyList().Carry(f.ctx, shard, o)
			f.noError("Carry", err)
			all = append(all, r.Carried...)
			if r.Wait != 0 || len(r.Carried) == 0 {
				break
			}
		}
	}
	return all
}

// popped is a hint with the shard that it belongs to.
type popped struct {
	store.Hint
	shard int
}

// pop takes all hints off the ready lists.
func (f *fixture) pop() []popped {
	f.Helper()
	var all []popped
	for shard := range f.Shards() {
		for f.depth().ReadyList > 0 {
			hints, err := f.readyList().Pop(f.ctx, shard, 500, 0)
			f.noError("Pop", err)
			if len(hints) == 0 {
				break
			}
			for _, h := range hints {
				all = append(all, popped{h, shard})
			}
		}
	}
	return all
}

var lastNonce atomic.Int64

// terms are long ones with a nonce of their own.
func terms() store.ClaimOptions {
	return store.ClaimOptions{
		Nonce: fmt.Sprintf("nonce-%d", lastNonce.Add(1)), Lease: long, LeaseMargin: 10 * time.Second, By: "storetest",
	}
}

// claim claims hints of any shards with the same terms.
func (f *fixture) claim(hints []popped, o store.ClaimOptions) []store.Claimed {
	f.Helper()
	var all []store.Claimed
	for shard := range f.Shards() {
		var batch []store.Hint
		for _, h := range hints {
			if h.shard == shard {
				batch = append(batch, h.Hint)
			}
		}
		claims, err := f.readyList().Claim(f.ctx, shard, batch, o)
		f.noError("Claim", err)
		all = append(all, claims...)
	}
	return all
}

// end registers r, which must be due, and brings it to the final state s.
func (f *fixture) end(r store.Registration, s job.State) job.Job {
	f.Helper()
	f.add(r)
	if s == job.Cancelled {
		return f.update(r.Key, cancel)
	}
	c := f.takeOne()
	switch s {
	case job.Dead:
		f.settle(store.Applied, failed(c, never))
	case job.Expired:
		f.settle(store.Applied, job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeExpired}, never))
	default:
		f.settle(store.Applied, delivered(c))
	}
	return f.get(r.Key)
}

// finals are the states in which a job ends.
var finals = []job.State{job.Delivered, job.Dead, job.Cancelled, job.Expired}

// cancel, runNow, later, replay and discard are changes for update.
func cancel(j *job.Job, now job.Instant) error {
	_, err := j.Cancel(now)
	return err
}

func runNow(j *job.Job, now job.Instant) error { return j.Reschedule(job.When{}, now) }

func later(j *job.Job, now job.Instant) error { return j.Reschedule(job.When{Delay: long}, now) }

func replay(j *job.Job, now job.Instant) error { return j.Replay(now) }

func discard(j *job.Job, now job.Instant) error { return j.Discard(now) }

// respecify changes the job's spec.
func respecify(change func(*job.Spec)) func(*job.Job, job.Instant) error {
	return func(j *job.Job, _ job.Instant) error {
		s := j.Spec
		change(&s)
		return j.Respecify(s)
	}
}

// expireLeases claims hints for a moment and waits until the lease has expired.
func (f *fixture) expireLeases(hints []popped) []store.Claimed {
	f.Helper()
	o := terms()
	o.Lease = time.Millisecond
	claims := f.claim(hints, o)
	for _, c := range claims {
		f.waitPast(c.Now.Add(o.Lease))
	}
	return claims
}

// never is a retry policy without retries, always one without end or delay.
func never(int) (time.Duration, bool)  { return 0, false }
func always(int) (time.Duration, bool) { return 0, true }

// after is a retry policy without end that waits for d.
func after(d time.Duration) func(int) (time.Duration, bool) {
	return func(int) (time.Duration, bool) { return d, true }
}

// attempt is a log entry of claim c.
func attempt(c store.Claimed, status int) *job.Attempt {
	return &job.Attempt{
		Number: c.Job.Attempts + 1, StartedAt: c.Now, Duration: 5 * time.Millisecond,
		Status: status, ResponseBody: fmt.Sprintf("answer %d", status),
	}
}

// delivered and failed are the settlements of a claim by these outcomes.
func delivered(c store.Claimed) job.Settlement {
	return job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeDelivered, Attempt: attempt(c, 200)}, never)
}

func failed(c store.Claimed, retry func(int) (time.Duration, bool)) job.Settlement {
	return job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeFailed, Attempt: attempt(c, 500)}, retry)
}

func released(c store.Claimed, d time.Duration) job.Settlement {
	return job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeReleased, After: d, Reason: job.ReasonShutdown}, never)
}

// settle applies one settlement and expects status.
func (f *fixture) settle(want store.SettleStatus, s job.Settlement) store.Settled {
	f.Helper()
	results, err := f.Settle(f.ctx, []job.Settlement{s})
	f.noError("Settle", err)
	equal(f, "number of results", len(results), 1)
	if f.repeats && !f.keeps && want == store.Applied && results[0].Status == store.Missing {
		return results[0] // forgotten at once by the first run
	}
	equal(f, "status of the settlement", results[0].Status, want)
	return results[0]
}

// first expects a settlement that was not applied before, and gives it.
func (f *fixture) first(done store.Settled) store.Settled {
	f.Helper()
	if f.repeats {
		done.Repeated = false
	}
	equal(f, "repeated", done.Repeated, false)
	return done
}

// from expects the state that c was claimed from.
func (f *fixture) from(c store.Claimed, want job.State) {
	f.Helper()
	if !f.repeats {
		equal(f, "from", c.From, want)
	}
}

// changed expects a count of changes; a repetition may report fewer.
func (f *fixture) changed(what string, got, want int) {
	f.Helper()
	if f.repeats && got < want {
		return
	}
	equal(f, what, got, want)
}

// notFound expects that the store holds no such job.
func (f *fixture) notFound(key job.Key) {
	f.Helper()
	if j, err := f.Get(f.ctx, key); !errors.Is(err, store.ErrNotFound) {
		f.Fatalf("Get %s: %v, %v, want ErrNotFound", key, j.State, err)
	}
}

// attempts is the log of a job.
func (f *fixture) attempts(key job.Key) []job.Attempt {
	f.Helper()
	log, err := f.Attempts(f.ctx, key)
	f.noError("Attempts "+key.String(), err)
	return log
}

// list reads all pages of a listing.
func (f *fixture) list(q store.Query) []job.Job {
	f.Helper()
	var jobs []job.Job
	q.Limit = max(q.Limit, 1)
	for pages := 0; ; pages++ {
		page, err := f.List(f.ctx, q)
		f.noError("List", err)
		if len(page.Jobs) > q.Limit {
			f.Fatalf("a page of %d jobs, at most %d were asked for", len(page.Jobs), q.Limit)
		}
		jobs = append(jobs, page.Jobs...)
		if page.Next == "" {
			return jobs
		}
		if pages > 100_000 {
			f.Fatal("the listing does not end")
		}
		q.Cursor = page.Next
	}
}

// topics reads all pages of topics, by a few at a time.
func (f *fixture) topics() []store.TopicStats {
	f.Helper()
	return f.topicsOf(store.TopicQuery{Limit: 3})
}

func (f *fixture) topicsOf(q store.TopicQuery) []store.TopicStats {
	f.Helper()
	var all []store.TopicStats
	for range 1_000 {
		page, err := f.Topics(f.ctx, q)
		f.noError("Topics", err)
		if len(page.Topics) > q.Limit {
			f.Fatalf("a page of %d topics, at most %d were asked for", len(page.Topics), q.Limit)
		}
		all = append(all, page.Topics...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
	f.Fatal("the listing does not end")
	return nil
}

// states are a topic's counts without zeros; nil when there is no such topic.
func (f *fixture) states(topic string) map[job.State]int64 {
	f.Helper()
	page, err := f.Topics(f.ctx, store.TopicQuery{Topic: topic, Limit: 1})
	f.noError("Topics", err)
	if len(page.Topics) == 0 {
		return nil
	}
	equal(f, "the topic", []string{page.Topics[0].Topic, page.Next}, []string{topic, ""})
	return nonZero(page.Topics[0].States)
}

// keys are the keys of jobs, sorted.
func keys(jobs []job.Job) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = j.Key.String()
	}
	slices.Sort(out)
	return out
}

// claimedKeys are the keys of claims, sorted.
func claimedKeys(claims []store.Claimed) []string {
	jobs := make([]job.Job, len(claims))
	for i, c := range claims {
		jobs[i] = c.Job
	}
	return keys(jobs)
}

// carriedKeys are the keys of carried jobs, sorted.
func carriedKeys(carried []store.Carried) []string {
	out := make([]string, len(carried))
	for i, c := range carried {
		out[i] = c.Hint.Key().String()
	}
	slices.Sort(out)
	return out
}

func nonZero(counts map[job.State]int64) map[job.State]int64 {
	out := map[job.State]int64{}
	for s, n := range counts {
		if n != 0 {
			out[s] = n
		}
	}
	return out
}
