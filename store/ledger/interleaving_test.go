package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/rules"
)

// The store of these tests is one record, and its clock stands still: that is
// the worst case for telling which registration came later.
const stillNow = job.Instant(1_000_000)

var onlyKey = job.Key{Topic: "t", ID: "a"}

// world is one key in a store, and several nodes that call at a time; each call
// may stop for ever between its steps. Worlds are values: forks share nothing
// that changes.
type world struct {
	job   *job.Job // nil: the store has none
	alive int      // the call that began it, or began it anew; -1: all is known of that
	calls []caller
}

// caller is a call on its way. step does the next thing, in the store or in the
// ledger; more alternatives than one are tried one by one.
type caller interface {
	step(x *explorer, w *world, me, alternative int) (caller, error)
	alternatives() int // zero: it has been answered
	acknowledged() bool
	String() string
}

// explorer runs calls in every order, on the real code that writes the ledger.
type explorer struct {
	t    *testing.T
	s    *Store
	tx   *sql.Tx
	seen map[string]bool
	path []string
}

func newExplorer(t *testing.T) *explorer {
	t.Helper()
	inner, err := diskstore.Open(diskstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{URL: EmptyLedger(t), Store: inner})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.Writer().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = tx.Rollback() // nothing is to be kept
		_ = s.Close()
	})
	return &explorer{t: t, s: s, tx: tx, seen: map[string]bool{}}
}

// commit writes a group, as the committer of some node does.
func (x *explorer) commit(add func(g *group)) error {
	ctx := context.Background()
	g := newGroup(map[string]string{}, "host")
	if err := x.tx.QueryRowContext(ctx, "SELECT 1 + coalesce(max(seq), 0) FROM message").Scan(&g.nextSeq); err != nil {
		return err
	}
	add(g)
	return g.write(ctx, x.tx, x.s.st)
}

func (x *explorer) exec(text string) {
	x.t.Helper()
	if _, err := x.tx.ExecContext(context.Background(), text); err != nil {
		x.t.Fatalf("%s: %v", text, err)
	}
}

// explore takes every next step from here, and what follows.
func (x *explorer) explore(w *world) {
	x.t.Helper()
	entries := x.entries()
	state := fmt.Sprint(describe(w.job), w.alive, w.calls, entries)
	if x.seen[state] {
		return
	}
	x.seen[state] = true
	x.check(w, entries)
	for i, c := range w.calls {
		for n := range c.alternatives() {
			next := &world{job: w.job, alive: w.alive, calls: slices.Clone(w.calls)}
			x.exec("SAVEPOINT s")
			x.path = append(x.path, fmt.Sprintf("%d:%v/%d", i, c, n))
			moved, err := c.step(x, next, i, n)
			if err != nil {
				x.fail("%v", err)
			}
			next.calls[i] = moved
			x.explore(next)
			x.path = x.path[:len(x.path)-1]
			x.exec("ROLLBACK TO s")
			x.exec("RELEASE s")
		}
	}
}

func (x *explorer) fail(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf("after\n  %s\n%s", strings.Join(x.path, "\n  "), fmt.Sprintf(format, args...))
}

