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
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

// runMark divides the name of a schedule from the rest of the id of a run.
const runMark = "@now-"

// RunResult is what RunNow did.
type RunResult struct {
	Job     job.Job
	Created bool // false: the call was made before
}

// RunNow registers one job of a schedule now. repeat names repeated calls, and may be
// empty. Errors besides those of Set: store.ErrTopicFull, store.ErrTopicDraining and
// store.ErrFull. A run that is refused is not counted.
func (m *Manager) RunNow(ctx context.Context, name, repeat string) (RunResult, error) {
	s, err := m.Get(ctx, name)
	if err != nil {
		return RunResult{}, err
	}
	if s.Def.Job.Group != nil {
		return RunResult{}, job.Invalid("schedule", "has a job for a group, and is not run by hand: register a job with the group")
	}
	reg, err := m.runOf(ctx, &s, repeat)
	if err != nil {
		return RunResult{}, err
	}
	got, err := m.o.Jobs.RegisterOwn(ctx, []store.Registration{reg})
	if err != nil {
		return RunResult{}, fmt.Errorf("register a run of %s: %w", name, err)
	}
	if got[0].Outcome.Refused() {
		return RunResult{}, got[0].Outcome.Err()
	}
	// A store that lost its answer says Same of its own registration.
	created := got[0].Outcome == store.Created || repeat == "" && got[0].Job.UID == reg.UID
	if created {
		m.countRun(ctx, &s, &reg)
	}
	return RunResult{Job: got[0].Job, Created: created}, nil
}

// runOf makes the registration of a run. Its uid follows from the name of repeated calls.
func (m *Manager) runOf(ctx context.Context, s *Schedule, repeat string) (store.Registration, error) {
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
	if err != nil {
		return store.Registration{}, err
	}
	return regs[0], nil
}

// countRun notes a run. The counter lacks the run if this node dies before.
func (m *Manager) countRun(ctx context.Context, s *Schedule, reg *store.Registration) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout/4)
	defer cancel()
	err := m.changeExisting(limited, s.Name, nil, func(a *alteration) error {
		r := a.rec
		if r.UID != s.UID {
			return documents.ErrKept
		}
		r.Manual++
		r.Last = &Last{Time: s.Now, DueAt: s.Now, Outcome: schedule.Fired, Key: reg.Key, UID: reg.UID}
		r.open(reg.Key)
		return nil
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		m.log.WarnContext(ctx, "the counters of a schedule lack a run", "schedule", s.Name, "error", err)
	}
}
