package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func TestHistory(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		began := job.InstantOf(time.Now())
		first := r.Add(reg("a", time.Second))
		r.Pass(time.Second)
		r.RunOne(job.OutcomeFailed, time.Minute)
		r.Change("a", runAt(job.When{}))
		c := r.TakeOne()
		r.Change("a", cancel)
		r.SettleAll(settlement(c, job.OutcomeFailed, time.Minute))
		r.Change("a", replay)
		r.RunOne(job.OutcomeDelivered, 0)
		r.Pass(time.Second)
		second := r.Add(reg("a", time.Hour))
		g := reg("a", time.Minute)
		g.OnConflict = job.ConflictReplace
		third := r.Add(g)
		equal(t, "the history", r.History("a"), []string{
			">waiting 0  ",
			"waiting>ready 0 carrier ",
			"ready>running 1 worker ",
			"running>retrying 1 worker ladder",
			"retrying>retrying 0  changed",
			"retrying>ready 0 carrier ",
			"ready>running 2 worker ",
			"running>running 0  cancel_requested",
			"running>cancelled 2 worker cancelled",
			"cancelled>waiting 0  replayed",
			"waiting>ready 0 carrier ",
			"ready>running 1 worker ",
			"running>delivered 1 worker delivered",
			">waiting 0  ",
			"waiting>cancelled 0  replaced",
			">waiting 0  ",
		})
		equal(t, "uids", slices.Compact(r.Query(`SELECT uid FROM history WHERE id = 'a' ORDER BY at, seq`)), []string{first.UID, second.UID, third.UID})
		equal(t, "hosts", r.Query(`SELECT DISTINCT host FROM flow`), []string{"host"})
		equal(t, "time of the first change", r.Count(`SELECT min(at) FROM flow`), fmt.Sprint(int64(began)))
		equal(t, "rows of nobody", len(r.History("nobody")), 0)
	})(t)
}

// The ledger keeps a dead letter that was discarded, and that it was.
func TestHistoryOfADiscardedJob(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeRefused, 0)
		discard := func(j *job.Job, now job.Instant) error { return j.Discard(now) }
		r.Change("a", discard)
		want := []string{
			">waiting 0  ",
			"waiting>ready 0 carrier ",
			"ready>running 1 worker ",
			"running>dead 1 worker ",
			"dead>cancelled 0  discarded",
		}
		equal(t, "the history", r.History("a"), want)
		r.Add(reg("a", time.Hour))
		equal(t, "the history after another registration", r.History("a"), append(want, ">waiting 0  "))
	})(t)
}

// A claim whose answer was lost is given again, and is one claim.
func TestHistoryOfARepeatedClaim(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reg("a", 0))
		_, err := r.Carry(t.Context(), 0, carryAll)
		noError(t, "Carry", err)
		hints, err := r.Pop(t.Context(), 0, 1, 0)
		noError(t, "Pop", err)
		for range 2 {
			claims, err := r.Claim(t.Context(), 0, hints, store.ClaimOptions{Nonce: "n", Lease: time.Hour, By: "worker"})
			noError(t, "Claim", err)
			equal(t, "claims", len(claims), 1)
		}
		equal(t, "the history", r.History("a"), []string{">waiting 0  ", "waiting>ready 0 carrier ", "ready>running 1 worker "})
	})(t)
}

// The store goes back to before a claim while a client cancels the job, so both make the same version of it.
func TestHistoryOfAnEndAfterTheStoreWentBack(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, hooks := hook()
		r, l := wholeRig(t, b)
		other := newRig(t, b, r.URL, retention, func(o *options) { o.Store = kept{l} }, hooks)
		r.Add(reg("a", 0))
		noError(t, "Flush", r.Flush())
		old := l.copied(t)
		makeWhole(t, old)
		resume := r.Pause()
		claimed := r.TakeOne().Job
		l.goBack(t, old)
		h.OnChange = func() {
			h.OnChange = nil
			resume()
			noError(t, "Flush", r.Flush())
		}
		equal(t, "version", other.Change("a", cancel).Version, claimed.Version)
		equal(t, "the history", other.History("a"), []string{
			">waiting 0  ", "waiting>ready 0 carrier ", "ready>running 1 worker ", "waiting>cancelled 0  cancelled",
		})
	})(t)
}

// The states in the table for people are those of the program.
func TestStateNames(t *testing.T) {
	r := freshRig(t, postgres, 0)
	var want []string
	for code := range len(job.States) {
		want = append(want, job.State(code).String())
	}
	equal(t, "names", r.Query(`SELECT name FROM state ORDER BY code`), want)
}

