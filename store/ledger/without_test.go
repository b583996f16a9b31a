package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// without is for a node that accepts although the journal is down.
func without(o *options) { o.Shared, o.AcceptWithout = true, true }

// down makes writes fail until up is called, and has that noticed.
func (r *rig) down() (up func()) {
	r.T.Helper()
	r.ReadOnly(true)
	if err := r.Flush(); err == nil {
		r.T.Fatal("the journal can be written")
	}
	return func() {
		r.T.Helper()
		r.ReadOnly(false)
		// A commit that began before may still fail.
		testenv.Eventually(r.T, outageLimit, func() bool { return r.Flush() == nil }, "the journal can be written again")
	}
}

// What is accepted while the journal is down is written when it is back, in one
// transaction, whatever became of it meanwhile.
func TestAcceptWithout(t *testing.T) {
	register := func(r *rig) { r.Add(reg("a", time.Hour)) }
	due := func(r *rig) { r.Add(reg("a", 0)) }
	anew := func(r *rig) { g := reg("a", 0); g.Spec.Body = []byte(`"another"`); r.Add(g) }
	replaced := func(delay time.Duration) func(r *rig) { return func(r *rig) { r.Add(replacing("a", delay)) } }
	update := func(change func(*job.Job, job.Instant) error) func(r *rig) {
		return func(r *rig) { r.Change("a", change) }
	}
	take := func(r *rig) { r.TakeOne() }
	run := func(kind job.OutcomeKind, retry time.Duration) func(r *rig) {
		return func(r *rig) { r.RunOne(kind, retry) }
	}
	deliver, die := run(job.OutcomeDelivered, 0), run(job.OutcomeFailed, -1)
	nothing := func(*rig) {}
	for name, calls := range map[string][]func(r *rig){ // before, and while it is down
		"registered":                 {nothing, register},
		"claimed":                    {nothing, due, take},
		"delivered":                  {nothing, due, deliver},
		"dead":                       {nothing, due, die},
		"dead, replayed":             {nothing, due, die, update(replay)},
		"dead, replaced":             {nothing, due, die, replaced(time.Hour)},
		"failed, claimed":            {nothing, due, run(job.OutcomeFailed, 0), take},
		"delivered, registered anew": {nothing, due, deliver, anew, deliver, register},
		"rescheduled":                {nothing, register, update(runAt(job.When{Delay: time.Minute}))},
		"cancelled":                  {nothing, register, update(cancel)},
		"cancelled in flight":        {nothing, due, take, update(cancel)},
		"replaced":                   {nothing, register, replaced(time.Minute)},
		"replaced twice":             {nothing, register, replaced(time.Minute), replaced(0), take},
		"rescheduled, replaced":      {nothing, register, update(runAt(job.When{Delay: time.Minute})), replaced(0)},
		"an old one rescheduled":     {register, update(runAt(job.When{Delay: time.Minute}))},
		"an old one replaced":        {register, replaced(0), take},
		"an old one rescheduled and replaced": {
			register, update(runAt(job.When{Delay: time.Minute})), replaced(time.Minute), replaced(0), deliver,
		},
		"an old one cancelled, registered anew": {register, update(cancel), due, deliver},
		"an old dead one replaced":              {func(r *rig) { due(r); die(r) }, replaced(time.Hour)},
		"an old dead one replayed":              {func(r *rig) { due(r); die(r) }, update(replay), deliver},
		"an old one that ended":                 {func(r *rig) { due(r); deliver(r) }, register},
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			r := freshRig(t, b, retention, without)
			calls[0](r)
			noError(t, "Flush", r.Flush())
			up := r.down()
			for _, call := range calls[1:] {
				call(r)
			}
			up()
			r.agree()
		}))
	}
}

