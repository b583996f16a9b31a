package app

import (
	"fmt"

	"github.com/duehook/duehook/internal/job"
)

// Guard refuses URLs that the server must not call; nil refuses none.
type Guard func(rawURL string) error

// Check returns a *BlockedError if the server must not call the destination, which the
// field names.
func (g Guard) Check(field job.Field, d job.Destination) error {
	if g == nil {
		return nil
	}
	if err := g(string(d)); err != nil {
		return &BlockedError{Field: field, Cause: err}
	}
	return nil
}

// BlockedError refuses a destination that the server must not call. Its cause is
// for the log: a client could learn from it about the network of the server.
type BlockedError struct {
	Field job.Field // that names the destination, as in a job.FieldError
	Cause error
}

func (e *BlockedError) Error() string { return fmt.Sprintf("%s is blocked: %v", e.Field, e.Cause) }

func (e *BlockedError) Unwrap() error { return e.Cause }
