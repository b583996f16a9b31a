package journal

import (
	"context"
	"time"

	"github.com/duehook/duehook/store"
)

// Passed are the calls of a wrapped store that the journal does not record. Each is written
// out, so that a new method of store.Store needs a decision.
type Passed struct {
	store.Reader
	passed
	Inner store.Restorable
}

type passed interface {
	Shards() int
	Wakeups(ctx context.Context, wake func(shard int)) error
	Publish(ctx context.Context, channel string, message []byte) error
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
	Locker(shard int) store.Locker
	Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error)
	OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error
	CloseCircuit(ctx context.Context, endpoint string) error
	SetLimits(ctx context.Context, topic string, l store.Limits) error // they follow from documents
	Limits(ctx context.Context) (map[string]store.Limits, error)
}
