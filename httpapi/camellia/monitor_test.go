package camellia

import (
	"encoding/json"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func TestMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMonitor(job.SystemClock())
		figures := func() string {
			text, err := json.Marshal(m.figures())
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		pass := func() {
			if err := job.Sleep(t.Context(), job.SystemClock(), window); err != nil {
				t.Fatal(err)
			}
		}
		const none = `{"requestStatsList":[],"pullMsgTimeGapStatsList":[],"readyQueueTimeGapStatsList":[]}`
		m.count("t", func(s *stats) { s.SendMsg++ })
		now := job.InstantOf(time.Now())
		due := func(ago time.Duration, attempt int) pulls.Leased {
			return pulls.Leased{Job: job.Job{DueAt: now.Add(-ago)}, Attempt: attempt}
		}
		m.pulled("t", []pulls.Leased{due(10*time.Millisecond, 1), due(5*time.Millisecond, 2)}, now)
		m.pulled("u", nil, now)
		lane := job.Lane{Topic: "t", Endpoint: string(job.PullQueue)}
		timeout := &job.Settlement{Key: job.Key{Topic: "t"}, Lane: lane, Attempt: &job.Attempt{Error: job.ReasonLeaseExpired}}
		other := &job.Settlement{Key: job.Key{Topic: "pushed"}, Attempt: &job.Attempt{Error: job.ReasonLeaseExpired}}
		m.Subscriber().Settled(maps.All(map[*job.Settlement]*store.Settled{timeout: {To: job.Dead}, other: {}}))
		if got := figures(); got != none {
			t.Errorf("in the first window: %s", got)
		}
		pass()
		const want = `{"requestStatsList":[{"topic":"t","sendMsg":1,"pullMsg":2,"deleteMsg":0,"ackMsg":0,"getMsg":0,"triggerMsgReady":1,"triggerMsgEndLife":1,"triggerMsgTimeout":1}],` +
			`"pullMsgTimeGapStatsList":[{"topic":"t","count":2,"avg":7.5,"max":10}],"readyQueueTimeGapStatsList":[{"topic":"t","count":1,"avg":0,"max":0}]}`
		if got := figures(); got != want {
			t.Errorf("got %s", got)
		}
		pass()
		if got := figures(); got != none {
			t.Errorf("after a window without calls: %s", got)
		}
	})
}
