package journal

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Sharing has the steps that differ if several nodes share the store and the journal. Package
// ledger implements it; alone is a process with a store of its own.
type Sharing interface {
	// New returns steps for some of the registrations of a call.
	New(regs []store.Registration, which []int) []Steps
	// Again returns the steps for the next try of registrations that the journal refused. It
	// returns an error after the last try.
	Again(ctx context.Context, refused []Steps, try int) ([]Steps, error)
	// Waits reports whether a call waits for room in the journal. accepting: the call
	// came from a client.
	Waits(accepting bool) bool
	// Owe queues a change that the store has made. The caller does not wait for it.
	Owe(c *Call, w Write)
	// Checked leaves out claims of jobs whose version in the journal is newer.
	Checked(ctx context.Context, claims []store.Claimed) []store.Claimed
	// Current returns an error if the journal has a newer version of a job.
	Current(ctx context.Context, j *job.Job) error
	// Journaled returns when the journal has the end of a job that another call ended.
	Journaled(ctx context.Context, c *Call, ended *job.Job) error
	// Kept checks that the store still has a committed change, and restores it if not.
	Kept(ctx context.Context, c *Call, changed *job.Job, written *Change) error
	// Followed adds a job that the store registered in one step with the outcome of another.
	// old is the job whose place it took, or nil.
	Followed(g *Group, m *Message, old *job.Job)
	// Without reports whether the store continues without the journal after err. It is
	// false if err is nil.
	Without(err error) bool
	// AcceptedWithout counts registrations that were answered without the journal.
	AcceptedWithout(jobs int)
}

// Steps make the rows of a registration. Each embeds an Intake.
type Steps interface {
	intake() *Intake
	// Prepare makes the rows that are committed before the store gets the registration.
	Prepare(now job.Instant)
	// Accept adds the rows of Prepare.
	Accept(g *Group)
	// Answered makes the rows that are committed after the store answered. write: there
	// are any. wait: the client is answered after the commit.
	Answered(now job.Instant) (write, wait bool)
	// Confirm adds the rows of Answered.
	Confirm(g *Group, now job.Instant)
	// Adopt writes Old, because the answer of an earlier registration was lost.
	Adopt(g *Group, now job.Instant)
}
