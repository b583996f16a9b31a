package schedules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

// rig is a store with jobs, and nodes that look after its schedules.
type rig struct {
	t     *testing.T
	ctx   context.Context
	store diskstore.Embedded
	jobs  *recorder
}

// recorder notes which jobs were registered, by key.
type recorder struct {
	*app.App
	mu      sync.Mutex
	created map[job.Key][]string // uids
}

func (r *recorder) RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	out, err := r.App.RegisterOwn(ctx, regs)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range out {
		if out[i].Outcome == store.Created {
			r.created[out[i].Job.Key] = append(r.created[out[i].Job.Key], out[i].Job.UID)
		}
	}
	return out, err
}

// registered is how many keys were registered.
func (r *recorder) registered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.created)
}

func newRig(t *testing.T, retention time.Duration) *rig {
	s := testenv.Store(t, diskstore.Options{Retention: retention})
	jobs, err := app.New(app.Options{Store: s})
	must.OK(t, err)
	return &rig{t, t.Context(), s, &recorder{App: jobs, created: map[job.Key][]string{}}}
}

func (r *rig) node(id string, fail func(step string) error) *Manager {
	r.t.Helper()
	elected := leader.New(leader.Options{Store: r.store, Node: id, Clock: job.SystemClock()})
	if fail != nil {
		elected = nil
	}
	m, err := New(Options{Store: r.store, Jobs: r.jobs, ID: id, Leader: elected, Logger: slog.New(slog.DiscardHandler), fail: fail})
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// run runs a node until stop.
func (r *rig) run(m *Manager) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) set(m *Manager, name string, d *Draft) Schedule {
	r.t.Helper()
	s, _, err := m.Set(r.ctx, name, d)
	r.ok(err)
	return s
}

// deliver takes and settles whatever is due.
func (r *rig) deliver() (ids []string) {
	r.t.Helper()
	taken, err := r.store.Take(r.ctx, 0, store.TakeOptions{Max: 1000, Lease: time.Minute, Limits: store.FlightLimits{HalfOpenLimit: 1}})
	r.ok(err)
	claimed := taken.Claims
	for i := range claimed {
		j := &claimed[i].Job
		ids = append(ids, j.ID)
		o := job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{}}
		_, err := r.store.Settle(r.ctx, []job.Settlement{job.Settle(j, o, nil)})
		r.ok(err)
	}
	return ids
}

func ptr[T any](v T) *T { return &v }

func every(text string) *Draft {
	d, err := job.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return &Draft{Every: &d, Job: &job.Draft{
		Destination: ptr(job.Destination("http://receiver.example/")), Body: &job.Body{Form: job.BodyJSON, Content: []byte(`{ "a" : 1 }`)},
	}}
}

// sleep moves the clock of the test on.
func sleep(d time.Duration) { _ = job.Sleep(context.Background(), job.SystemClock(), d) }

func pass(d time.Duration) {
	sleep(d)
	synctest.Wait()
}

func (r *rig) get(m *Manager, name string) Schedule {
	r.t.Helper()
	s, err := m.Get(r.ctx, name)
	r.ok(err)
	return s
}

// next is the next occurrence of the schedule s.
func (r *rig) next(m *Manager) time.Time {
	r.t.Helper()
	s := r.get(m, "s")
	return s.Next(1)[0].Time
}