// A commit whose answer is lost may have been made. The job is accepted, and
// there is one message of it, with the times of the store.
func TestAcceptAfterACommitWithoutAnswer(t *testing.T) {
	onEachOf(journaltest.Servers, func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option, without)
		// The commit of another node with the same uid stands for it.
		g := reg("a", 0)
		other := unheard(t, b, r.URL)
		h.OnGet = func(call func() (job.Job, error)) (job.Job, error) {
			h.OnGet = nil
			if _, err := other.Register(t.Context(), []store.Registration{g}); !errors.Is(err, errLost) {
				t.Errorf("Register: %v", err)
			}
			noError(t, "Close", other.Close())
			r.ReadOnly(true)
			return call()
		}
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			res, err := call()
			// The carrier is faster, and the journal is back for a moment.
			r.ReadOnly(false)
			_, carryErr := r.Carry(t.Context(), 0, carryAll)
			noError(t, "Carry", carryErr)
			noError(t, "Flush", r.Flush())
			return res, err
		}
		r.Add(g)
		noError(t, "Flush", r.Flush())
		r.agree()
	})(t)
}

// unheard is a node whose store never hears of a registration.
func unheard(t *testing.T, b *backend, url string) *rig {
	t.Helper()
	h, option := hook()
	h.OnRegister = journaltest.Unsent[[]store.Registered]
	return newRig(t, b, url, retention, option, func(o *options) { o.Shared = true })
}

// What waits is bounded in number and in memory. What there is no room for is
// counted, logged once, and can be written later.
func TestAcceptMoreThanThereIsRoomFor(t *testing.T) {
	onEachOf([]*backend{sqliteBackend}, func(t *testing.T, b *backend) { // 64 MiB, and the same Go for each
		var out bytes.Buffer
		metrics := prometheus.NewRegistry()
		r := freshRig(t, b, retention, without, func(o *options) {
			o.Logger, o.Metrics = slog.New(slog.NewTextHandler(&out, nil)), metrics
		})
		up := r.down()
		big := make([]byte, 1<<20)
		const jobs, fit = 70, 63 // as 64 MiB less the rows
		for i := range jobs {
			g := reg(fmt.Sprint(i), time.Hour)
			g.Spec.Body = big
			r.Add(g)
		}
		r.gauges(metrics, map[string]float64{
			"down": 1, "accepted_without_total": jobs, "waiting_rows": 4 * fit, "dropped_rows_total": 4 * (jobs - fit),
		})
		up()
		r.gauges(metrics, map[string]float64{
			"down": 0, "accepted_without_total": jobs, "waiting_rows": 0, "dropped_rows_total": 4 * (jobs - fit),
		})
		equal(t, "messages", r.Count("SELECT count(*) FROM message"), fmt.Sprint(fit))
		equal(t, "complaints of being behind", strings.Count(out.String(), "too far behind"), 1)
		equal(t, "caught up", r.catchUp(), jobs-fit)
		equal(t, "caught up again", r.catchUp(), 0)
		r.agree()
	})(t)
}

