package ledger

import (
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// intake is one registration on its way. It is no part of what the caller gets,
// who may have changed that when the last of it is written.
type intake struct {
	reg     store.Registration
	result  store.Registered
	old     *job.Job // who holds the key, if anybody
	inDoubt string   // uid of an earlier registration without a known outcome
	// replaces an unfinished job: only the store can tell whether it may.
	replaces bool

	// asks: the store knows nothing of the key, and may have lost the job that the
	// client repeats after that had ended.
	asks job.Instant // if it ended since then; zero: it does not ask

	message   journal.Message
	insertion *insertion       // of that, once it is on its way
	holder    *journal.Message // who has the key, if that is somebody else after all
	ended     *journal.Message // what old came to, of which the journal may not know yet
}

// meets decides what becomes of the registration, as the store has old.
func (in *intake) meets(old *job.Job) {
	in.result = store.Registered{Outcome: in.reg.Against(old), Job: *old}
	in.old, in.replaces = old, !old.State.Final()
}

// prepare makes what is committed before the store hears of the registration.
func (in *intake) prepare(now job.Instant) {
	j := in.reg.Job(now.Add(headStart))
	j.CreatedAt = now
	in.message = journal.NewMessage(j, now)
	in.message.Unconfirmed = true
	in.insertion = &insertion{
		Insertion: journal.Insertion{Message: &in.message, At: now}, over: in.over(), asks: in.asks,
	}
	in.overEnded()
}

// accept adds that.
func (in *intake) accept(g *group) {
	if in.ended != nil {
		g.ended(in.ended)
	}
	g.insert(in.insertion)
}

// overEnded notes what the job came to that a registration follows: the node
// that knows may not have journalled it yet.
func (in *intake) overEnded() {
	if in.old != nil {
		m := journal.NewMessage(*in.old, in.old.EndedAt)
		in.ended = &m
	}
}

// over names the messages that a registration may take the place of.
func (in *intake) over() []predecessor {
	jobs := []predecessor{{in.inDoubt, 1}} // nothing happened to it
	if in.old != nil {
		jobs = append(jobs, predecessor{in.old.UID, in.old.Version})
	}
	return jobs
}

// after names the registrations of the key that are known to have been in the
// store before this one.
func (in *intake) after() (uids []string) {
	if in.insertion != nil {
		uids = slices.Clip(in.insertion.after)
	}
	if in.old != nil {
		uids = append(uids, in.old.UID)
	}
	return uids
}

// answered makes what confirm needs, now that the store has answered. contested:
// another node may open again what had ended, and until this registration is
// confirmed the journal would have that in its place.
func (in *intake) answered(now job.Instant) (contested bool) {
	switch outcome := in.result.Outcome; {
	case in.replaces && outcome == store.Created:
		in.message = journal.NewMessage(in.result.Job, now)
	case in.replaces:
	case outcome.Held():
		m := journal.NewMessage(in.result.Job, now)
		in.holder = &m
	case outcome.Refused() && in.old != nil && in.old.State == job.Dead: // it had given way
		m := journal.NewMessage(*in.old, now)
		in.holder = &m
	}
	return len(in.after()) > 0
}

// confirm writes what the store made of the registration.
func (in *intake) confirm(g *group, now job.Instant) {
	in.settleDoubt(g, now)
	switch created := in.result.Outcome == store.Created; {
	case created && in.replaces:
		g.Replace(in.reg.Key, in.old, now)
		g.taken(&in.message, in.old)
	case created:
		g.took(&in.result.Job, now, in.after())
	case !in.replaces: // another process was faster
		g.Drop(in.insertion.Of)
		switch {
		case in.holder == nil:
		case in.result.Outcome.Refused():
			g.rewritten(in.holder)
		default:
			g.showed(in.holder)
		}
	}
}

// settleDoubt withdraws an earlier registration in doubt, now that the store has
// answered for its key.
func (in *intake) settleDoubt(g *group, now job.Instant) {
	if in.inDoubt != "" && in.inDoubt != in.result.Job.UID {
		g.withdraw(in.reg.Key, in.inDoubt, now)
	}
}
