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

// pause is the time between a failure and the next try.
const pause = time.Second

// Channel listens until ctx ends, through failures: messages may be missed. It logs
// failures for debugging only, because other calls of the store report its outages.
func Channel(ctx context.Context, from Listener, channel string, clock job.Clock, log *slog.Logger, receive func(message []byte)) {
	for ctx.Err() == nil {
		if err := from.Listen(ctx, channel, receive); err != nil {
			log.DebugContext(ctx, "messages of other nodes are lost", "channel", channel, "error", err)
			_ = job.Sleep(ctx, clock, pause) // the loop checks ctx
		}
	}
}
