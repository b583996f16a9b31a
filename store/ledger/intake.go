package ledger

import (
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// headStart delays a job that is restored before the store's times for it are committed.
// Until then, the ledger has a due time from before the first commit, and a job must
// never be early.
const headStart = 2 * time.Second

// intake is a registration in progress. It shares nothing with the caller's result, which
// the caller may change before the last rows are written.
type intake struct {
	reg     store.Registration
	result  store.Registered
	old     *job.Job // has the key; nil: the key is free
	inDoubt string   // uid of an earlier registration without a known outcome
	// replaces: old is unfinished, so only the store can decide.
	replaces bool
	message  message
	// of is message in the ledger, which gets it before the store. Nil: the store gets it
	// first.
	of      *target
	refused bool // set by resolve: message is not added
	// again: a renewal with the same uid was faster. Its job is that of this registration.
	again bool

	// asks: the client may repeat a job that ended at this time or later and that the
	// store has lost. Zero: it does not. lost is the seq of that job, or zero.
	asks job.Instant
	lost int64

	before []string // uids of registrations in the store before this one was written
	holder *message // of another job that has the key
	ended  *message // the end of old, which the ledger may not have yet
}

// meet decides the outcome if old has the key.
func (in *intake) meet(old job.Job) {
	in.result = store.Registered{Outcome: rules.Against(&in.reg, &old), Job: old}
	in.old, in.replaces = &old, !old.State.Final()
}

// prepare makes an unconfirmed message, which is committed before the store gets the
// registration: the store decides the times.
func (in *intake) prepare(now job.Instant) {
	j := in.reg.Job(now.Add(headStart))
	j.CreatedAt, j.UpdatedAt = now, now
	in.message = newMessage(j, now)
	in.message.confirmed = unconfirmed
	if in.old != nil { // the node that settled it may not have written its end yet
		m := newMessage(*in.old, in.old.EndedAt)
		in.ended = &m
	}
}

// accept adds the message, and the end of the previous job, unless the ledger has that.
func (in *intake) accept(g *group) {
	if in.ended != nil {
		g.showed(in.ended).settled = true
	}
	g.insert(in)
}

// mayFollow reports whether the registration may replace a message of its key.
func (in *intake) mayFollow(uid string, version uint64) bool {
	return uid == in.inDoubt && version <= 1 || // nothing has changed it
		in.old != nil && uid == in.old.UID && version <= in.old.Version
}

// after names registrations of the key that the store surely had before this one.
func (in *intake) after() (uids []string) {
	if in.of != nil {
		uids = slices.Clip(in.before)
	}
	if in.old != nil {
		uids = append(uids, in.old.UID)
	}
	return uids
}

// answered makes the rows that are committed after the store answered. wait: the client is
// answered after the commit, because the ledger differs from the answer, or because the key
// was registered before: another node may reopen the previous job, and the ledger would
// prefer that until this registration is confirmed.
func (in *intake) answered(now job.Instant) (wait bool) {
	outcome := in.result.Outcome
	switch {
	case in.replaces && outcome == store.Created:
		in.message = newMessage(in.result.Job, now)
	case in.replaces:
	case outcome.Held():
		m := newMessage(in.result.Job, now)
		in.holder = &m
	case outcome.Refused() && in.old != nil && in.old.State == job.Dead: // it had given way
		m := newMessage(*in.old, now)
		in.holder = &m
	}
	return len(in.after()) > 0 || in.replaces == (outcome == store.Created)
}

// confirm writes the store's result.
func (in *intake) confirm(g *group, now job.Instant) {
	in.settleDoubt(g, now)
	switch created := in.result.Outcome == store.Created; {
	case created && in.replaces:
		g.replace(in.old, now)
		g.taken(&in.message, in.old)
	case created:
		g.took(&in.result.Job, now, in.after())
	case !in.replaces: // another node was faster
		g.drops = append(g.drops, in.of)
		switch {
		case in.holder == nil:
		case in.result.Outcome.Refused():
			g.rewritten(in.holder)
		default:
			g.showed(in.holder)
		}
	}
}

// adopt writes the store's version of the job. Another node may have written later
// changes.
func (in *intake) adopt(g *group, now job.Instant) {
	in.settleDoubt(g, now)
	g.rewritten(&in.message).holds = true
}

// settleDoubt withdraws an earlier registration in doubt after the store answered for its
// key.
func (in *intake) settleDoubt(g *group, now job.Instant) {
	if in.inDoubt != "" && in.inDoubt != in.result.Job.UID {
		g.withdraw(in.reg.Key, in.inDoubt, now)
	}
}