func (r *rig) counters(m *Manager, name string, want Counters) {
	r.t.Helper()
	if got := r.get(m, name).Counters; got != want {
		r.t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

func TestPlainSchedulesAreBoundedInBytes(t *testing.T) {
	r := newRig(t, time.Hour)
	m := r.node("one", nil)
	large := every("1d")
	large.Job.Body = &job.Body{Form: job.BodyText, Content: bytes.Repeat([]byte("a"), 32<<10)}
	def, _, err := m.check("large", large, false)
	r.ok(err)
	// Others leave room for one large schedule, and a little more.
	others := store.Document{Kind: documentKind, Name: "others", Data: make([]byte, MaxAllBytes-def.size()*3/2)}
	_, err = store.PutDocument(r.ctx, r.store, others)
	r.ok(err)
	r.set(m, "a", large)
	if _, _, err := m.Set(r.ctx, "b", large); !errors.Is(err, ErrTooMany) {
		t.Errorf("a new schedule: error %v", err)
	}
	r.set(m, "b", every("1h"))
	if _, _, err := m.Set(r.ctx, "b", large); !errors.Is(err, ErrTooMany) {
		t.Errorf("a schedule that grows: error %v", err)
	}
	r.set(m, "a", every("1h"))
	r.set(m, "b", large)
}

func TestSchedulesAreBoundedInNumber(t *testing.T) {
	r := newRig(t, time.Hour)
	m := r.node("one", nil)
	others := make([]store.Document, MaxSchedules-1)
	for i := range others {
		others[i] = store.Document{Kind: documentKind, Name: fmt.Sprint(i), Data: []byte(`{"uid":"x"}`)}
	}
	_, err := r.store.PutDocuments(r.ctx, others)
	r.ok(err)
	r.set(m, "a", every("1h"))
	if _, _, err := m.Set(r.ctx, "b", every("1h")); !errors.Is(err, ErrTooMany) {
		t.Errorf("one too many: error %v", err)
	}
	r.ok(m.Delete(r.ctx, "a"))
	r.set(r.node("two", nil), "b", every("1h")) // a tombstone does not count, whoever counts
}

func TestOccurrencesAreRegisteredWhenTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		sleep(10 * time.Minute)
		r.set(m, "s", every("5m"))
		at := r.next(m)
		pass(time.Until(at) - time.Millisecond)
		if r.jobs.registered() != 0 {
			t.Error("registered before it is due")
		}
		pass(time.Millisecond)
		s := r.get(m, "s")
		if r.jobs.registered() != 1 || s.Fired != 1 || s.Last.Outcome != schedule.Fired {
			t.Errorf("%d jobs, %+v, the last is %+v", r.jobs.registered(), s.Counters, s.Last)
		}
		j, err := r.jobs.Get(t.Context(), s.Last.Key)
		r.ok(err)
		if j.DueAt != s.Last.Time || j.Spec.Occurrence.Schedule != "s" || string(j.Spec.Body) != `{ "a" : 1 }` {
			t.Errorf("%+v", j)
		}
		if ids := r.deliver(); len(ids) != 1 || ids[0] != schedule.ID("s", s.Last.Time.Time()) {
			t.Errorf("delivered %v", ids)
		}
	})
}

// Nothing is kept of occurrences that wait for their jitter: their jobs are registered when
// they are due.
func TestPlainAJitterRegistersNothingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		d := every("1s")
		d.Jitter = ptr(schedule.MaxPending * time.Second)
		begin := r.set(m, "s", d).CreatedAt
		got := r.follow(40 * time.Minute)
		page, err := listing.List(r.ctx, r.store, store.Query{States: []job.State{job.Waiting}, Limit: 100})
		r.ok(err)
		if len(page.Jobs) > 0 {
			t.Errorf("%d jobs wait", len(page.Jobs))
		}
		raw, err := m.docs.List(r.ctx)
		r.ok(err)
		if len(raw) != 1 || len(raw[0].Data) > 2000 {
			t.Errorf("the document has %d bytes", len(raw[0].Data))
		}
		arrived := map[int64]bool{}
		for _, at := range got {
			if arrived[at] {
				t.Errorf("%v arrived twice", seconds(at))
			}
			arrived[at] = true
		}
		for at := begin.Time().Unix() + 1; at < r.now().Time().Unix(); at++ {
			if due := schedule.Due("s", seconds(at), *d.Jitter); arrived[at] == due.After(r.now().Time()) {
				t.Errorf("%v, due %v: arrived %v", seconds(at), due, arrived[at])
			}
		}
		d.Jitter = ptr((schedule.MaxPending + 1) * time.Second)
		if _, _, err := m.Set(r.ctx, "s", d); err == nil {
			t.Error("a jitter over too many occurrences was accepted")
		}
	})
}

// A spread of the job delays occurrences like a jitter, and a pause skips those that are not
// due yet.
func TestASpreadAddsToTheJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		d := every("10m")
		d.Jitter, d.Job.Spread = ptr(time.Minute), ptr(4*time.Minute)
		r.set(m, "s", d)
		at := r.next(m)
		pass(time.Until(schedule.Due("s", at, 5*time.Minute)) - time.Millisecond)
		if n := r.jobs.registered(); n != 0 {
			t.Errorf("%d registered before they are due", n)
		}
		pass(time.Millisecond)
		last := r.get(m, "s").Last
		j, err := r.jobs.Get(t.Context(), last.Key)
		r.ok(err)
		due := job.InstantOf(schedule.Due("s", last.Time.Time(), 5*time.Minute))
		if j.DueAt != due || last.DueAt != due || due == last.Time || j.Spec.When != (job.When{At: due}) {
			t.Errorf("%s is due at %s, want %s: %+v", last.Time.RFC3339(), j.DueAt.RFC3339(), due.RFC3339(), j.Spec.When)
		}
		pass(time.Until(schedule.Due("s", r.next(m), 5*time.Minute)) - time.Millisecond)
		_, err = m.Pause(t.Context(), "s", job.Pause{})
		r.ok(err)
		if c := r.get(m, "s").Counters; c.Fired != 1 || c.Skipped != 1 {
			t.Errorf("paused before it was due: %+v", c)
		}
	})
}

func TestOccurrencesThatMustNotOverlapAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		d := every("1m")
		d.Overlap = ptr("skip")
		r.set(m, "s", d)
		pass(3*time.Minute + 30*time.Second)
		r.counters(m, "s", Counters{Fired: 1, Skipped: 2})
		r.deliver()
		pass(time.Minute)
		r.counters(m, "s", Counters{Fired: 2, Skipped: 2})
	})
}

func TestAnOutageIsDecidedByTheMisfirePolicy(t *testing.T) {
	for policy, want := range map[string]Counters{
		"fire_once": {Fired: 1, Missed: 11}, "skip": {Fired: 0, Missed: 12}, "fire_all": {Fired: 12},
	} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Hour)
				m := r.node("a", nil)
				sleep(10 * time.Second)
				d := every("5m")
				d.Policy = &policy
				r.set(m, "s", d)
				pass(time.Hour + time.Minute + 30*time.Second)
				defer r.run(m)()
				pass(time.Second)
				r.counters(m, "s", want)
				if n := len(r.deliver()); int64(n) != want.Fired {
					t.Errorf("%d delivered at once", n)
				}
			})
		})
	}
}

func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		r.set(m, "s", every("10s"))
		pass(9 * time.Second)
		s, err := m.Pause(t.Context(), "s", job.Pause{Note: "why"})
		r.ok(err)
		if s.State != Paused || s.Counters.Fired != 0 || s.Pause.Note != "why" {
			t.Errorf("paused: %+v", s)
		}
		pass(time.Minute)
		if n := r.jobs.registered(); n != 0 {
			t.Errorf("%d registered during the pause", n)
		}
		_, err = m.Resume(t.Context(), "s")
		r.ok(err)
		pass(21 * time.Second)
		if n := len(r.deliver()); n != 3 {
			t.Errorf("%d delivered after it", n)
		}
		if c := r.get(m, "s").Counters; c.Missed+c.Skipped+c.Failed != 0 {
			t.Errorf("%+v", c)
		}
	})
}

func TestAChangeHoldsFromItsAnswerOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		r.set(m, "s", every("10s"))
		pass(15 * time.Second)
		if len(r.deliver()) != 1 {
			t.Fatal("nothing was delivered")
		}
		again := every("10s")
		if s := r.set(m, "s", again); s.Version != 1 {
			t.Errorf("the same content made version %d", s.Version)
		}
		whole := every("10s")
		whole.Timezone, whole.Anchor = new("UTC"), new(time.Unix(0, 0))
		if s := r.set(m, "s", whole); s.Version != 1 {
			t.Errorf("defaults that are written out made version %d", s.Version)
		}
		changed := every("20s")
		changed.Job.Destination = ptr(job.Destination("http://other.example/"))
		if s := r.set(m, "s", changed); s.Version != 2 {
			t.Errorf("version %d", s.Version)
		}
		pass(24 * time.Second)
		page, err := listing.List(t.Context(), r.store, store.Query{States: []job.State{job.Waiting}, Limit: 100})
		r.ok(err)
		if len(page.Jobs) == 0 {
			t.Error("nothing was registered")
		}
		for _, j := range page.Jobs {
			if j.Spec.Destination != "http://other.example/" || int64(j.DueAt)%20_000 != 0 {
				t.Errorf("%s to %s", j.ID, j.Spec.Destination)
			}
		}
		pass(5 * time.Second)
		r.deliver()
		pass(15 * time.Second)
		r.deliver()
		r.ok(m.Delete(t.Context(), "s"))
		if _, err := m.Get(t.Context(), "s"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		pass(time.Minute)
		if ids := r.deliver(); ids != nil {
			t.Errorf("delivered %v after it was deleted", ids)
		}
		uid := r.set(m, "s", every("10s")).UID
		pass(11 * time.Second)
		if s := r.get(m, "s"); s.UID != uid || s.Version != 1 || len(r.deliver()) != 2 {
			t.Errorf("made anew: %+v", s)
		}
	})
}

func TestRunNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		r.set(m, "s", every("1h"))
		first, err := m.RunNow(t.Context(), "s", "key")
		r.ok(err)
		again, err := m.RunNow(t.Context(), "s", "key")
		r.ok(err)
		other, err := m.RunNow(t.Context(), "s", "")
		r.ok(err)
		if !first.Created || again.Created || again.Job.UID != first.Job.UID || !other.Created || other.Job.ID == first.Job.ID {
			t.Errorf("%+v\n%+v\n%+v", first, again, other)
		}
		r.counters(m, "s", Counters{Manual: 2})
		if n := len(r.deliver()); n != 2 {
			t.Errorf("%d delivered", n)
		}
	})
}

// Jobs with an order key have uids of another form. They count like others.
func TestOccurrencesWithAnOrderKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		d := every("10s")
		d.Job.OrderKey = ptr("k")
		r.set(m, "s", d)
		run, err := m.RunNow(t.Context(), "s", "")
		r.ok(err)
		if !run.Created || !store.UIDOrdered(run.Job.UID) {
			t.Errorf("%+v", run)
		}
		defer r.run(m)()
		pass(61 * time.Second)
		s := r.get(m, "s")
		if n := int64(r.jobs.registered()); s.Counters.Fired != n-1 || n < 5 || s.Counters.Manual != 1 {
			t.Errorf("%+v of %d", s.Counters, n)
		}
	})
}

func TestAFullTopicIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		r.ok(r.store.SetLimits(t.Context(), "default", store.Limits{Draining: true}))
		r.set(m, "s", every("20s"))
		pass(30 * time.Second)
		s := r.get(m, "s")
		if s.LastError == nil || s.LastError.Reason != ReasonTopicDraining || s.Counters != (Counters{}) {
			t.Errorf("%+v, %+v", s.LastError, s.Counters)
		}
		r.ok(r.store.SetLimits(t.Context(), "default", store.Limits{}))
		pass(2 * time.Second)
		if s := r.get(m, "s"); s.LastError != nil || s.Counters.Fired == 0 {
			t.Errorf("%+v, %+v", s.LastError, s.Counters)
		}
	})
}

// The elected node dies; another one goes on within 10 s. No occurrence is lost or comes twice.
func TestAnotherNodeTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		a, b := r.node("a", nil), r.node("b", nil)
		ctx, kill := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil { // without the farewell of Run
				_, _ = a.round(ctx)
				_ = job.Sleep(ctx, a.clock, time.Second)
			}
		}()
		d := every("1s")
		d.Policy, d.Grace = ptr("fire_all"), ptr(time.Minute)
		r.set(a, "s", d)
		pass(20 * time.Second)
		r.deliverAll()
		defer r.run(b)()
		pass(2 * time.Second)
		r.deliverAll()
		kill()
		<-ended
		got := map[int64]time.Time{}
		for range 60 * 10 {
			pass(time.Second / 10)
			for _, at := range r.deliverAll() {
				if late := time.Since(seconds(at)); late > 10*time.Second || !got[at].IsZero() {
					t.Errorf("%v arrived %v late, before at %v", seconds(at), late, got[at])
				}
				got[at] = time.Now()
			}
		}
		if len(got) < 58 {
			t.Errorf("%d arrived in 60 s", len(got))
		}
	})
}

var errCrash = errors.New("crash")

// Nodes crash between any two steps, two are at work at once, jobs end at once and
// nothing is retained: each occurrence is decided once, and registered once if it fired.
func TestPlainEachOccurrenceIsRegisteredOnceThroughCrashes(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crashes(t, seed) })
		})
	}
}

