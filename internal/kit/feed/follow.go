package feed

import (
	"context"
	"log/slog"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// listenPause is the time between a failure and the next try.
const listenPause = time.Second

// Follow listens to a channel of the store until ctx ends, through failures: messages may be missed. It logs
// failures for debugging only, because other calls of the store report its outages.
func Follow(ctx context.Context, from store.Listener, channel string, clock job.Clock, log *slog.Logger, receive func(message []byte)) {
	for ctx.Err() == nil {
		if err := from.Listen(ctx, channel, receive); err != nil {
			log.DebugContext(ctx, "messages of other nodes are lost", "channel", channel, "error", err)
			_ = job.Sleep(ctx, clock, listenPause) // the loop checks ctx
		}
	}
}
