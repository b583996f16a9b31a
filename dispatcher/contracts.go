package dispatcher

import (
	"context"
	"net/http"

	"github.com/duehook/duehook/internal/job"
)

// Contract is what holds between a dialect of the API and its receivers: what the deliveries
// of its jobs do otherwise than duehook's own. Nil functions are duehook's own.
type Contract struct {
	// Headers returns headers of the request of an attempt, with canonical names; they replace
	// others. number counts attempts from 1. After an error the job is released for later; it
	// uses no attempt.
	Headers func(ctx context.Context, j *job.Job, number int, at job.Instant) ([]job.Header, error)
	// Judge decides on an answer: the job is delivered, refused or failed. The outcome has no
	// Attempt.
	Judge func(status int, header http.Header, now job.Instant) job.Outcome
	// RenderCallback is that of Options for callbacks of the dialect's jobs.
	RenderCallback func(callback *job.Job) ([]byte, error)
	// CallbackResponse is the least that callbacks contain of an answer, in bytes, unless Options
	// has nothing.
	CallbackResponse int
	// Exact: delays between attempts do not vary at random.
	Exact bool
}

// own is the Contract of jobs that none registered.
var own = &Contract{}

// contractOf returns the contract of a job.
func (o *Options) contractOf(j *job.Job) *Contract {
	if d := o.Contracts[j.Spec.DialectName()]; d != nil {
		return d
	}
	return own
}
