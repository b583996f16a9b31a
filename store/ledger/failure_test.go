package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func unavailable(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%s: %v, want ErrUnavailable", what, err)
	}
}

// readOnly makes every write fail, until it is taken back.
func (r *rig) readOnly(on bool) {
	r.t.Helper()
	noError(r.t, "Exec", r.Exec(r.t.Context(), r.b.readOnly(on)))
}

func TestDiskFull(t *testing.T) {
	inBubble(func(t *testing.T) {
		r := freshRig(t, sqliteBackend, retention)
		r.add(reg("a", 0))
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
		r.add(big)
		r.run(job.OutcomeDelivered, 0)
		want := r.all()
		equal(t, "the jobs", r.restart(retention).all(), want)
	})(t)
}

func TestWritesFail(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, r *rig){
		"a settlement is applied and written later": func(t *testing.T, r *rig) {
			s := settlement(r.takeOne(), job.OutcomeDelivered, 0)
			r.readOnly(true)
			_, err := r.Settle(t.Context(), []job.Settlement{s})
			unavailable(t, "Settle", err)
			equal(t, "state in the store", r.get("a").State, job.Delivered)
			_, err = r.Settle(t.Context(), []job.Settlement{s})
			unavailable(t, "Settle again", err)
			r.readOnly(false)
			if settled := r.settle(s); !settled[0].Repeated {
				t.Error("not a repetition")
			}
			equal(t, "rows of it", r.queryCount(`SELECT count(*) FROM flow WHERE log IS NOT NULL`), "1")
		},
		"a settlement of a changed job is written once": func(t *testing.T, r *rig) {
			r.add(reg("b", time.Hour))
			r.readOnly(true)
			_, err := r.Update(t.Context(), key("b"), runAt(job.When{}))
			unavailable(t, "Update", err)
			var settlements []job.Settlement
			for _, c := range r.take() {
				settlements = append(settlements, settlement(c, job.OutcomeDelivered, 0))
			}
			_, err = r.Settle(t.Context(), settlements)
			unavailable(t, "Settle", err)
			_, err = r.Settle(t.Context(), settlements)
			unavailable(t, "Settle again", err)
			r.readOnly(false)
			r.settle(settlements...)
			equal(t, "rows of them", r.queryCount(`SELECT count(*) FROM flow WHERE log IS NOT NULL`), "2")
		},
		"claims go on and are written later": func(t *testing.T, r *rig) {
			r.readOnly(true)
			c := r.takeOne()
			r.readOnly(false)
			noError(t, "Flush", r.Flush())
			crashed := r.crash(retention)
			equal(t, "lapses", crashed.takeOne().Job.Lapses, 1)
			r.settle(settlement(c, job.OutcomeDelivered, 0))
		},
		"what clients want is refused while something is owed": func(t *testing.T, r *rig) {
			r.add(reg("b", time.Hour))
			r.readOnly(true)
			r.take()
			unavailable(t, "Flush", r.Flush())
			_, err := r.Update(t.Context(), key("b"), cancel)
			unavailable(t, "Update", err)
			g := reg("b", time.Minute)
			g.OnConflict = store.Replace
			_, err = r.Register(t.Context(), []store.Registration{g})
			unavailable(t, "Register", err)
			equal(t, "the job", r.get("b").Spec.When.Delay, time.Hour)
			r.readOnly(false)
			noError(t, "Flush", r.Flush())
			r.add(g)
		},
		"an update that could not be committed is not answered, and not lost": func(t *testing.T, r *rig) {
			r.readOnly(true)
			_, err := r.Update(t.Context(), key("a"), cancel)
			unavailable(t, "Update", err)
			r.readOnly(false)
			noError(t, "Flush", r.Flush())
			equal(t, "state", r.crash(retention).get("a").State, job.Cancelled)
		},
		"a purge fails": func(t *testing.T, r *rig) {
			r.run(job.OutcomeDelivered, 0)
			r.pass(2 * retention)
			r.readOnly(true)
			_, err := r.Purge(t.Context(), 10)
			unavailable(t, "Purge", err)
			r.readOnly(false)
		},
		"restoring fails": func(t *testing.T, r *rig) {
			r.readOnly(true)
			n, err := r.Restore(t.Context(), []store.RestoredJob{{Job: reg("b", 0).Job(1)}})
			unavailable(t, "Restore", err)
			equal(t, "restored", n, 0)
			_, err = r.Get(t.Context(), key("b"))
			equal(t, "Get", errors.Is(err, store.ErrNotFound), true)
			r.readOnly(false)
		},
		"ping notices both ways": func(t *testing.T, r *rig) {
			noError(t, "Ping", r.Ping(t.Context()))
			r.readOnly(true)
			_, err := r.Register(t.Context(), []store.Registration{reg("b", 0)})
			unavailable(t, "Register", err)
			unavailable(t, "Ping", r.Ping(t.Context()))
			unavailable(t, "Ping", r.Ping(t.Context()))
			r.readOnly(false)
			noError(t, "Ping", r.Ping(t.Context()))
			noError(t, "Ping", r.Ping(t.Context()))
		},
		"closing tells what is lost": func(t *testing.T, r *rig) {
			r.readOnly(true)
			r.take()
			err := r.Close()
			if err == nil || !strings.Contains(err.Error(), "could not be written") {
				t.Fatalf("Close: %v", err)
			}
			equal(t, "state", newRig(t, r.b, r.url, retention).get("a").State, job.Waiting)
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
			r.add(reg("a", 0))
			noError(t, "Flush", r.Flush())
			test(t, r)
		}))
	}
}

func TestFailuresAreLoggedOnce(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		var out bytes.Buffer
		r := freshRig(t, b, retention, func(o *options) { o.Logger = slog.New(slog.NewTextHandler(&out, nil)) })
		r.readOnly(true)
		for range 3 {
			_, err := r.Register(t.Context(), []store.Registration{reg("a", 0)})
			unavailable(t, "Register", err)
		}
		r.readOnly(false)
		r.add(reg("a", 0))
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
		r.add(reg("a", 0))
		c := r.takeOne()
		h.get, h.claim, h.settle, h.restore = unsent[job.Job], unsent[[]store.Claimed], unsent[[]store.Settled], unsent[int]
		ctx := t.Context()
		for name, call := range map[string]func() error{
			"Register": func() error {
				_, err := r.Register(ctx, []store.Registration{reg("a", 0)})
				return err
			},
			"Restore": func() error {
				_, err := r.Restore(ctx, []store.RestoredJob{{Job: reg("a", 0).Job(1)}})
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
		h.get = func(func() (job.Job, error)) (job.Job, error) { return job.Job{}, store.ErrNotFound }
		if n, err := r.Restore(ctx, []store.RestoredJob{{Job: reg("b", 0).Job(1)}}); n != 0 || !errors.Is(err, errLost) {
			t.Errorf("Restore: %d, %v", n, err)
		}
		h.get, h.settle = nil, nil
		r.settle(settlement(c, job.OutcomeDelivered, 0))
	})(t)
}
