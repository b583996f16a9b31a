package schedules

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

// runMark divides the name of a schedule from the rest of the id of a run.
const runMark = "@now-"

// RunResult is what RunNow did.
type RunResult struct {
	Job     job.Job // zero for a group
	Created bool    // false: the call was made before
	// FanOut has the jobs for the members of the schedule's group, and Members says what became of each. Without a group
	// they are nil.
	FanOut  *app.FanOut
	Members []store.Registered
}

// RunNow registers the job of a schedule now, or one for each member of its group. repeat names repeated calls, and may be
// empty. A repeated call for a group registers the jobs that are missing. Errors besides those of Set: store.ErrTopicFull,
// store.ErrTopicDraining and store.ErrFull. A run that is refused is not counted.
func (m *Manager) RunNow(ctx context.Context, name, repeat string) (RunResult, error) {
	s, err := m.Get(ctx, name)
	if err != nil {
		return RunResult{}, err
	}
	key, regs, err := m.runOf(ctx, &s, repeat)
	if err != nil {
		return RunResult{}, err
	}
	got, err := m.o.Jobs.RegisterOwn(ctx, regs)
	if err != nil {
		return RunResult{}, fmt.Errorf("register a run of %s: %w", name, err)
	}
	var run RunResult
	for i := range got {
		if repeat == "" && got[i].Outcome == store.Same && got[i].Job.UID == regs[i].UID {
			got[i].Outcome = store.Created // the store lost its answer
		}
		run.Created = run.Created || got[i].Outcome == store.Created
	}
	uid := ""
	if s.Def.Job.Group != nil {
		run.FanOut, run.Members = app.FanOutOf(*s.Def.Job.Group, key, regs), got
	} else {
		if got[0].Outcome.Refused() {
			return RunResult{}, got[0].Outcome.Err()
		}
		run.Job, uid = got[0].Job, regs[0].UID
	}
	if run.Created {
		m.countRun(ctx, &s, key, uid)
	}
	return run, nil
}

// runOf makes the key of a run and its registrations. Their uids follow from the name of repeated calls.
func (m *Manager) runOf(ctx context.Context, s *Schedule, repeat string) (job.Key, []store.Registration, error) {
	run, at := ulid.Make().String(), s.Now
	if repeat != "" {
		sum := sha256.Sum256([]byte(repeat))
		run, at = strings.ToUpper(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:26], s.CreatedAt
	}
	key := job.Key{Topic: s.Def.Topic(), ID: s.Name + runMark + run}
	regs, err := m.o.Jobs.Occurrence(ctx, &s.Def.Job, app.Occurrence{
		Key: key, UID: func(key job.Key) string { return uidOf(s.UID, at, key) }, Now: s.Now, Due: s.Now,
		Of: job.Occurrence{Schedule: s.Name, Time: s.Now, Kind: job.ByHand},
	})
	if errors.Is(err, app.ErrNoMembers) {
		err = job.Invalid("schedule", "names a group that is missing, or that has no member for its job")
	}
	return key, regs, err
}

// countRun notes a run. The counter lacks the run if this node dies before.
func (m *Manager) countRun(ctx context.Context, s *Schedule, key job.Key, uid string) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout/4)
	defer cancel()
	err := m.changeExisting(limited, s.Name, nil, func(a *alteration) error {
		r := a.rec
		if r.UID != s.UID {
			return documents.ErrKept
		}
		r.Manual++
		r.Last = &Last{Time: s.Now, DueAt: s.Now, Outcome: schedule.Fired, Key: key, UID: uid}
		r.open(r.opened(key))
		return nil
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		m.log.WarnContext(ctx, "the counters of a schedule lack a run", "schedule", s.Name, "error", err)
	}
}
