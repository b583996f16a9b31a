package alerts

import "errors"

// Errors on which callers decide.
var (
	// ErrNotFound: no rule has this name.
	ErrNotFound = errors.New("alert rule not found")
	// ErrTooMany: there are MaxRules rules.
	ErrTooMany = errors.New("too many alert rules")
)
