package ledger

import (
	"context"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// What leaves no trace in the journal goes to the wrapped store. The methods
// stand here one by one, so that a new one of the interface must be decided on.

// Shards is the wrapped store's.
func (s *Store) Shards() int { return s.inner.Shards() }

// Wakeups is the wrapped store's.
func (s *Store) Wakeups(ctx context.Context, wake func(shard int)) error {
	return s.inner.Wakeups(ctx, wake)
}

// Publish is the wrapped store's.
func (s *Store) Publish(ctx context.Context, channel string, message []byte) error {
	return s.inner.Publish(ctx, channel, message)
}

// Listen is the wrapped store's.
func (s *Store) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	return s.inner.Listen(ctx, channel, receive)
}

// Locker is the wrapped store's.
func (s *Store) Locker(shard int) store.Locker { return s.inner.Locker(shard) }

// Pop is the wrapped store's.
func (s *Store) Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error) {
	return s.inner.Pop(ctx, shard, limit, wait)
}

// Hold is the wrapped store's.
func (s *Store) OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error {
	return s.inner.OpenCircuit(ctx, endpoint, d)
}

// CloseCircuit is the wrapped store's.
func (s *Store) CloseCircuit(ctx context.Context, endpoint string) error {
	return s.inner.CloseCircuit(ctx, endpoint)
}

// SetLimits is the wrapped store's. What they follow from is in documents.
func (s *Store) SetLimits(ctx context.Context, topic string, l store.Limits) error {
	return s.inner.SetLimits(ctx, topic, l)
}

// Limits is the wrapped store's.
func (s *Store) Limits(ctx context.Context) (map[string]store.Limits, error) {
	return s.inner.Limits(ctx)
}

// Standings is the wrapped store's.
func (s *Store) Standings(ctx context.Context, keys []job.Key) ([]store.Standing, error) {
	return s.inner.Standings(ctx, keys)
}

// SwapMarks is the wrapped store's.
func (s *Store) SwapMarks(ctx context.Context, mark string) ([]string, error) {
	return s.inner.SwapMarks(ctx, mark)
}
