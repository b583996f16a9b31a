package journal

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// alone is the Sharing of a process with a store of its own.
type alone struct{}

// New allocates all steps at once.
func (alone) New(regs []store.Registration, which []int) []Steps {
	all, list := make([]steps, len(which)), make([]Steps, len(which))
	for i, n := range which {
		all[i].Reg, list[i] = regs[n], &all[i]
	}
	return list
}

// Again is not called: the journal refuses no registration.
func (alone) Again(_ context.Context, refused []Steps, _ int) ([]Steps, error) { return refused, nil }

func (alone) Waits(bool) bool                                                { return true }
func (alone) Owe(c *Call, w Write)                                           { c.Enqueue(w) }
func (alone) Checked(_ context.Context, all []store.Claimed) []store.Claimed { return all }
func (alone) Current(context.Context, *job.Job) error                        { return nil }
func (alone) Journaled(ctx context.Context, c *Call, _ *job.Job) error       { return c.j.writeApplied(ctx) }
func (alone) Kept(context.Context, *Call, *job.Job, *Change) error           { return nil }
func (alone) Followed(g *Group, m *Message, _ *job.Job)                      { g.PutNew(m) }
func (alone) Without(error) bool                                             { return false }
func (alone) AcceptedWithout(int)                                            {}

// steps are those of a process with a store of its own. The store accepts a registration
// with its committed times.
type steps struct{ Intake }

// Prepare makes the job as the store will.
func (in *steps) Prepare(now job.Instant) {
	in.Reg.At = now
	var j job.Job
	if in.Old == nil {
		j = in.Reg.Job(now)
	} else {
		j = in.Reg.Over(in.Old, now)
		j.Token = in.Old.Token
	}
	in.Message = NewMessage(j, now)
}

// Accept adds the job in the place of others of its key.
func (in *steps) Accept(g *Group) {
	if in.InDoubt != "" {
		g.replaceUID(in.Reg.Key, in.InDoubt, in.Message.At)
	}
	if in.Old != nil && in.Old.State == job.Dead {
		g.Replace(in.Reg.Key, in.Old, in.Message.At)
	}
	g.Insert(&in.Intake)
}

// asExpected reports whether the store's job is the committed one.
func (in *steps) asExpected() bool {
	if in.Of == nil || in.Result.Outcome != store.Created {
		return false
	}
	want, got := &in.Message.Job, &in.Result.Job
	return got.CreatedAt == want.CreatedAt && got.DueAt == want.DueAt && got.ExpiresAt == want.ExpiresAt &&
		got.NextAt == want.NextAt && got.Token == want.Token && got.Version == want.Version
}

// Answered has nothing to write if the store's job is the committed one.
func (in *steps) Answered(now job.Instant) (write, wait bool) {
	if in.asExpected() {
		return false, false
	}
	switch {
	case in.Result.Outcome == store.Created:
		in.Message = NewMessage(in.Result.Job, now)
	case !in.Replaces && in.Old != nil: // it had given way
		in.Message = NewMessage(*in.Old, now)
	}
	return true, false
}

// Confirm writes the store's job.
func (in *steps) Confirm(g *Group, now job.Instant) {
	switch created := in.Result.Outcome == store.Created; {
	case created && in.Replaces:
		g.Replace(in.Reg.Key, in.Old, now)
		g.PutNew(&in.Message)
	case created:
		g.Restored(&Record{Message: in.Message})
	case !in.Replaces:
		g.Drop(in.Of)
		if in.Old != nil && in.Old.State == job.Dead {
			g.Restored(&Record{Message: in.Message})
		}
	}
}

// Adopt writes the job as the store has it.
func (in *steps) Adopt(g *Group, now job.Instant) {
	if in.InDoubt != in.Old.UID {
		g.replaceUID(in.Reg.Key, in.InDoubt, now)
	}
	g.Restored(&Record{Message: in.Message})
}

// inOrder are the rules of a store of one process: changes are added in the order in which
// they happened.
type inOrder struct{ *Group }

// Resolve drops changes that an earlier commit without an answer has written. It closes the
// other open messages of a key: a registration without an answer, or an unreadable one.
func (r inOrder) Resolve(rows map[int][]*Entry) {
	for i, c := range r.Changes {
		if own := PickOwn(rows[i], c.UID); own != nil {
			c.Seq, c.UID = own.Seq, own.UID
			if r.counted && c.Put != nil && !c.Force && own.Version >= c.Put.Job.Version {
				c.Put = nil
			}
		}
		switch {
		case c.Replaced != 0:
		case c.Put != nil:
			r.endOthers(rows[i], c.UID, c.Put.At)
		case c.Adopt != nil && c.Seq == 0:
			r.endOthers(rows[i], c.UID, c.Adopted)
		}
	}
	for i, in := range r.Inserts {
		r.endOthers(rows[len(r.Changes)+i], in.Of.UID, in.Message.At)
	}
}

func (r inOrder) endOthers(rows []*Entry, uid string, at job.Instant) {
	for _, f := range rows {
		if f.Open && f.UID != uid {
			r.End(f.Seq, at, Superseded)
		}
	}
}
