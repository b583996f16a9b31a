package camellia

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/store"
)

const (
	// window is the time over which figures are counted.
	window = time.Minute
	// maxTopics bounds the topics with figures, and those of a list.
	maxTopics = 1000
)

// stats are the figures of a topic in one window.
type stats struct {
	Topic             string `json:"topic"`
	SendMsg           int64  `json:"sendMsg"`
	PullMsg           int64  `json:"pullMsg"` // messages
	DeleteMsg         int64  `json:"deleteMsg"`
	AckMsg            int64  `json:"ackMsg"`
	GetMsg            int64  `json:"getMsg"`
	TriggerMsgReady   int64  `json:"triggerMsgReady"`   // pulled for the first time
	TriggerMsgEndLife int64  `json:"triggerMsgEndLife"` // expired or exhausted
	TriggerMsgTimeout int64  `json:"triggerMsgTimeout"` // the ack timeout has passed

	late time.Duration // sum of the times from the trigger times to the pulls
	max  time.Duration
}

// gap is how late the messages of a topic were, in milliseconds.
type gap struct {
	Topic string  `json:"topic"`
	Count int64   `json:"count"`
	Avg   float64 `json:"avg"`
	Max   int64   `json:"max"`
}

// Monitor counts what happens to messages at this node.
type Monitor struct {
	clock job.Clock

	mu   sync.Mutex
	at   int64 // the number of the present window
	now  map[string]*stats
	last map[string]*stats
}

// NewMonitor returns a Monitor.
func NewMonitor(clock job.Clock) *Monitor { return &Monitor{clock: clock} }

// count changes the figures of a topic.
func (m *Monitor) count(topic string, change func(*stats)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn()
	s := m.now[topic]
	if s == nil {
		if len(m.now) >= maxTopics {
			return
		}
		s = &stats{Topic: job.TextOfName(topic)}
		m.now[topic] = s
	}
	change(s)
}

// turn begins a window if it is time.
func (m *Monitor) turn() {
	at := m.clock.Now().UnixMilli() / window.Milliseconds()
	if m.now != nil && at == m.at {
		return
	}
	m.last = nil
	if at == m.at+1 {
		m.last = m.now
	}
	m.at, m.now = at, map[string]*stats{}
}

// pulled counts leased messages.
func (m *Monitor) pulled(topic string, jobs []pulls.Leased, now job.Instant) {
	if len(jobs) == 0 {
		return
	}
	m.count(topic, func(s *stats) {
		for i := range jobs {
			late := max(0, now.Sub(jobs[i].Job.DueAt))
			s.PullMsg, s.late, s.max = s.PullMsg+1, s.late+late, max(s.max, late)
			if jobs[i].Attempt == 1 {
				s.TriggerMsgReady++
			}
		}
	})
}

