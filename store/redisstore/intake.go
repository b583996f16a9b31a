package redisstore

import (
	"context"

	"github.com/duehook/duehook/internal/job"
	batches "github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
)

const (
	// intakeCalls is how many register calls of a shard run at a time. Registrations
	// that arrive meanwhile share the next call: a single job costs Redis several
	// times as much as one of ten.
	intakeCalls = 4
	// goesAlone is the number of jobs from which a call of their own costs no more.
	goesAlone = 50
)

// arrival holds the registrations of one caller, and their results.
type arrival struct {
	jobs     []newJob
	now      job.Instant
	verdicts []verdict // for each job
	err      error
}

// cost is the share of a call that the arrival takes.
func (a *arrival) cost() (jobs, bytes int) {
	for i := range a.jobs {
		bytes += len(a.jobs[i].body)
	}
	return len(a.jobs), bytes
}

// newJob holds the script's arguments for one registration.
type newJob struct {
	key   job.Key
	lane  job.Lane
	body  []byte
	due   int64  // a delay in milliseconds, or a time below zero
	terms string // "<TTL> <timeout>" in milliseconds, empty without either
	names job.Indexes
}

// newIntake batches the registrations of a shard.
func newIntake(send func(context.Context, []*arrival)) *batches.Batcher[*arrival] {
	return batches.New(batches.Options[*arrival]{
		Workers: intakeCalls, MaxCount: maxRegister, MaxBytes: store.BatchBytes, Cost: (*arrival).cost,
	}, send)
}
