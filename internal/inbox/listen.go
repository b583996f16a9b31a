package inbox

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
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
	failing := loops.NewOutage("listening to notifications of the inbox "+r.in.Name, job.SystemClock(), r.log, nil)
	l := pg.Listener{
		Config: r.t.direct, Channel: channel, While: r.leading.Load,
		Began: func() {
			failing.Worked()
			r.wake.Set()
		},
		Heard: func(string) { r.wake.Set() },
	}
	failing.Repeat(ctx, loops.Task{Every: time.Second, Do: func(ctx context.Context) error {
		if !r.leading.Load() {
			return nil
		}
		return l.Listen(ctx)
	}})
}
