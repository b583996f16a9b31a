package inbox

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/outage"
	pg "github.com/duehook/duehook/internal/kit/postgres"
)

// channel has the notifications of applications: NOTIFY duehook_inbox.
const channel = "duehook_inbox"

// listen wakes the reader when an application notifies it, while this node leads. Without notifications, the reader looks
// at times.
func (r *reader) listen(ctx context.Context) {
	if r.t.direct == nil {
		return
	}
	failing := outage.New("listening to notifications of the inbox "+r.in.Name, job.SystemClock(), r.log, rand.Float64)
	for ctx.Err() == nil {
		if !r.leading.Load() {
			_ = job.Sleep(ctx, job.SystemClock(), time.Second)
			continue
		}
		if err := r.hear(ctx, failing.Worked); err != nil {
			failing.Rest(ctx, err)
		}
	}
}

// hear listens until the connection fails or another node leads.
func (r *reader) hear(ctx context.Context, began func()) error {
	l := pg.Listener{
		Config: r.t.direct, Channel: channel, While: r.leading.Load,
		Began: func() {
			began()
			r.wake.Set()
		},
		Heard: func(string) { r.wake.Set() },
	}
	return l.Listen(ctx)
}
