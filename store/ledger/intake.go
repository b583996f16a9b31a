package ledger

import (
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// headStart delays a job that is restored before the store's times for it are committed.
// Until then, the journal has a due time from before the first commit, and a job must
// never be early.
const headStart = 2 * time.Second

// intake is a registration in progress. It shares nothing with the caller's result, which
// the caller may change before the last rows are written.
type intake struct {
	journal.Intake

	// asks: the client may repeat a job that ended at this time or later and that the
	// store has lost. Zero: it does not. lost is the seq of that job, or zero.
	asks job.Instant
	lost int64

	before []string         // uids of registrations in the store before this one was journaled
	holder *journal.Message // of another job that has the key
	ended  *journal.Message // the end of Old, which the journal may not have yet
}

// Prepare makes an unconfirmed message: the store decides the times.
func (in *intake) Prepare(now job.Instant) {
	j := in.Reg.Job(now.Add(headStart))
	j.CreatedAt = now
	in.Message = journal.NewMessage(j, now)
	in.Message.Confirmed = journal.Unconfirmed
	if in.Old != nil {
		in.overEnded()
	}
}

// Accept adds the message, and the end of the previous job.
func (in *intake) Accept(g *journal.Group) {
	rules := g.Rules().(*group)
	if in.ended != nil {
		rules.ended(in.ended)
	}
	rules.insert(in)
}

// overEnded notes how the previous job ended: the node that settled it may not have
// journaled it yet.
func (in *intake) overEnded() {
	m := journal.NewMessage(*in.Old, in.Old.EndedAt)
	in.ended = &m
}

// mayFollow reports whether the registration may replace a message of its key.
func (in *intake) mayFollow(uid string, version uint64) bool {
	return uid == in.InDoubt && version <= 1 || // nothing has changed it
		in.Old != nil && uid == in.Old.UID && version <= in.Old.Version
}

// after names registrations of the key that the store surely had before this one.
func (in *intake) after() (uids []string) {
	if in.Of != nil {
		uids = slices.Clip(in.before)
	}
	if in.Old != nil {
		uids = append(uids, in.Old.UID)
	}
	return uids
}

// Answered waits if the key was registered before: another node may reopen the previous
// job, and the journal would prefer that until this registration is confirmed.
func (in *intake) Answered(now job.Instant) (write, wait bool) {
	if in.Without {
		in.answeredWithout(now)
		return true, false
	}
	switch outcome := in.Result.Outcome; {
	case in.Replaces && outcome == store.Created:
		in.Message = journal.NewMessage(in.Result.Job, now)
	case in.Replaces:
	case outcome.Held():
		m := journal.NewMessage(in.Result.Job, now)
		in.holder = &m
	case outcome.Refused() && in.Old != nil && in.Old.State == job.Dead: // it had given way
		m := journal.NewMessage(*in.Old, now)
		in.holder = &m
	}
	return true, len(in.after()) > 0
}

// answeredWithout is Answered for a registration that the journal does not have.
func (in *intake) answeredWithout(now job.Instant) {
	if in.Result.Outcome.Refused() {
		return
	}
	in.Message = journal.NewMessage(in.Result.Job, now)
	if in.Old != nil && in.Old.State.Final() {
		in.overEnded()
	}
}

// Confirm writes the store's result.
func (in *intake) Confirm(g *journal.Group, now job.Instant) {
	rules := g.Rules().(*group)
	in.settleDoubt(rules, now)
	if in.Without {
		in.confirmWithout(rules, now)
		return
	}
	switch created := in.Result.Outcome == store.Created; {
	case created && in.Replaces:
		g.Replace(in.Reg.Key, in.Old, now)
		rules.taken(&in.Message, in.Old)
	case created:
		rules.took(&in.Result.Job, now, in.after())
	case !in.Replaces: // another node was faster
		g.Drop(in.Of)
		switch {
		case in.holder == nil:
		case in.Result.Outcome.Refused():
			rules.rewritten(in.holder)
		default:
			rules.showed(in.holder)
		}
	}
}

// confirmWithout writes the store's result over whatever the journal has.
func (in *intake) confirmWithout(rules *group, now job.Instant) {
	if in.Result.Outcome.Refused() {
		return
	}
	if in.Result.Outcome.Held() { // another node was faster
		rules.held(&in.Message)
		return
	}
	if in.ended != nil {
		rules.ended(in.ended)
	}
	if in.Old != nil && (!in.Old.State.Final() || in.Old.State == job.Dead) {
		rules.Replace(in.Reg.Key, in.Old, now)
	}
	rules.taken(&in.Message, in.Old)
}

// Adopt writes the store's version of the job. Another node may have written later
// changes.
func (in *intake) Adopt(g *journal.Group, now job.Instant) {
	rules := g.Rules().(*group)
	in.settleDoubt(rules, now)
	if in.Without {
		rules.held(&in.Message)
		return
	}
	rules.rewritten(&in.Message).holds = true
}

// settleDoubt withdraws an earlier registration in doubt after the store answered for its
// key.
func (in *intake) settleDoubt(g *group, now job.Instant) {
	if in.InDoubt != "" && in.InDoubt != in.Result.Job.UID {
		g.withdraw(in.Reg.Key, in.InDoubt, now)
	}
}
