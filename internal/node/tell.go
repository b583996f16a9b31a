package node

import (
	"context"
	"log/slog"
	"math/rand/v2"

	"github.com/duehook/duehook/internal/kit/loops"
)

// tell logs that the node serves at base: at once, or, if the store did not answer, from a part
// that waits for the store and the signing secret.
func (n *node) tell(base string) []part {
	if n.away == nil || n.Waiting == nil {
		n.ready(base)
		return nil
	}
	n.Waiting(base, n.away)
	return []part{{"start", func(ctx context.Context) error {
		pings := loops.NewOutage("reaching the store", n.clock, slog.New(slog.DiscardHandler), rand.Float64) // already reported
		for {
			err := n.store.Ping(ctx)
			if err == nil {
				pings.Worked()
				n.readyToSign(ctx, base)
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

// readyToSign is ready as soon as deliveries can be signed.
func (n *node) readyToSign(ctx context.Context, base string) {
	select {
	case <-n.signs:
		n.ready(base)
	case <-ctx.Done():
	}
}