func (x *explorer) entries() []entry {
	x.t.Helper()
	var all []entry
	err := each(context.Background(), x.tx, "SELECT "+entryColumns+" FROM message m ORDER BY m.seq", nil, func(rows *sql.Rows) error {
		var e entry
		err := e.scan(rows.Scan)
		all = append(all, e)
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return all
}

func describe(j *job.Job) string {
	if j == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s@%d %v token %d created %d due %d", j.UID, j.Version, j.State, j.Token, j.CreatedAt, j.DueAt)
}

// check holds the ledger against the store: what must be true at any time, with
// any of the calls stopped for ever, and what must be when all were answered.
func (x *explorer) check(w *world, entries []entry) {
	x.t.Helper()
	var own, open *entry
	for i := range entries {
		e := &entries[i]
		if e.open && open != nil {
			x.fail("two messages may be restored: %+v", entries)
		}
		if e.open {
			open = e
		}
		if w.job != nil && e.uid == w.job.UID {
			own = e
		}
	}
	live := w.job != nil && (!w.job.State.Final() || w.job.State == job.Dead)
	if live && (w.alive < 0 || w.calls[w.alive].acknowledged()) && (open == nil || open.uid != w.job.UID) {
		x.fail("an acknowledged job would be lost with the store: it has %s, the ledger %+v", describe(w.job), entries)
	}
	if live && w.job.State != job.Dead && own != nil {
		x.checkClaim(w, own, open)
	}
	for _, c := range w.calls {
		if c.alternatives() > 0 {
			return
		}
	}
	switch {
	case !live && open != nil && !(w.job != nil && own == open && w.job.State == job.Dead):
		x.fail("the store has %s, and the ledger would restore %+v", describe(w.job), *open)
	case live && (open == nil || open != own):
		x.fail("the store has %s, and the ledger %+v", describe(w.job), entries)
	case w.job != nil && (own == nil || own.state != w.job.State || own.version != w.job.Version ||
		own.token != w.job.Token || own.created != w.job.CreatedAt || own.replaced):
		x.fail("the store has %s, and the ledger has it as %+v", describe(w.job), own)
	}
}

// checkClaim fails the test if a claim, or a change by a client, would take the
// job for one that the ledger has further, and undo it.
func (x *explorer) checkClaim(w *world, own, open *entry) {
	x.t.Helper()
	standing := store.StandingOf(w.job)
	rows := []*entry{own}
	if open != nil && open != own {
		rows = append(rows, open)
	}
	if d := compare(onlyKey, standing, rows).difference; d == FinishedInLedger || d == BehindInStore {
		x.fail("%s is taken for %s: %+v, %+v", describe(w.job), d, own, open)
	}
}

// registration is a call of Register.
type registration struct {
	name  string
	reg   store.Registration
	at    string // the step that comes; empty: it was answered
	in    *intake
	acked bool
	again string // the uid that the client's second try gets
}

func registerCall(uid string, policy job.OnConflict) registration {
	return registration{
		name: "register " + uid, at: "judge",
		reg: store.Registration{
			Key: onlyKey, UID: uid, OnConflict: policy,
			Spec: job.Spec{Destination: "http://a.example", Body: []byte(uid), BodyForm: job.BodyText},
		},
	}
}

func (r registration) acknowledged() bool { return r.acked }

// The store's answer may be lost if the client comes back for it.
func (r registration) alternatives() int {
	if r.at == "store" && r.again != "" {
		return 3
	}
	return alternatives(r.at)
}

func alternatives(at string) int {
	if at == "" {
		return 0
	}
	return 1
}

func (r registration) String() string {
	s := fmt.Sprintf("%s, %s", r.name, r.at)
	if r.at == "" || r.in == nil {
		return s
	}
	var known []string
	for _, e := range r.in.rows {
		known = append(known, e.uid)
	}
	return s + fmt.Sprint(" over ", r.in.old, known, r.in.result.Outcome, describe(&r.in.result.Job))
}

func (r registration) step(x *explorer, w *world, me, alternative int) (caller, error) {
	if r.in != nil { // it is shared with other orders
		in := *r.in
		r.in = &in
	}
	var err error
	switch r.at {
	case "judge":
		r.judge(w)
	case "compare":
		err = r.compare(x)
	case "catch up":
		err = r.catchUp(x, w)
	case "store":
		if alternative != 2 { // the call gets there
			r.store(w, me)
		}
		if alternative != 0 {
			r.reg.UID, r.at, r.again = r.again, "judge", ""
		}
	case "write":
		r.at, r.acked = "", true
		r.in.message = newMessage(r.in.result.Job, stillNow)
		err = x.commit(r.in.write)
	}
	return r, err
}

func (r *registration) judge(w *world) {
	r.in, r.at = &intake{look: look{key: onlyKey}}, "compare"
	if w.job != nil {
		r.in.old = store.StandingOf(w.job)
	}
}

// compare judges again if the store is behind. It loses nothing in these tests, so it catches up.
func (r *registration) compare(x *explorer) error {
	rows, err := x.lookUp(r.in.old.UID)
	r.in.rows = rows
	switch ahead, _, late := r.in.compare(); {
	case ahead != nil:
		r.at = "judge"
	case late:
		r.at = "catch up"
	default:
		r.at = "store"
	}
	return err
}

func (r *registration) catchUp(x *explorer, w *world) error {
	if r.at = "store"; w.job == nil || !r.in.old.Of(w.job) {
		return nil
	}
	m := newMessage(*w.job, stillNow)
	return x.commit(func(g *group) { g.rewritten(&m) })
}

func (x *explorer) lookUp(uid string) ([]*entry, error) {
	found, err := x.s.st.lookup.find(context.Background(), x.tx, []any{int64(0), onlyKey.Topic, onlyKey.ID, uid})
	return found[0], err
}

func (r *registration) store(w *world, me int) {
	j := r.reg.Job(stillNow)
	r.in.result = store.Registered{Outcome: store.Created}
	if w.job != nil {
		r.in.result = store.Registered{Outcome: rules.Against(&r.reg, w.job), Job: *w.job}
		j = r.reg.Over(w.job, stillNow)
		j.Token = w.job.Token
	}
	if r.in.result.Outcome == store.Created {
		w.job, w.alive, r.in.result.Job = &j, me, j
	}
	if r.at = "write"; !r.in.writes() {
		r.at, r.acked = "", r.in.result.Outcome == store.Same
	}
}

// update is a call of Update.
type update struct {
	name   string
	change func(*job.Job, job.Instant) error
	at     string
	from   job.State
	result job.Job
	seen   job.Job
	tries  int
	acked  bool
}

func updating(name string, change func(*job.Job, job.Instant) error) update {
	return update{name: name, change: change, at: "store"}
}

func (u update) acknowledged() bool { return u.acked }
func (u update) alternatives() int  { return alternatives(u.at) }

func (u update) String() string {
	if u.at == "" {
		return u.name
	}
	return fmt.Sprintf("%s, %s %d %s, then %s", u.name, u.at, u.tries, describe(&u.result), describe(&u.seen))
}

func (u update) step(x *explorer, w *world, me, _ int) (caller, error) {
	var err error
	switch u.at {
	case "store":
		u.store(w, me)
	case "write":
		err = u.write(x, &u.result, func(g *group, m *message) *change { return g.updated(m, u.from, "") })
	case "look":
		u.look(w)
	case "rewrite":
		err = u.write(x, &u.seen, (*group).rewritten)
	}
	return u, err
}

func (u *update) store(w *world, me int) {
	if u.at = ""; w.job == nil {
		return
	}
	j := *w.job
	if u.change(&j, stillNow) != nil {
		return
	}
	j.Version++
	u.at, u.from, u.result = "write", w.job.State, j
	if u.from.Final() {
		w.alive = me
	}
	w.job = &j
}

func (u *update) write(x *explorer, j *job.Job, add func(*group, *message) *change) error {
	m := newMessage(*j, stillNow)
	var written *change
	err := x.commit(func(g *group) { written = add(g, &m) })
	u.at, u.acked = "", true
	if err == nil && written.overtaken {
		u.at, u.acked = "look", false
	}
	return err
}

func (u *update) look(w *world) {
	u.at = ""
	switch u.tries++; {
	case w.job == nil || w.job.UID != u.result.UID:
		u.acked = true
	case u.tries <= updateTries && stillHas(w.job, &u.result):
		u.seen, u.at = *w.job, "rewrite"
	}
}

// run is a worker that claims the job and settles it.
type run struct {
	to      job.State
	at      string
	claimed store.Claimed
	settled store.Settled
}

func running(to job.State) run { return run{to: to, at: "claim"} }

func (r run) acknowledged() bool { return false }

// A claim need not be in the ledger when the job is settled, and may never be.
func (r run) alternatives() int {
	if r.at == "claimed" || r.at == "settled both" {
		return 2
	}
	return alternatives(r.at)
}

func (r run) String() string {
	if r.at == "" {
		return fmt.Sprint("run to ", r.to)
	}
	return fmt.Sprintf("run to %v, %s %s %d", r.to, r.at, describe(&r.claimed.Job), r.settled.Version)
}

func (r run) step(x *explorer, w *world, _, alternative int) (caller, error) {
	switch {
	case r.at == "claim":
		r.claim(w)
	case r.at == "claimed" && alternative == 0:
		r.at = "written"
		return r, x.commit(r.writeClaim)
	case r.at == "claimed":
		r.settle(w, "settled both")
	case r.at == "written":
		r.settle(w, "settled")
	case r.at == "settled":
		r.at = ""
		return r, x.commit(r.writeSettled)
	default:
		both := r.at == "settled both"
		r.at = ""
		return r, x.commit(func(g *group) {
			if alternative == 0 {
				r.writeClaim(g)
			}
			if both {
				r.writeSettled(g)
			}
		})
	}
	return r, nil
}

func (r *run) claim(w *world) {
	r.at = ""
	if w.job == nil || w.job.State.Final() || w.job.State == job.Running {
		return
	}
	j := *w.job
	r.claimed = store.Claimed{Now: stillNow, From: job.Ready}
	j.State, j.Token, j.Version = job.Running, j.Token+1, j.Version+1
	r.claimed.Job, r.at, w.job = j, "claimed", &j
}

// settle settles in the store, unless the token is not the current one; then
// only the claim may be left to be written.
func (r *run) settle(w *world, next string) {
	if w.job.UID != r.claimed.Job.UID || w.job.Token != r.claimed.Job.Token || w.job.State != job.Running {
		if r.at = ""; next == "settled both" {
			r.at = "stale"
		}
		return
	}
	j := *w.job
	j.Version++
	j.State = r.to
	if j.CancelRequested && !r.to.Final() {
		j.State = job.Cancelled
	}
	if j.State.Final() {
		j.EndedAt = stillNow
	}
	r.settled = store.Settled{
		Status: store.Applied, To: j.State, EndedAt: j.EndedAt, NextAt: j.NextAt, Now: stillNow, UID: j.UID, Version: j.Version,
	}
	r.at, w.job = next, &j
}

func (r *run) writeClaim(g *group) { g.claimed(&r.claimed, "worker") }

func (r *run) writeSettled(g *group) {
	g.settle(&job.Settlement{Key: onlyKey, Token: r.claimed.Job.Token, Claimed: &r.claimed.Job}, &r.settled, nil)
}

// finish makes a call that nobody else's comes between.
func (x *explorer) finish(w *world, c caller) {
	x.t.Helper()
	for c.alternatives() > 0 {
		var err error
		if c, err = c.step(x, w, -1, 0); err != nil {
			x.t.Fatal(err)
		}
	}
}

// orders are calls to be made in every order, after others.
type orders struct {
	name          string
	before, calls []caller
}

func everyThree() []orders {
	replay := updating("replay", func(j *job.Job, now job.Instant) error { return j.Replay(now) })
	cancel := updating("cancel", func(j *job.Job, now job.Instant) error { _, err := j.Cancel(now); return err })
	discard := updating("discard", func(j *job.Job, now job.Instant) error { return j.Discard(now) })
	change := updating("change", func(j *job.Job, _ job.Instant) error {
		s := j.Spec
		s.Body = []byte("changed")
		return j.Respecify(s)
	})
	old := registerCall("old", job.ConflictReject)
	twice := registerCall("twice", job.ConflictReplace)
	twice.again = "again"
	calls := []struct {
		name string
		caller
	}{
		{"new", registerCall("new", job.ConflictReject)},
		{"replace", registerCall("other", job.ConflictReplace)},
		{"replace", registerCall("third", job.ConflictReplace)},
		{"twice", twice},
		{"replay", replay},
		{"cancel", cancel},
		{"discard", discard},
		{"change", change},
		{"deliver", running(job.Delivered)},
		{"fail", running(job.Retrying)},
		{"die", running(job.Dead)},
	}
	var all []orders
	for _, begin := range []orders{
		{name: "nothing"},
		{name: "waiting", before: []caller{old}},
		{name: "delivered", before: []caller{old, running(job.Delivered)}},
		{name: "dead", before: []caller{old, running(job.Dead)}},
	} {
		for a := range calls {
			for b := range a {
				for c := range b {
					all = append(all, orders{
						name:   strings.Join([]string{begin.name, calls[c].name, calls[b].name, calls[a].name}, ","),
						before: begin.before, calls: []caller{calls[c].caller, calls[b].caller, calls[a].caller},
					})
				}
			}
		}
	}
	return all
}

// often are sets of calls that every run tries: an ended job is replayed while its key is registered anew.
var often = []string{
	"delivered,new,replay,fail", "delivered,replace,replay,fail", "dead,new,replay,fail", "dead,replace,replay,fail",
	"delivered,replace,replace,replay", "dead,replace,replace,replay",
}

// Whatever the order in which several nodes change one key in the store and
// write that to the ledger, and wherever they stop: no acknowledged job is lost
// if the store is; nothing is taken for older than it is; and when all calls
// were answered the ledger has what the store has. Some of the sets of three
// calls are tried, and those of often; EVERY_ORDER=all tries all of them, which takes a minute.
func TestEveryOrder(t *testing.T) {
	t.Parallel()
	all := everyThree()
	if os.Getenv("EVERY_ORDER") != "all" {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = append(all[:5], slices.DeleteFunc(all[5:], func(o orders) bool { return !slices.Contains(often, o.name) })...)
	}
	for _, o := range all {
		t.Run(o.name, func(t *testing.T) {
			x := newExplorer(t)
			w := &world{alive: -1}
			for _, c := range o.before {
				x.finish(w, c)
			}
			w.alive, w.calls = -1, o.calls
			x.explore(w)
			t.Log(len(x.seen), "states")
		})
	}
}
