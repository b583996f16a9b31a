package journal_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func TestDiskFull(t *testing.T) {
	inBubble(func(t *testing.T) {
		r := freshRig(t, sqliteBackend, retention)
		r.Add(reg("a", 0))
		noError(t, "Flush", r.Flush())
		noError(t, "PRAGMA", r.Exec(t.Context(), "PRAGMA max_page_count = 1")) // no more than there are
		big := reg("b", time.Hour)
		big.Spec.Body = make([]byte, 1<<17)
		_, err := r.Register(t.Context(), []store.Registration{big, reg("c", time.Hour)})
		unavailable(t, "Register", err)
		for _, id := range []string{"b", "c"} {
			if _, err := r.Get(t.Context(), key(id)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the store has %s: %v", id, err)
			}
		}
		noError(t, "PRAGMA", r.Exec(t.Context(), "PRAGMA max_page_count = 1000000"))
		r.Add(big)
		r.RunOne(job.OutcomeDelivered, 0)
		want := r.All()
		equal(t, "the jobs", r.Restart(retention).All(), want)
	})(t)
}

func TestWritesFail(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, r *rig){
		"a settlement is applied and written later": func(t *testing.T, r *rig) {
			s := settlement(r.TakeOne(), job.OutcomeDelivered, 0)
			r.ReadOnly(true)
			_, err := r.Settle(t.Context(), []job.Settlement{s})
			unavailable(t, "Settle", err)
			equal(t, "state in the store", r.Job("a").State, job.Delivered)
			_, err = r.Settle(t.Context(), []job.Settlement{s})
			unavailable(t, "Settle again", err)
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
			_, err = r.Settle(t.Context(), settlements)
			unavailable(t, "Settle", err)
			_, err = r.Settle(t.Context(), settlements)
			unavailable(t, "Settle again", err)
			r.ReadOnly(false)
			r.SettleAll(settlements...)
			equal(t, "rows of them", r.Count(`SELECT count(*) FROM flow WHERE log IS NOT NULL`), "2")
		},
		"claims go on and are written later": func(t *testing.T, r *rig) {
			r.ReadOnly(true)
			c := r.TakeOne()
			r.ReadOnly(false)
			noError(t, "Flush", r.Flush())
			crashed := r.Crash(retention)
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
			equal(t, "state", r.Crash(retention).Job("a").State, job.Cancelled)
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
			equal(t, "state", newRig(t, r.B, r.URL, retention).Job("a").State, job.Waiting)
		},
		"callers wait while too much is owed": func(t *testing.T, r *rig) {
			release := r.Fill()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := r.Carry(ctx, 0, carryAll)
			unavailable(t, "Carry", err)
			time.AfterFunc(time.Second, release)
			_, err = r.Carry(t.Context(), 0, carryAll)
			noError(t, "Carry", err)
		},
		"closing does not wait for them": func(t *testing.T, r *rig) {
			r.Fill()
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
		r.Add(reg("a", 0))
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
		h.OnGet, h.OnClaim, h.OnSettle = journaltest.Unsent[job.Job], journaltest.Unsent[[]store.Claimed], journaltest.Unsent[[]store.Settled]
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
		h.OnGet, h.OnSettle = nil, nil
		r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
	})(t)
}
