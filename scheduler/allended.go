package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// memberPatience is how long after its registration a job waits for others of the same
	// registration that the store does not have. Later they count as unknown.
	memberPatience = time.Minute
	memberPause    = 5 * time.Second
)

// AllEnded decides about the callback of a job that ended, for the event job.CallbackAllEnded.
// Every job of the registration has such a callback, and one of all is to be sent: its Ends are
// returned, and no outcome. Otherwise the outcome is that of the callback.
//
// A callback gives way while another job has not ended, because that one has a callback, too.
// When all have ended, it gives way to those of the jobs that ended later, unless they gave
// way before. So one remains, whatever the clocks of shards say, and a repeated decision is the
// same.
func (s *Scheduler) AllEnded(ctx context.Context, ended *job.Job, now job.Instant) (job.Ends, *job.Outcome, error) {
	kept, err := s.keptJobs(ctx, ended.Topic, ended.GroupID())
	if err != nil {
		return job.Ends{}, nil, err
	}
	giveWay := &job.Outcome{Kind: job.OutcomeCancelled, Reason: job.ReasonSuperseded}
	all := job.Ends{Jobs: ended.Spec.Group.Size, By: map[job.State]int{}}
	mine, found := ended.EndedAt, 0
	for i := range kept {
		j := &kept[i]
		at, has := j.FirstEnd()
		if j.Spec.Callbacks.On(job.CallbackAllEnded) == nil { // it was registered again, without
			continue
		}
		found++
		if !has {
			return job.Ends{}, giveWay, nil
		}
		if j.UID == ended.UID {
			mine = at
		}
		state := j.State
		if !state.Final() {
			state = job.Dead // and was replayed
		}
		all.By[state]++
	}
	if all.Unknown = max(all.Jobs-found, 0); all.Unknown > 0 && now < ended.CreatedAt.Add(memberPatience) {
		return job.Ends{}, &job.Outcome{Kind: job.OutcomeReleased, Reason: job.ReasonMembersGone, After: memberPause}, nil
	}
	for i := range kept {
		at, _ := kept[i].FirstEnd()
		if cmp.Or(cmp.Compare(at, mine), cmp.Compare(kept[i].ID, ended.ID)) <= 0 || kept[i].Spec.Callbacks.On(job.CallbackAllEnded) == nil {
			continue
		}
		gone, err := s.gaveWay(ctx, &kept[i])
		if err != nil {
			return job.Ends{}, nil, err
		}
		if !gone {
			return job.Ends{}, giveWay, nil
		}
	}
	return all, nil, nil
}

// gaveWay reports whether the callback of a job gave way to others.
func (s *Scheduler) gaveWay(ctx context.Context, of *job.Job) (bool, error) {
	first := job.Job{UID: of.UID} // not of a later round
	callback, err := s.o.Store.Get(ctx, job.Key{Topic: of.Topic, ID: first.CallbackID(job.CallbackAllEnded, 0)})
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the callback of %s: %w", of.Key, err)
	}
	return callback.State == job.Cancelled, nil
}