func crashes(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	r := newRig(t, 0)
	quiet, crashed := false, int64(0)
	fail := func(string) error {
		if !quiet && random.IntN(6) == 0 {
			crashed++
			return errCrash
		}
		return nil
	}
	nodes := []*Manager{r.node("a", fail), r.node("b", fail)}
	d := every(fmt.Sprintf("%ds", 1+random.IntN(20)))
	d.Policy = ptr([]string{"fire_once", "skip", "fire_all"}[random.IntN(3)])
	d.Overlap = ptr([]string{"allow", "skip"}[random.IntN(2)])
	d.Jitter = ptr(time.Duration(random.IntN(2)*random.IntN(60)) * time.Second)
	for r.jobs.created != nil {
		if _, _, err := nodes[0].Set(t.Context(), "s", d); err == nil {
			break
		}
	}
	begin := r.get(nodes[0], "s").CreatedAt
	for range 60 {
		sleep(time.Duration(random.IntN(3)*random.IntN(100_000)) * time.Millisecond / 10)
		n := random.IntN(2)
		if random.IntN(4) == 0 { // it is started anew
			nodes[n] = r.node(fmt.Sprint(n), fail)
		}
		_, _ = nodes[n].round(t.Context())
		if random.IntN(3) > 0 {
			r.deliver()
		}
	}
	quiet = true
	for range 4 {
		for i := range nodes {
			nodes[i] = r.node(fmt.Sprint(i), fail)
			_, err := nodes[i].round(t.Context())
			r.ok(err)
		}
		sleep(time.Second)
	}
	doc, err := nodes[0].docs.Get(t.Context(), "s")
	r.ok(err)
	rec := doc.Value
	rules, err := rec.Def.rules("s")
	r.ok(err)
	end := r.now().Time().Add(time.Hour)
	total := rules.Table.Count(begin.Time(), end) - rules.Undecided(rec.progress(), end)
	if n := rec.Fired + rec.Missed + rec.Skipped; n != total || rec.Failed != 0 {
		t.Errorf("%d of %d occurrences decided: %+v", n, total, rec.Counters)
	}
	if off := int64(r.jobs.registered()) - rec.Fired; off < 0 || off > crashed {
		t.Errorf("%d jobs for %d that fired, after %d crashes", r.jobs.registered(), rec.Fired, crashed)
	}
	for key, uids := range r.jobs.created {
		must.Equal(t, fmt.Sprintf("%s was registered", key), len(uids), 1)
	}
}

// A node dies between registering jobs and writing that it did. The next one finds their
// jobs, ended or not, and registers none again. Counters may lack one for each crash.
func TestRegisteredOccurrencesAreRecognized(t *testing.T) {
	for _, policy := range []string{"fire_once", "skip", "fire_all"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			dies, crashes := false, 0
			a := r.node("a", func(step string) error {
				if dies && step == "registered" {
					crashes++
					return errCrash
				}
				return nil
			})
			stop := r.run(a)
			d := every("10s")
			d.Policy, d.Grace = &policy, ptr(time.Second)
			r.set(a, "s", d)
			pass(25 * time.Second)
			dies = true
			got := len(r.follow(30 * time.Second))
			stop()
			got += len(r.follow(2 * time.Minute))
			defer r.run(r.node("b", nil))()
			got += len(r.follow(25 * time.Second))
			r.wantOnce(a, "s", crashes)
			if n := r.jobs.registered(); got != n {
				t.Errorf("%s: %d were registered, %d arrived", policy, n, got)
			}
		})
	}
}

// A node dies between registering a job and writing that it did, and then a client changes the schedule:
// no further job is registered while that one is unfinished.
func TestChangesKnowRegisteredJobs(t *testing.T) {
	for name, change := range map[string]func(r *rig, m *Manager, d *Draft){
		"pause": func(r *rig, m *Manager, _ *Draft) {
			_, err := m.Pause(r.ctx, "s", job.Pause{})
			r.ok(err)
			sleep(10 * time.Minute)
			_, err = m.Resume(r.ctx, "s")
			r.ok(err)
		},
		"times": func(r *rig, m *Manager, d *Draft) {
			d.Every = ptr(7 * time.Minute)
			r.set(m, "s", d)
		},
		"topic": func(r *rig, m *Manager, d *Draft) {
			d.Job.Topic = ptr("another")
			r.set(m, "s", d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Hour)
				a := r.node("a", func(step string) error {
					if step == "registered" {
						return errCrash
					}
					return nil
				})
				d := every("5m")
				d.Overlap = ptr("skip")
				s := r.set(a, "s", d)
				sleep(time.Until(s.Next(1)[0].Time) + time.Second)
				if _, err := a.round(r.ctx); !errors.Is(err, errCrash) || r.jobs.registered() != 1 {
					t.Fatalf("%d registered, error %v", r.jobs.registered(), err)
				}
				b := r.node("b", nil)
				change(r, b, d)
				defer r.run(b)()
				pass(time.Hour)
				if n, c := r.jobs.registered(), r.get(b, "s").Counters; n != 1 || c.Skipped == 0 {
					t.Errorf("%d jobs at once, %+v", n, c)
				}
			})
		})
	}
}

func seconds(at int64) time.Time { return time.Unix(at, 0).UTC() }
