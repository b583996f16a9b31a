package rules

import (
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// NeedsRoom reports whether a change makes a store keep more: a larger job, or another round of a job with callbacks. A
// full store refuses it. Other changes must be possible, so that it can drain.
func NeedsRoom(was, is *job.Job) bool {
	return store.SizeOfSpec(&is.Spec) > store.SizeOfSpec(&was.Spec) ||
		was.State.Final() && !is.State.Final() && is.Spec.Callbacks != nil
}

// LogBytes bounds the log of a job's attempts when an outcome is stored, in bytes. On a full store, outcomes make long
// logs shorter, and keep at least the last attempt.
func LogBytes(full bool) int {
	if full {
		return 4 << 10
	}
	return store.MaxLogBytes
}

// CountNeedsRoom is NeedsRoom for adds to a count: a store remembers their keys.
func CountNeedsRoom(adds []job.Add) bool {
	return slices.ContainsFunc(adds, func(a job.Add) bool { return a.Key != "" })
}
