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

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func TestWritesFail(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, r *rig){
		"a settlement is applied and written later": func(t *testing.T, r *rig) {
			s := settlement(r.TakeOne(), job.OutcomeDelivered, 0)
			r.ReadOnly(true)
			r.SettleAll(s)
			equal(t, "state in the store", r.Job("a").State, job.Delivered)
			r.SettleAll(s)
			r.ReadOnly(false)
			if settled := r.SettleAll(s); !settled[0].Repeated {
				t.Error("not a repetition")
			}
			equal(t, "rows of it", r.Count(`SELECT count(*) FROM flow WHERE log IS NOT NULL`), "1")
		},
		"a settlement of a changed job is written once": func(t *testing.T, r *rig) {
			r.Add(reg("b", time.Hour))
			r.ReadOnly(true)
			_, err := r.Update(t.Context(), key("b"), runAt(job.When{}))
			unavailable(t, "Update", err)
			var settlements []job.Settlement
			for _, c := range r.TakeDue() {
				settlements = append(settlements, settlement(c, job.OutcomeDelivered, 0))
			}
			r.SettleAll(settlements...)
			r.SettleAll(settlements...)
			r.ReadOnly(false)
			r.SettleAll(settlements...)
			equal(t, "rows of them", r.Count(`SELECT count(*) FROM flow WHERE log IS NOT NULL`), "2")
		},
		"claims go on and are written later": func(t *testing.T, r *rig) {
			r.ReadOnly(true)
			c := r.TakeOne()
			r.ReadOnly(false)
			noError(t, "Flush", r.Flush())
			crashed := r.Crash()
			equal(t, "expired leases", crashed.TakeOne().Job.ExpiredLeases, 1)
			r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
		},
		"what clients want is refused while something is owed": func(t *testing.T, r *rig) {
			r.Add(reg("b", time.Hour))
			r.ReadOnly(true)
			r.TakeDue()
			unavailable(t, "Flush", r.Flush())
			_, err := r.Update(t.Context(), key("b"), cancel)
			unavailable(t, "Update", err)
			g := reg("b", time.Minute)
			g.OnConflict = job.ConflictReplace
			_, err = r.Register(t.Context(), []store.Registration{g})
			unavailable(t, "Register", err)
			equal(t, "the job", r.Job("b").Spec.When.Delay, time.Hour)
			r.ReadOnly(false)
			noError(t, "Flush", r.Flush())
			r.Add(g)
		},
		"an update that could not be committed is not answered, and not lost": func(t *testing.T, r *rig) {
			r.ReadOnly(true)
			_, err := r.Update(t.Context(), key("a"), cancel)
			unavailable(t, "Update", err)
			r.ReadOnly(false)
			noError(t, "Flush", r.Flush())
			equal(t, "state in the ledger", r.last("a").Job.State, job.Cancelled)
		},
		"a purge fails": func(t *testing.T, r *rig) {
			r.RunOne(job.OutcomeDelivered, 0)
			r.Pass(2 * retention)
			r.ReadOnly(true)
			_, err := r.Purge(t.Context(), 10)
			unavailable(t, "Purge", err)
			r.ReadOnly(false)
		},
		"ping notices both ways": func(t *testing.T, r *rig) {
			noError(t, "Ping", r.Ping(t.Context()))
			r.ReadOnly(true)
			_, err := r.Register(t.Context(), []store.Registration{reg("b", 0)})
			unavailable(t, "Register", err)
			unavailable(t, "Ping", r.Ping(t.Context()))
			unavailable(t, "Ping", r.Ping(t.Context()))
			r.ReadOnly(false)
			noError(t, "Flush", r.Flush())
			noError(t, "Ping", r.Ping(t.Context()))
			noError(t, "Ping", r.Ping(t.Context()))
		},
		"ping notices without other calls": func(t *testing.T, r *rig) {
			r.ReadOnly(true)
			noError(t, "Ping", r.Ping(t.Context())) // a commit succeeded just now
			r.Pass(4 * time.Second)                 // an idle connection of MariaDB is closed after 5 s
			unavailable(t, "Ping", r.Ping(t.Context()))
			r.ReadOnly(false)
			noError(t, "Ping", r.Ping(t.Context()))
		},
		"closing tells what is lost": func(t *testing.T, r *rig) {
			r.ReadOnly(true)
			r.TakeDue()
			err := r.Close()
			if err == nil || !strings.Contains(err.Error(), "could not be written") {
				t.Fatalf("Close: %v", err)
			}
			equal(t, "state", r.restored(r.URL).Job("a").State, job.Waiting)
		},
		"callers wait while too much is owed": func(t *testing.T, r *rig) {
			release := r.Fill(0)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := r.Carry(ctx, 0, carryAll)
			unavailable(t, "Carry", err)
			time.AfterFunc(time.Second, release)
			_, err = r.Carry(t.Context(), 0, carryAll)
			noError(t, "Carry", err)
		},
		"closing does not wait for them": func(t *testing.T, r *rig) {
			r.Fill(0)
			time.AfterFunc(time.Second, func() { _ = r.Close() })
			_, err := r.Carry(t.Context(), 0, carryAll)
			unavailable(t, "Carry", err)
		},
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			r := freshRig(t, b, retention)
			r.Add(reg("a", 0))
			noError(t, "Flush", r.Flush())
			test(t, r)
		}))
	}
}

