// Package follow listens to a channel of the store through failures.
package follow

import (
	"context"
	"log/slog"
	"time"

	"github.com/duehook/duehook/job"
)

// Listener is the part of store.Messaging that listens.
type Listener interface {
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
}

// Channel listens until ctx ends. After a failure it calls failed, which pauses, and
// listens again.
func Channel(ctx context.Context, from Listener, channel string, receive func(message []byte), failed func(ctx context.Context, err error)) {
	for ctx.Err() == nil {
		if err := from.Listen(ctx, channel, receive); err != nil {
			failed(ctx, err)
		}
	}
}

const pause = time.Second

// Pause returns a failed for channels whose messages may be missed: it logs the
// failure for debugging, and pauses for a second. missed names the messages.
func Pause(clock job.Clock, log *slog.Logger, missed string) func(ctx context.Context, err error) {
	return func(ctx context.Context, err error) {
		log.DebugContext(ctx, "messages of other nodes are lost", "of", missed, "error", err)
		_ = job.Sleep(ctx, clock, pause) // Channel checks ctx
	}
}
