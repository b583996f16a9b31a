package schedules

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// RunResult is what RunNow did.
type RunResult struct {
	Job     job.Job
	Created bool // false: the call was made before
}

// RunNow registers one job of a schedule now. repeat names repeated calls, and may be
// empty. Errors besides those of Set: store.ErrTopicFull, store.ErrTopicDraining and
// store.ErrFull. A run that is refused is not counted.
func (m *Manager) RunNow(ctx context.Context, name, repeat string) (RunResult, error) {
	run := &change{Kind: changeRun, Run: runID(repeat), Call: ulid.Make().String()}
	var result RunResult
	var refused error
	run.ended = func(w *work) { result, refused = w.ran, w.notRun }
	err := m.changeExisting(ctx, name, func(r *record, now job.Instant) (*change, error) {
		j, err := m.lookUp(ctx, job.Key{Topic: r.Def.Topic(), ID: runKey(name, run.Run)})
		if errors.Is(err, job.ErrFinished) { // only the journal has it
			err = nil
		}
		switch {
		case err == nil && j.Spec.Occurrence != nil && j.Spec.Occurrence.Schedule == name:
			result = RunResult{Job: j, Created: run.intended}
			return nil, documents.ErrKept
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		if run.At == 0 { // the first try
			run.At = now
		}
		return run, nil
	})
	if err == nil {
		err = refused
	}
	return result, err
}

// runID names a manual run: by the key of repeated calls, or at random.
func runID(repeat string) string {
	if repeat == "" {
		return ulid.Make().String()
	}
	sum := sha256.Sum256([]byte(repeat))
	return strings.ToUpper(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:26]
}

func runKey(name, run string) string { return name + "@now-" + run }

// run registers one job now. A run that is refused is not counted.
func (w *work) run(ctx context.Context, c *change) error {
	r := &w.rec
	key := job.Key{Topic: r.Def.Topic(), ID: runKey(w.name, c.Run)}
	reg, err := w.m.o.Jobs.Occurrence(&r.Def.Job, scheduler.Occurrence{
		Key: key, UID: uidOf(r.UID, 0, job.ByHand, after(c.At), key), Now: w.now, Due: c.At,
		Of: job.Occurrence{Schedule: w.name, Time: c.At, Kind: job.ByHand},
	})
	if wrongTemplate(err) { // the caller gets it
		w.notRun, err = err, nil
		return err
	}
	if err != nil {
		return err
	}
	registered, err := w.register(ctx, []store.Registration{reg})
	if err != nil {
		return err
	}
	got := &registered[0]
	if got.Outcome.Refused() {
		w.notRun = got.Outcome.Err()
		return nil
	}
	w.ran = RunResult{Job: got.Job, Created: got.Job.First() == reg.UID}
	if !w.ran.Created {
		return nil
	}
	r.Manual++
	r.Last = &Last{Time: c.At, DueAt: c.At, Outcome: schedule.Fired, Key: key, UID: reg.UID}
	if r.Def.Overlap != schedule.Allow {
		r.Open = append(r.Open, key)
	}
	return nil
}
