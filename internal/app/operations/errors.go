package operations

import "errors"

// Errors on which callers decide.
var (
	// ErrNotFound: no operation has this id, or it is no longer kept.
	ErrNotFound = errors.New("operation not found")
	// ErrEnded: the operation is done, or has failed.
	ErrEnded = errors.New("the operation has ended")
	// ErrTooMany: there are MaxKept operations that have not ended, or they take MaxAllBytes.
	ErrTooMany = errors.New("too many operations")
)
