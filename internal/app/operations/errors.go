package operations

import "errors"

// Errors on which callers decide.
var (
	// ErrNotFound: no operation has this id, or it is no longer kept.
	ErrNotFound = errors.New("operation not found")
	// ErrEnded: the operation is done, or has failed.
	ErrEnded = errors.New("the operation has ended")
	// ErrKeyReused: the Idempotency-Key began another operation.
	ErrKeyReused = errors.New("the Idempotency-Key began another operation")
	// ErrTooMany: there are MaxKept operations that have not ended, or they take MaxAllBytes.
	ErrTooMany = errors.New("too many operations")
)
