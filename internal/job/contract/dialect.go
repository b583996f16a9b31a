package contract

import (
	"context"
	"net/http"

	"github.com/duehook/duehook/internal/job"
)

// Dialect is what holds between a dialect of the API and its receivers: what the deliveries
// of its jobs do otherwise than duehook's own. Nil functions are duehook's own.
type Dialect struct {
	// Headers returns headers of the request of an attempt, with canonical names; they replace
	// others. number counts attempts from 1. After an error the job is released for later; it
	// uses no attempt.
	Headers func(ctx context.Context, j *job.Job, number int, at job.Instant) ([]job.Header, error)
	// Judge decides on an answer: the job is delivered, refused or failed. The outcome has no
	// Attempt.
	Judge func(status int, header http.Header, now job.Instant) job.Outcome
	// RenderCallback makes the bodies of callbacks of the dialect's jobs.
	RenderCallback func(callback *job.Job) ([]byte, error)
	// CallbackResponse is the least that callbacks contain of an answer, in bytes, unless they
	// contain none.
	CallbackResponse int
	// Exact: delays between attempts do not vary at random.
	Exact bool
}
