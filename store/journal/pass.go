package journal

import (
	"context"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Passed are the methods of a wrapped store that leave no trace in the journal. They
// stand here one by one, so that a new method of the interface needs a decision.
type Passed struct {
	store.Reader
	Inner store.Store
}

// Shards is the wrapped store's.
func (p Passed) Shards() int { return p.Inner.Shards() }

// Wakeups is the wrapped store's.
func (p Passed) Wakeups(ctx context.Context, wake func(shard int)) error {
	return p.Inner.Wakeups(ctx, wake)
}

// Publish is the wrapped store's.
func (p Passed) Publish(ctx context.Context, channel string, message []byte) error {
	return p.Inner.Publish(ctx, channel, message)
}

// Listen is the wrapped store's.
func (p Passed) Listen(ctx context.Context, channel string, receive func(message []byte)) error {
	return p.Inner.Listen(ctx, channel, receive)
}

// Locker is the wrapped store's.
func (p Passed) Locker(shard int) store.Locker { return p.Inner.Locker(shard) }

// Pop is the wrapped store's.
func (p Passed) Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error) {
	return p.Inner.Pop(ctx, shard, limit, wait)
}

// OpenCircuit is the wrapped store's.
func (p Passed) OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error {
	return p.Inner.OpenCircuit(ctx, endpoint, d)
}

// CloseCircuit is the wrapped store's.
func (p Passed) CloseCircuit(ctx context.Context, endpoint string) error {
	return p.Inner.CloseCircuit(ctx, endpoint)
}

// SetLimits is the wrapped store's. What they follow from is in documents.
func (p Passed) SetLimits(ctx context.Context, topic string, l store.Limits) error {
	return p.Inner.SetLimits(ctx, topic, l)
}

// Limits is the wrapped store's.
func (p Passed) Limits(ctx context.Context) (map[string]store.Limits, error) {
	return p.Inner.Limits(ctx)
}

// Standings is the wrapped store's.
func (p Passed) Standings(ctx context.Context, keys []job.Key) ([]store.Standing, error) {
	return p.Inner.Standings(ctx, keys)
}

// SwapMarks is the wrapped store's.
func (p Passed) SwapMarks(ctx context.Context, mark string) ([]string, error) {
	return p.Inner.SwapMarks(ctx, mark)
}