// Subscriber counts ends and leases that nobody answered for.
func (m *Monitor) Subscriber() feed.Subscriber {
	return feed.Subscriber{Settled: func(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
		for s, r := range outcomes {
			if !s.Lane.Pulled() {
				continue
			}
			ends, timeout := r.To == job.Expired || r.To == job.Dead, s.Attempt != nil && s.Attempt.Error == job.ReasonLeaseExpired
			if ends || timeout {
				m.count(s.Key.Topic, func(of *stats) {
					of.TriggerMsgEndLife += number(ends)
					of.TriggerMsgTimeout += number(timeout)
				})
			}
		}
	}}
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// figures are those of the last whole window.
type figures struct {
	Requests []stats `json:"requestStatsList"`
	Pulls    []gap   `json:"pullMsgTimeGapStatsList"`
	// Ready: a message is ready when it is due, so its gap is zero.
	Ready []gap `json:"readyQueueTimeGapStatsList"`
}

func (m *Monitor) figures() figures {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn()
	f := figures{Requests: []stats{}, Pulls: []gap{}, Ready: []gap{}}
	for _, s := range slices.SortedFunc(maps.Values(m.last), func(a, b *stats) int { return cmp.Compare(a.Topic, b.Topic) }) {
		f.Requests = append(f.Requests, *s)
		if s.PullMsg > 0 {
			f.Pulls = append(f.Pulls, gap{Topic: s.Topic, Count: s.PullMsg, Avg: float64(s.late.Milliseconds()) / float64(s.PullMsg), Max: s.max.Milliseconds()})
		}
		if s.TriggerMsgReady > 0 {
			f.Ready = append(f.Ready, gap{Topic: s.Topic, Count: s.TriggerMsgReady})
		}
	}
	return f
}

// monitorData answers getMonitorData.
func (a *api) monitorData(c *httpapi.Call) error { return answerData(c, a.Monitor.figures()) }

// answerData writes an answer that has no msg.
func answerData(c *httpapi.Call, data any) error {
	return c.WriteJSON(success, map[string]any{"code": success, "data": data})
}

// topicInfo are the figures of a topic.
type topicInfo struct {
	Topic        string           `json:"topic"`
	WaitingSize  int64            `json:"waitingQueueSize"`
	Waiting      map[string]int64 `json:"waitingQueueInfo"`
	ReadySize    int64            `json:"readyQueueSize"`
	AckQueueSize int64            `json:"ackQueueSize"`
}

// waitingNames are the names of app.DueRanges here.
var waitingNames = [...]string{
	"sizeOf0To1min", "sizeOf1minTo10min", "sizeOf10minTo30min", "sizeOf30minTo1hour", "sizeOf1hourTo6hour",
	"sizeOf6hourTo1day", "sizeOf1dayTo7day", "sizeOf7dayTo30day", "sizeOf30dayToInfinite",
}

func (a *api) infoOf(ctx context.Context, topic string) (topicInfo, error) {
	t, err := a.App.Topic(ctx, topic)
	if err != nil {
		return topicInfo{}, err
	}
	info := topicInfo{Topic: job.TextOfName(topic), Waiting: map[string]int64{}, ReadySize: t.Overdue, AckQueueSize: t.Stats.States[job.Running]}
	t.DueIn[0] = max(0, t.DueIn[0]-info.ReadySize-info.AckQueueSize)
	for i, name := range waitingNames {
		info.Waiting[name] = t.DueIn[i]
		info.WaitingSize += t.DueIn[i]
	}
	return info, nil
}

// topicInfo answers getTopicInfo.
func (a *api) topicInfo(c *httpapi.Call) error {
	f, err := a.read(c)
	if err == nil {
		err = f.check(c)
	}
	if err != nil {
		return err
	}
	info, err := a.infoOf(c.Context(), job.NameOf(f.text("topic")))
	if err != nil {
		return err
	}
	return answerData(c, info)
}

// infos are the figures of the first maxTopics topics, by name.
func (a *api) infos(c *httpapi.Call) ([]topicInfo, error) {
	all := []topicInfo{}
	q := store.TopicQuery{Only: c.Topics(), Limit: maxTopics}
	for {
		page, err := a.App.Topics(c.Context(), q)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Topics[:min(len(page.Topics), maxTopics-len(all))] {
			info, err := a.infoOf(c.Context(), t.Name)
			if err != nil {
				return nil, err
			}
			all = append(all, info)
		}
		if q.Cursor = page.Next; q.Cursor == "" || len(all) == maxTopics {
			return all, nil
		}
	}
}

// topicInfos answers getTopicInfoList.
func (a *api) topicInfos(c *httpapi.Call) error {
	all, err := a.infos(c)
	if err != nil {
		return err
	}
	return answerData(c, all)
}

// monitorText answers getMonitorString.
func (a *api) monitorText(c *httpapi.Call) error {
	all, err := a.infos(c)
	if err != nil {
		return err
	}
	f := a.Monitor.figures()
	sizes, waits := make([]map[string]any, len(all)), make([]map[string]any, len(all))
	for i, t := range all {
		sizes[i] = map[string]any{"topic": t.Topic, "waitingQueueSize": t.WaitingSize, "ackQueueSize": t.AckQueueSize, "readyQueueSize": t.ReadySize}
		waits[i] = map[string]any{"topic": t.Topic}
		for name, n := range t.Waiting {
			waits[i][name] = n
		}
	}
	return answerText(c, map[string]any{
		"requestStats": f.Requests, "pullMsgTimeGapStats": f.Pulls, "readyQueueTimeGapStats": f.Ready, "topicInfoStats": sizes, "waitingQueueStats": waits,
	})
}