// gauges compares the metrics whose names begin with duehook_ledger_.
func (r *rig) gauges(from *prometheus.Registry, want map[string]float64) {
	r.T.Helper()
	families, err := from.Gather()
	noError(r.T, "Gather", err)
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		if name, is := strings.CutPrefix(f.GetName(), "duehook_ledger_"); is {
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	equal(r.T, "metrics", got, want)
}

// catchUp has the journal catch up with the store.
func (r *rig) catchUp() int {
	r.T.Helper()
	report, err := r.CompareOnce(r.T.Context())
	noError(r.T, "CompareOnce", err)
	return int(report.Repaired)
}

// A node that ends while it owes the journal something leaves the store ahead.
// A comparison writes what is missing: jobs, their states, and their attempts.
func TestJournalCatchesUp(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		inner := journaltest.NewStore(t, retention)
		kept := func(o *options) { o.Store = lasting{inner} }
		r := freshRig(t, b, retention, without, kept)
		r.RegisterAs(store.Created, reg("old", 0), reg("same", time.Hour), reg("replaced", time.Hour), reg("gone", time.Hour))
		r.RunOne(job.OutcomeFailed, 0)
		noError(t, "Flush", r.Flush())
		r.ReadOnly(true)
		r.RunOne(job.OutcomeFailed, 0)
		r.RunOne(job.OutcomeDelivered, 0)
		r.Add(reg("new", 0))
		r.RunOne(job.OutcomeFailed, time.Hour)
		g := reg("replaced", 0)
		g.OnConflict = job.ConflictReplace
		r.Add(g)
		r.RunOne(job.OutcomeFailed, -1)
		r.Change("gone", cancel)
		if err := r.Close(); err == nil {
			t.Error("Close says nothing of changes that are lost")
		}

		r = newRig(t, b, r.URL, retention, without, kept)
		want := r.All()
		equal(t, "jobs written", r.catchUp(), 4)
		r.agree()
		equal(t, "jobs written again", r.catchUp(), 0)
		noError(t, "Close", r.Close())
		noError(t, "close the store", inner.Close())
		got := newRig(t, b, r.URL, retention).All() // from the journal
		equal(t, "the jobs", got, want)
	})(t)
}

// lasting is a store that outlives its ledger.
type lasting struct{ store.Restorable }

func (lasting) Close() error { return nil }

// The store is ready without the journal, and says that it is down.
func TestPingWithout(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention, without)
		up := r.down()
		degraded := func() {
			t.Helper()
			if err := r.Ping(t.Context()); !errors.Is(err, store.ErrDegraded) {
				t.Errorf("Ping: %v, want ErrDegraded", err)
			}
		}
		degraded() // found by a try of its own
		r.Add(reg("a", time.Hour))
		degraded() // known
		up()
		noError(t, "Ping", r.Ping(t.Context()))
	})(t)
}

// Who probes does not wait for a server that does not answer.
func TestPingDoesNotWait(t *testing.T) {
	inBubble(func(t *testing.T) {
		r := freshRig(t, sqliteBackend, retention)
		up := r.down()
		resume := r.Pause()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		unavailable(t, "Ping", r.Ping(ctx))
		resume()
		up()
	})(t)
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	metrics := prometheus.NewRegistry()
	option := func(o *options) { o.Metrics = metrics }
	freshRig(t, sqliteBackend, 0, option)
	if _, err := tryRig(t, sqliteBackend, sqliteBackend.Fresh(t), 0, option); err == nil {
		t.Error("two ledgers on one registry")
	}
	problems, err := testutil.GatherAndLint(metrics)
	noError(t, "GatherAndLint", err)
	equal(t, "problems", len(problems), 0)
}

// The answer of the store is lost, and the journal is down: what the store has
// is found when the client comes again.
func TestLostAnswerWithout(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option, without)
		up := r.down()
		h.OnRegister = journaltest.Lost[[]store.Registered]
		g := reg("a", time.Hour)
		if _, err := r.Register(t.Context(), []store.Registration{g}); !errors.Is(err, errLost) {
			t.Errorf("Register: %v", err)
		}
		h.OnRegister = nil
		r.RegisterAs(store.Same, g)
		up()
		r.agree()
	})(t)
}

// Another node was faster with a registration of the key.
func TestRefusedWithout(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option, without)
		up := r.down()
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			h.OnRegister = nil
			_, err := h.Restorable.Register(t.Context(), []store.Registration{reg("a", time.Minute)})
			noError(t, "Register", err)
			return call()
		}
		r.RegisterAs(store.Exists, reg("a", time.Hour))
		up()
		r.agree()
	})(t)
}

// Many rows in one transaction are more than one statement's parameters.
func TestManyChangesInOneTransaction(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention, without)
		up := r.down()
		const jobs = 700
		for i := range jobs {
			r.Add(reg(strings.Repeat("i", 100)+fmt.Sprint(i), time.Hour))
		}
		up()
		r.agree()
	})(t)
}