// Users of mykit-delay find the jobs of its dialect in the tables that they know.
func TestMykitTables(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		pushed := func(id, kept string) store.Registration {
			g := reg(id, time.Second)
			g.Spec.Body, g.Spec.BodyForm = []byte("täxt"), job.BodyText
			g.Spec.Dialect = &job.Dialect{Name: "mykit", Data: kept}
			return g
		}
		const kept = `{"bizkey":"8812","subtopic":"vip","ttl":12,"delay":1000,"create_time":1767258000000}`
		began := job.InstantOf(time.Now())
		r.Add(pushed("a", kept))
		other := reg("other", time.Hour)
		other.Spec.Dialect = &job.Dialect{Name: "another", Data: "no JSON"}
		r.Add(other)
		r.Add(reg("own", time.Hour))
		r.Pass(time.Second)
		r.RunOne(job.OutcomeDelivered, 0)
		const jobs = `SELECT concat_ws('|', id, bizkey, topic, subtopic, delay, create_time, body, status, ttl) FROM mykit_delay_queue_job ORDER BY id`
		equal(t, "the job", r.Query(jobs), []string{"a|8812|t|vip|1000|1767258000000|täxt|3|12"})
		const flow = `SELECT concat_ws('|', id, status, host) FROM mykit_delay_queue_job_log ORDER BY update_time, status`
		equal(t, "its life", r.Query(flow), []string{"a|0|host", "a|2|host", "a|3|host"})
		equal(t, "carried by", r.Query(`SELECT thread FROM mykit_delay_queue_job_log WHERE status = 2`), []string{"carrier"})
		r.Change("a", replay)
		r.Change("a", cancel)
		again := pushed("a", `{"id":"a b","ttl":0,"delay":0,"create_time":1}`)
		again.Spec.Body = []byte{0xff, 0}
		r.Add(again)
		equal(t, "registered again", r.Count(`SELECT count(*) FROM mykit_delay_queue_job`), "1")
		equal(t, "by the id of the client", r.Query(`SELECT concat_ws('|', id, status, ttl, bizkey) FROM mykit_delay_queue_job`), []string{"a b|1|0"})
		equal(t, "its life", r.Query(`SELECT status FROM mykit_delay_queue_job_log WHERE id = 'a' ORDER BY status`), []string{"0", "2", "3", "4", "5"})
		r.swapRows("a")
		equal(t, "registered again, if nodes wrote that in another order", r.Query(`SELECT id FROM mykit_delay_queue_job`), []string{"a b"})
		equal(t, "rows that changed before", len(r.Query(fmt.Sprintf(`SELECT id FROM mykit_delay_queue_job_log WHERE update_time < '%s'`, began.Time().Add(-time.Hour).Format(time.DateTime)))), 0)
	})(t)
}

// swapRows gives the first two registrations of a job the numbers that they had if nodes had
// written them in the other order.
func (r *rig) swapRows(id string) {
	r.T.Helper()
	seqs := r.Query(`SELECT seq FROM message WHERE id = '` + id + `' ORDER BY seq`)
	for _, table := range []string{"message SET seq", "payload SET seq", "flow SET message"} {
		column := strings.Fields(table)[2]
		for _, change := range [][2]string{{seqs[0], "0"}, {seqs[1], seqs[0]}, {"0", seqs[1]}} {
			noError(r.T, table, r.Exec(r.T.Context(), "UPDATE "+table+" = "+change[1]+" WHERE "+column+" = "+change[0]))
		}
	}
}

// Nodes may write the registrations of a key in any order, as after an outage.
func TestLastRegistrationByTheStoresOrder(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		second := r.Add(reg("a", time.Second))
		r.Pass(time.Second)
		r.RunOne(job.OutcomeDelivered, 0)
		r.swapRows("a")
		last, err := r.LastOf(t.Context(), key("a"))
		noError(t, "LastOf", err)
		equal(t, "the last registration", last.Job.UID, second.UID)
	})(t)
}

// A store may have lost what its clock made later than it is now.
func TestLastRegistrationAfterTheClockWentBack(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		noError(t, "Flush", r.Flush())
		noError(t, "go back", r.Exec(t.Context(), "UPDATE message SET place = place + 3600000"))
		l.flush(t)
		equal(t, "the last registration", r.Add(replacing("a", time.Hour)).UID, r.last("a").Job.UID)
	})(t)
}

// Another node claims a registration, and writes it before the one that knows which job it follows.
func TestRaceLastRegistrationIsClaimedBeforeItIsWritten(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r, l := wholeRig(t, b)
		other := r.peer(l)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		noError(t, "Flush", r.Flush())
		noError(t, "have the clock go back", r.Exec(t.Context(), "UPDATE message SET place = place + 3600000"))
		resume := r.Pause()
		added := make(chan job.Job)
		go func() { added <- r.Add(replacing("a", 0)) }()
		synctest.Wait() // until it waits for the commit
		claimed := other.TakeOne().Job
		noError(t, "Flush", other.Flush())
		resume()
		equal(t, "uid", (<-added).UID, claimed.UID)
		equal(t, "the last registration", r.last("a").Job.UID, claimed.UID)
		r.reconcile()
		r.agree()
	})(t)
}
