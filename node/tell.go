package node

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"

	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/store"
)

// tell logs that the node serves at base: at once, or, if Redis did not answer, from a part
// that waits for Redis.
func (n *node) tell(base string) []part {
	if n.away == nil || n.Waiting == nil {
		n.ready(base)
		return nil
	}
	n.Waiting(base, n.away)
	return []part{{"start", func(ctx context.Context) error {
		pings := outage.New("reaching the store", n.Clock, slog.New(slog.DiscardHandler), rand.Float64) // already reported
		for {
			err := n.store.Ping(ctx)
			if err == nil || errors.Is(err, store.ErrDegraded) {
				pings.Worked()
				n.ready(base)
				<-ctx.Done()
				return nil
			}
			if !pings.Rest(ctx, err) {
				return nil
			}
		}
	}}}
}

func (n *node) ready(base string) {
	if n.Ready != nil {
		n.Ready(base)
	}
}
