package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/duehook/duehook/job"
)

// Listener is the part of Messaging that hears.
type Listener interface {
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
}

// Follow listens to a channel until ctx ends, also after failures: each is told
// to failed, which pauses before the next try.
func Follow(ctx context.Context, from Listener, channel string, receive func(message []byte), failed func(ctx context.Context, err error)) {
	for ctx.Err() == nil {
		if err := from.Listen(ctx, channel, receive); err != nil {
			failed(ctx, err)
		}
	}
}

// followPause is how long PauseBetween pauses.
const followPause = time.Second

// PauseBetween is for Follow where missing messages is little trouble: it logs
// which are, for debugging, and pauses for a second.
func PauseBetween(clock job.Clock, log *slog.Logger, missed string) func(ctx context.Context, err error) {
	return func(ctx context.Context, err error) {
		log.DebugContext(ctx, "messages are missed", "of", missed, "error", err)
		_ = job.Sleep(ctx, clock, followPause) // Follow looks at ctx
	}
}
