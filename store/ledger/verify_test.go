package ledger_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/listing"
)

// verify gives the differences by key.
func (r *rig) verify() map[string]ledger.Difference {
	r.T.Helper()
	noError(r.T, "Flush", r.Flush())
	found := map[string]ledger.Difference{}
	v, err := ledger.Verify(r.T.Context(), ledger.VerifyOptions{
		URL: r.URL, Store: r.o.Store,
		Found: func(d ledger.Disagreement) {
			found[d.Key.ID] = d.Difference
			if exists := d.Ledger != nil; exists != (d.Difference != ledger.MissingInLedger) {
				r.T.Errorf("%+v", d)
			}
		},
	})
	noError(r.T, "Verify", err)
	equal(r.T, "number of differences", v.Differences, int64(len(found)))
	return found
}

func TestVerify(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("same", time.Hour))
		r.Add(reg("delivered", 0))
		r.Add(reg("behind", 0))
		old := l.copied(t)
		for _, c := range r.TakeDue() {
			kind := job.OutcomeDelivered
			if c.Job.ID == "behind" {
				kind = job.OutcomeFailed
			}
			r.SettleAll(settlement(c, kind, time.Hour))
		}
		equal(t, "differences", len(r.verify()), 0)
		l.goBack(t, old)
		r.Add(reg("lost", time.Hour))
		lost := l.copied(t)
		l.flush(t)
		_, err := l.Restore(t.Context(), jobsBut(t, lost, "lost"))
		noError(t, "Restore", err)
		r.Add(reg("ahead", time.Hour))
		_, err = l.Update(t.Context(), key("ahead"), runAt(job.When{Delay: 2 * time.Hour}))
		noError(t, "Update", err)
		_, err = l.Register(t.Context(), []store.Registration{reg("unknown", time.Hour)})
		noError(t, "Register", err)
		want := map[string]ledger.Difference{
			"delivered": ledger.FinishedInLedger, "behind": ledger.BehindInStore, "lost": ledger.MissingInStore,
			"ahead": ledger.BehindInLedger, "unknown": ledger.MissingInLedger,
		}
		equal(t, "differences", r.verify(), want)
		equal(t, "differences once more", r.verify(), want)
		r.reconcile()
		equal(t, "differences after a pass", len(r.verify()), 0)
	})(t)
}

// jobsBut is the jobs of a store but one.
func jobsBut(t *testing.T, from store.Store, id string) []store.RestoredJob {
	t.Helper()
	page, err := listing.List(t.Context(), from, store.Query{Limit: 1000})
	noError(t, "List", err)
	var jobs []store.RestoredJob
	for _, j := range page.Jobs {
		if j.ID != id {
			jobs = append(jobs, store.RestoredJob{Job: j})
		}
	}
	return jobs
}

func TestVerifyRefuses(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		inner := newStore(t, 0)
		refused := func(url, want string) {
			t.Helper()
			_, err := ledger.Verify(t.Context(), ledger.VerifyOptions{URL: url, Store: inner})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want one about %q", err, want)
			}
		}
		refused(b.Fresh(t), "there is no ledger")
		refused("nonsense", "write postgres://")
		r := newRig(t, b, b.Fresh(t), retention)
		noError(t, "pretend", r.Exec(t.Context(), "UPDATE goose_db_version SET version_id = 99 WHERE version_id = "+
			slices.Max(r.Query("SELECT max(version_id) FROM goose_db_version"))))
		noError(t, "Close", r.Close())
		refused(r.URL, "another version of duehook")
	})(t)
}