func TestFailuresAreLoggedOnce(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		var out bytes.Buffer
		r := freshRig(t, b, retention, func(o *options) { o.Logger = slog.New(slog.NewTextHandler(&out, nil)) })
		r.ReadOnly(true)
		for range 3 {
			_, err := r.Register(t.Context(), []store.Registration{reg("a", 0)})
			unavailable(t, "Register", err)
		}
		r.ReadOnly(false)
		noError(t, "Flush", r.Flush())
		r.RegisterAs(store.Same, reg("a", 0))
		noError(t, "Close", r.Close())
		equal(t, "errors", strings.Count(out.String(), "level=ERROR"), 1)
		equal(t, "lines that say it is over", strings.Count(out.String(), "can be written again"), 1)
	})(t)
}

// A store that fails is passed on, and leaves nothing locked.
func TestTheStoreFails(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		c := r.TakeOne()
		h.OnRegister, h.OnClaim, h.OnSettle = unsent[[]store.Registered], unsent[[]store.Claimed], unsent[[]store.Settled]
		ctx := t.Context()
		for name, call := range map[string]func() error{
			"Register": func() error {
				_, err := r.Register(ctx, []store.Registration{reg("a", 0)})
				return err
			},
			"Claim": func() error {
				_, err := r.Claim(ctx, 0, []store.Hint{{Lane: c.Job.Lane(), ID: "a"}}, store.ClaimOptions{Nonce: "x", Lease: time.Hour})
				return err
			},
			"Settle": func() error {
				_, err := r.Settle(ctx, []job.Settlement{settlement(c, job.OutcomeDelivered, 0)})
				return err
			},
		} {
			if err := call(); !errors.Is(err, errLost) {
				t.Errorf("%s: %v", name, err)
			}
		}
		h.OnSettle = nil
		r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
	})(t)
}

// down makes writes fail until up is called, and has that noticed.
func (r *rig) down() (up func()) {
	r.T.Helper()
	r.ReadOnly(true)
	if err := r.Flush(); err == nil {
		r.T.Fatal("the ledger can be written")
	}
	return func() {
		r.T.Helper()
		r.ReadOnly(false)
		// A commit that began before may still fail.
		testenv.Eventually(r.T, outageLimit, func() bool { return r.Flush() == nil }, "the ledger can be written again")
	}
}

// catchUp has the ledger catch up with the store.
func (r *rig) catchUp() int {
	r.T.Helper()
	report, err := r.CompareOnce(r.T.Context())
	noError(r.T, "CompareOnce", err)
	return int(report.Repaired)
}

// What waits is bounded in number and in memory. What there is no room for is counted, logged
// once, and written by a pass.
func TestMoreIsOwedThanThereIsRoomFor(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		var out bytes.Buffer
		metrics := prometheus.NewRegistry()
		l, option := shared()
		r := freshRig(t, b, retention, option, func(o *options) {
			o.Logger, o.Metrics = slog.New(slog.NewTextHandler(&out, nil)), metrics
		})
		const jobs, fit = 70, 64 // MiB
		for i := range jobs {
			g := reg(fmt.Sprint(i), 0)
			g.Spec.Body = make([]byte, 1<<20)
			_, err := l.Register(t.Context(), []store.Registration{g}) // which the ledger does not know
			noError(t, "Register", err)
		}
		up := r.down()
		for range jobs {
			_, err := r.Carry(t.Context(), 0, store.CarryOptions{Cap: 1, Visibility: time.Hour, By: "carrier"})
			noError(t, "Carry", err)
			hints, err := r.Pop(t.Context(), 0, 1, 0)
			noError(t, "Pop", err)
			_, err = r.Claim(t.Context(), 0, hints, store.ClaimOptions{Nonce: newName(), Lease: time.Hour, By: "worker"})
			noError(t, "Claim", err)
		}
		if lost := r.gauge(metrics, "dropped_rows_total"); lost == 0 || r.gauge(metrics, "down") != 1 {
			t.Errorf("%v rows were dropped, down is %v", lost, r.gauge(metrics, "down"))
		}
		up()
		equal(t, "rows that wait", r.gauge(metrics, "waiting_rows"), 0.0)
		equal(t, "complaints of being behind", strings.Count(out.String(), "too far behind"), 1)
		equal(t, "messages", r.Count("SELECT count(*) FROM message"), fmt.Sprint(fit))
		equal(t, "caught up", r.catchUp(), jobs-fit)
		equal(t, "caught up again", r.catchUp(), 0)
		r.agree()
	})(t)
}

// gauge returns a metric whose name begins with duehook_ledger_.
func (r *rig) gauge(from *prometheus.Registry, name string) float64 {
	r.T.Helper()
	families, err := from.Gather()
	noError(r.T, "Gather", err)
	for _, f := range families {
		if f.GetName() == "duehook_ledger_"+name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	r.T.Fatalf("there is no metric %s", name)
	return 0
}

// Who probes does not wait for a server that does not answer.
func TestPingDoesNotWait(t *testing.T) {
	inBubble(func(t *testing.T) {
		r := freshRig(t, postgres, retention)
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
	freshRig(t, postgres, 0, option)
	if _, err := tryRig(t, postgres, postgres.Fresh(t), 0, option); err == nil {
		t.Error("two ledgers on one registry")
	}
	problems, err := testutil.GatherAndLint(metrics)
	noError(t, "GatherAndLint", err)
	equal(t, "problems", len(problems), 0)
}

// Many rows in one transaction are more than one statement's parameters.
func TestManyChangesInOneTransaction(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		const jobs = 700
		var regs []store.Registration
		for i := range jobs {
			regs = append(regs, reg(strings.Repeat("i", 100)+fmt.Sprint(i), 0))
		}
		r.RegisterAs(store.Created, regs...)
		up := r.down()
		var settlements []job.Settlement
		for _, c := range r.TakeDue() {
			settlements = append(settlements, settlement(c, job.OutcomeFailed, time.Hour))
		}
		r.SettleAll(settlements...)
		up()
		r.agree()
	})(t)
}
