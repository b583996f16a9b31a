package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// rowsPerRegistration is how many rows a registration writes: message, payload, flow,
// and the end of the job that it replaces.
const rowsPerRegistration = 4

// registerTries bounds how often the store is put right before a registration.
const registerTries = 5

// Register writes jobs to the store, and answers once they are committed to the ledger. While
// commits fail it refuses. A job with the key that the store has lost, or has in an older version,
// is put right first: it decides about the registration.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	results := make([]store.Registered, len(regs))
	for _, round := range rules.KeysApart(regs) {
		if err := s.registerRound(ctx, regs, round, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Store) registerRound(ctx context.Context, regs []store.Registration, round []int, results []store.Registered) error {
	keys, intakes := make([]job.Key, len(round)), make([]*intake, len(round))
	for i, n := range round {
		keys[i], intakes[i] = regs[n].Key, &intake{reg: regs[n]}
		if rules.Repeats(&regs[n]) {
			intakes[i].asks = s.keptSince()
		}
	}
	c, err := s.begin(ctx, true, rowsPerRegistration*len(round), keys...)
	if err != nil {
		return err
	}
	defer c.end()
	for try, undecided := 0, intakes; len(undecided) > 0; try++ {
		if try == registerTries {
			return fmt.Errorf("%w: the ledger has a job %s that the store lacks", store.ErrUnavailable, undecided[0].reg.Key)
		}
		if err := s.judge(ctx, undecided); err != nil {
			return err
		}
		if undecided, err = s.compareFirst(ctx, undecided); err != nil {
			return err
		}
	}
	if err := s.takeIn(ctx, c, intakes); err != nil {
		return err
	}
	for i, in := range intakes {
		results[round[i]] = in.result
	}
	return nil
}

// judges is how many registrations are judged at a time: each costs a round trip.
const judges = 16

// judge decides the outcomes of registrations, as far as the store's jobs do.
func (s *Store) judge(ctx context.Context, intakes []*intake) error {
	judging, ctx := errgroup.WithContext(ctx)
	judging.SetLimit(judges)
	for _, in := range intakes {
		judging.Go(func() error {
			old, err := s.inner.Get(ctx, in.reg.Key)
			switch {
			case errors.Is(err, store.ErrNotFound):
				in.old, in.result = nil, store.Registered{Outcome: store.Created}
			case err != nil:
				return err
			default:
				in.meet(old)
			}
			return nil
		})
	}
	return judging.Wait()
}

// compareFirst compares the keys of new jobs with the ledger, and puts the store right. It returns
// the registrations to be judged again. A job that has ended and that the store has lost before its
// time comes back as well if the client seems to repeat its call: the client must get that job, not
// another.
func (s *Store) compareFirst(ctx context.Context, intakes []*intake) (again []*intake, err error) {
	taken := outcomes(intakes, store.Created)
	if len(taken) == 0 {
		return nil, nil
	}
	keys := make([]job.Key, len(taken))
	for i, in := range taken {
		keys[i] = in.reg.Key
	}
	rows, err := s.messagesOf(ctx, keys, func(i int) string { return taken[i].uid() })
	if err != nil {
		return nil, err
	}
	var ahead []finding
	var ended []int64
	for i, in := range taken {
		f, lost := in.look(rows[i])
		switch {
		case f != nil && f.entry.bad != nil:
			return nil, s.cannotRead(f.entry.unreadable())
		case f != nil:
			again, ahead = append(again, in), append(ahead, *f)
		case lost != 0:
			again, ended, in.asks = append(again, in), append(ended, lost), 0
		}
	}
	if len(ahead) > 0 {
		if _, err := s.putAhead(ctx, ahead); err != nil {
			return nil, err
		}
	}
	return again, s.messages(ctx, ended, func(messages []stored, bad []unreadable) error {
		s.reportUnreadable(bad)
		return s.recallEnded(ctx, messages)
	})
}

// outcomes are the registrations with an outcome.
func outcomes(intakes []*intake, is store.RegisterOutcome) []*intake {
	return slices.DeleteFunc(slices.Clone(intakes), func(in *intake) bool { return in.result.Outcome != is })
}

// takeIn registers new jobs in the store, and writes to the ledger what it lacks of jobs that are
// acknowledged.
func (s *Store) takeIn(ctx context.Context, c *call, intakes []*intake) error {
	if err := s.create(ctx, outcomes(intakes, store.Created)); err != nil {
		return err
	}
	taken := outcomes(intakes, store.Created)
	lacking, err := s.unwritten(ctx, outcomes(intakes, store.Same))
	if err != nil || len(taken)+len(lacking) == 0 {
		return err
	}
	if len(taken) == 0 {
		if err := s.writable(ctx); err != nil {
			return err
		}
	}
	w := write{rows: rowsPerRegistration * (len(taken) + len(lacking)), owed: true, add: func(g *group) {
		for _, in := range taken {
			in.created(g)
		}
		for _, in := range lacking { // another node may have written later changes
			g.rewritten(&in.message).holds = true
		}
	}}
	for _, in := range slices.Concat(taken, lacking) {
		in.message = newMessage(in.result.Job, in.result.Job.UpdatedAt)
		w.bytes += in.message.size()
	}
	done := c.submit(w)
	c.free()
	return <-done
}

// create registers new jobs in the store. While commits fail it refuses.
func (s *Store) create(ctx context.Context, taken []*intake) error {
	if len(taken) == 0 {
		return nil
	}
	if err := s.writable(ctx); err != nil {
		return err
	}
	regs := make([]store.Registration, len(taken))
	for i, in := range taken {
		regs[i] = in.reg
	}
	results, err := s.inner.Register(ctx, regs)
	if err != nil {
		return err
	}
	for i, in := range taken {
		in.result = results[i]
	}
	return nil
}

// unwritten returns the registrations whose job the ledger lacks. The first answer was lost, and
// this one acknowledges the job: its node may have died before the ledger had it.
func (s *Store) unwritten(ctx context.Context, same []*intake) (lacking []*intake, err error) {
	if len(same) == 0 {
		return nil, nil
	}
	keys, standings := make([]job.Key, len(same)), make([]store.Standing, len(same))
	for i, in := range same {
		keys[i], standings[i] = in.reg.Key, store.StandingOf(&in.result.Job)
	}
	own, _, err := s.entries(ctx, keys, standings)
	for i, in := range same {
		if err == nil && own[i] == nil {
			lacking = append(lacking, in)
		}
	}
	return lacking, err
}

// clockSlack is by how much the clocks of this node and of the store may differ
// before a repeated registration is not recognised.
const clockSlack = time.Minute

// keptSince is since when a job must have ended to be still kept by the store,
// more or less; zero: the store keeps none.
func (s *Store) keptSince() job.Instant {
	if s.o.StoreRetention <= 0 {
		return 0
	}
	return job.InstantOf(s.o.Clock.Now()).Add(-s.o.StoreRetention - clockSlack)
}

// recallEnded puts back what the store lacks of messages and would still keep.
func (s *Store) recallEnded(ctx context.Context, messages []stored) error {
	var ended []store.RestoredJob
	for i := range messages {
		r := &messages[i].RestoredJob
		o, err := s.inner.Outlook(ctx, r.Job.Key)
		switch {
		case err == nil: // somebody else was faster
		case !errors.Is(err, store.ErrNotFound):
			return err
		case r.Job.State.Final() && o.Now < r.Job.EndedAt.Add(s.o.StoreRetention):
			ended = append(ended, *r)
		}
	}
	n, err := s.restoreSpread(context.WithoutCancel(ctx), ended)
	s.metrics.add(store.RestoreReport{Restored: n})
	return err
}

// intake is a registration in progress.
type intake struct {
	reg    store.Registration
	result store.Registered
	old    *job.Job // has the key; nil: the key is free

	// asks: the client may repeat a job that ended at this time or later and that the
	// store has lost. Zero: it does not.
	asks job.Instant

	before  []string // uids of registrations that the store surely had before this one
	late    bool     // the ledger lacks the end of old
	message message
}

// meet decides the outcome if old has the key.
func (in *intake) meet(old job.Job) {
	in.old, in.result = &old, store.Registered{Outcome: rules.Against(&in.reg, &old), Job: old}
}

// uid is that of old, otherwise that of the registration.
func (in *intake) uid() string {
	if in.old != nil {
		return in.old.UID
	}
	return in.reg.UID
}

// look compares the ledger's messages of the key with what the store had. ahead is a job that the
// store has lost or has in an older version. lost is the seq of a job that has ended and that the
// store has lost before its time, or zero.
func (in *intake) look(rows []*entry) (ahead *finding, lost int64) {
	var standing store.Standing
	if in.old != nil {
		standing = store.StandingOf(in.old)
	}
	in.before, in.late = nil, in.old != nil && in.old.State.Final()
	for _, f := range rows {
		in.late = in.late && (f.uid != in.old.UID || f.version < in.old.Version)
		if f.uid != in.reg.UID {
			in.before = append(in.before, f.uid)
		}
		if !f.open {
			continue
		}
		found := finding{against(f, &standing), in.reg.Key, f, standing}
		if f.bad != nil || found.putsForward() {
			return &found, 0
		}
	}
	if in.asks != 0 && in.old == nil {
		lost = lastEnded(rows, in.asks)
	}
	return nil, lost
}

// lastEnded is the seq of the job that the store is known to have had last, if that has
// ended since then.
func lastEnded(rows []*entry, since job.Instant) (seq int64) {
	var last *entry
	for _, f := range rows {
		if f.confirmed != superseded && !f.open && (last == nil || f.created > last.created) {
			last = f
		}
	}
	if last == nil || last.done < since {
		return 0
	}
	return last.seq
}

// created writes the new job, and the end of the one in whose place it is.
func (in *intake) created(g *group) {
	before := slices.Clip(in.before)
	if in.old != nil {
		before = append(before, in.old.UID)
		switch {
		case !in.old.State.Final():
			g.replace(in.old, in.result.Job.CreatedAt)
		case in.late: // the node that settled it has not written its end yet
			m := newMessage(*in.old, in.old.EndedAt)
			g.showed(&m).settled = true
		}
	}
	g.taken(&in.message, before)
}
