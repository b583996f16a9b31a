package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/job"
)

// holds tells the store which endpoints to hold. Wishes are noted without
// waiting and carried out by one goroutine; of two for one endpoint the later
// counts.
type holds struct {
	store  Store
	clock  job.Clock
	log    *slog.Logger
	outage *outage.Outage
	wake   chan struct{} // holds a signal once there is a wish

	mu     sync.Mutex
	wishes map[string]time.Time // endpoint to the end of its hold; zero: no hold
}

func newHolds(o Options) *holds {
	return &holds{
		store:  o.Store,
		clock:  o.Clock,
		log:    o.Logger,
		outage: outage.New("holding endpoints", o.Clock, o.Logger, o.Random),
		wake:   make(chan struct{}, 1),
		wishes: map[string]time.Time{},
	}
}

// wish notes that the endpoint is to be held until then, or, with zero, not.
func (h *holds) wish(endpoint string, until time.Time) {
	h.mu.Lock()
	h.wishes[endpoint] = until
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run carries wishes out until ctx ends.
func (h *holds) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		for endpoint, until := range h.take() {
			if until.IsZero() {
				h.log.Info("an endpoint works again", "endpoint", endpoint)
			} else {
				h.log.Warn("an endpoint fails and is held", "endpoint", endpoint, "until", until)
			}
			h.fulfil(ctx, endpoint, until)
		}
	}
}

// take gives all wishes and forgets them.
func (h *holds) take() map[string]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	wishes := h.wishes
	h.wishes = map[string]time.Time{}
	return wishes
}

// fulfil carries out one wish, trying on until a later one replaces it.
func (h *holds) fulfil(ctx context.Context, endpoint string, until time.Time) {
	for !h.replaced(endpoint) {
		err := h.tell(ctx, endpoint, until)
		if err == nil {
			h.outage.Worked()
			return
		}
		if !h.outage.Rest(ctx, err) {
			return
		}
	}
}

func (h *holds) replaced(endpoint string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.wishes[endpoint]
	return ok
}

func (h *holds) tell(ctx context.Context, endpoint string, until time.Time) error {
	if until.IsZero() {
		return h.store.CloseCircuit(ctx, endpoint)
	}
	if left := until.Sub(h.clock.Now()); left > 0 {
		return h.store.OpenCircuit(ctx, endpoint, left)
	}
	return nil // the outage of the store outlasted the hold
}
