package ledger

import (
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// intake is one registration on its way. It is no part of what the caller gets,
// who may have changed that when the last of it is written.
type intake struct {
	reg    store.Registration
	result store.Registered
	old    *job.Job // who holds the key, if anybody
	unsure string   // uid of an earlier registration that got no answer from the store
	// replaces an unfinished job: only the store can tell whether it may.
	replaces bool

	// asks: the store knows nothing of the key, and may have lost the job that the
	// client repeats after that had ended.
	asks job.Instant // if it ended since then; zero: it does not ask

	message   message
	insertion *insertion // of that, once it is on its way
	holder    *message   // who has the key, if that is somebody else after all
	ended     *message   // what old came to, of which the journal may not know yet
}

// meets decides what becomes of the registration, as the store has old.
func (in *intake) meets(old *job.Job) {
	in.result = store.Registered{Outcome: in.reg.Against(old), Job: *old}
	in.old, in.replaces = old, !old.State.Final()
}

// prepare makes what is committed before the store hears of the registration.
func (in *intake) prepare(shared bool, now job.Instant) {
	in.message = newMessage(in.expected(shared, now), now)
	in.message.unconfirmed = shared
	in.insertion = &insertion{message: &in.message, at: now, over: in.over(), asks: in.asks}
	in.overEnded(shared)
}

// expected is the job that the store will make of the registration: one of this
// process makes it as of now, and a shared one as of some time soon.
func (in *intake) expected(shared bool, now job.Instant) job.Job {
	if shared {
		j := in.reg.Job(now.Add(headStart))
		j.CreatedAt = now
		return j
	}
	in.reg.At = now
	if in.old == nil {
		return in.reg.Job(now)
	}
	j := in.reg.Over(in.old, now)
	j.Token = in.old.Token
	return j
}

// asExpected reports whether the store made of the registration what is
// committed already.
func (in *intake) asExpected() bool {
	if in.insertion == nil || in.message.unconfirmed || in.result.Outcome != store.Created {
		return false
	}
	want, got := &in.message.job, &in.result.Job
	return got.CreatedAt == want.CreatedAt && got.DueAt == want.DueAt && got.ExpiresAt == want.ExpiresAt &&
		got.NextAt == want.NextAt && got.Token == want.Token && got.Version == want.Version
}

// accept adds that.
func (in *intake) accept(g *group) {
	if in.ended != nil {
		g.ended(in.ended)
	}
	// On a shared journal, inserting sees to what has the key.
	if !g.shared && (in.unsure != "" || in.old != nil && in.old.State == job.Dead) {
		g.replace(in.reg.Key, in.old, in.insertion.at)
	}
	g.insert(in.insertion)
}

// overEnded notes what the job came to that a registration follows: the node
// that knows may not have journalled it yet.
func (in *intake) overEnded(shared bool) {
	if shared && in.old != nil {
		m := newMessage(*in.old, in.old.EndedAt)
		in.ended = &m
	}
}

// over names the messages that a registration may take the place of.
func (in *intake) over() []predecessor {
	jobs := []predecessor{{in.unsure, 1}} // nothing happened to it
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
func (in *intake) answered(shared bool, now job.Instant) (contested bool) {
	created := in.result.Outcome == store.Created
	if created && (in.replaces || !shared) {
		in.message = newMessage(in.result.Job, now)
	}
	switch outcome := in.result.Outcome; {
	case in.replaces:
	case shared && outcome.Held():
		m := newMessage(in.result.Job, now)
		in.holder = &m
	case outcome.Refused() && in.old != nil && in.old.State == job.Dead: // it had given way
		m := newMessage(*in.old, now)
		in.holder = &m
	}
	return shared && len(in.after()) > 0
}

// confirm writes what the store made of the registration.
func (in *intake) confirm(g *group, now job.Instant) {
	in.settleUnsure(g, now)
	switch created := in.result.Outcome == store.Created; {
	case created && in.replaces:
		g.replace(in.reg.Key, in.old, now)
		g.taken(&in.message, in.old)
	case created && g.shared:
		g.took(&in.result.Job, now, in.after())
	case created:
		g.restored(&in.message, nil)
	case !in.replaces: // another process was faster
		g.drops = append(g.drops, in.insertion.of)
		switch {
		case in.holder == nil:
		case !g.shared:
			g.restored(in.holder, nil)
		case in.result.Outcome.Refused():
			g.rewritten(in.holder)
		default:
			g.showed(in.holder)
		}
	}
}

// settleUnsure withdraws an earlier registration that got no answer, now that
// the store has answered for its key.
func (in *intake) settleUnsure(g *group, now job.Instant) {
	if g.shared && in.unsure != "" && in.unsure != in.result.Job.UID {
		g.withdraw(in.reg.Key, in.unsure, now)
	}
}
