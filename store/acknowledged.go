package store

import "context"

type unacknowledged struct{}

// Unacknowledged returns a context for an Update that no client waits for. It returns as soon as
// the store has the change, without waiting for replicas.
func Unacknowledged(ctx context.Context) context.Context {
	return context.WithValue(ctx, unacknowledged{}, true)
}

// IsUnacknowledged reports whether ctx comes from Unacknowledged.
func IsUnacknowledged(ctx context.Context) bool { return ctx.Value(unacknowledged{}) != nil }
