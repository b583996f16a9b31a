package qstash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
)

// The topics of messages.
const (
	queuePrefix = Name + ":queue:"
	flowPrefix  = Name + ":flow:"
	// turns is the order key of the messages of a queue that sends one at a time: a message keeps
	// its turn through its retries.
	turns = "queue"
)

// own are all topics of messages.
var own = job.TopicSet{Name, Name + ":*"}

func queueTopic(name string) string { return queuePrefix + name }

// flowTopic is the topic of a flow-control key.
func flowTopic(key string) string { return flowPrefix + job.EscapeName(key) }

// flowKeyOf is the reverse of flowTopic; false for other topics.
func flowKeyOf(topic string) (key string, ok bool) {
	if key, ok = strings.CutPrefix(topic, flowPrefix); !ok {
		return "", false
	}
	return job.UnescapeName(key)
}

// readTopic gives a message its turn in its queue, and checks the limits that it gives its
// flow-control key. makeTopic stores them, if nothing else is wrong with the message.
func (a *api) readTopic(ctx context.Context, m *message) error {
	topic := *m.draft.Topic
	switch is, known := a.Topics.Known()[topic]; {
	case m.queue != "":
		if !known {
			var err error
			if is, err = a.Topics.Get(ctx, topic); err != nil {
				return err
			}
		}
		if is.Settings.Concurrency <= firstParallelism {
			m.draft.OrderKey = new(turns)
		}
	case m.Flow != nil:
		if m.Flow.limit(&is.Settings); is.Settings.Check() != nil {
			return refused("the flow control is out of range: the parallelism may be %d, the rate %v to %d a second", topics.MaxConcurrency, topics.MinRate, topics.MaxRate)
		}
	}
	return nil
}

func (a *api) makeTopic(ctx context.Context, m *message) error {
	switch {
	case m.queue != "":
		return a.ensureQueue(ctx, *m.draft.Topic)
	case m.Flow != nil:
		return a.alter(ctx, *m.draft.Topic, m.Flow.limit)
	}
	return nil
}

// alter changes settings of a topic, unless they are known to be as wanted.
func (a *api) alter(ctx context.Context, topic string, alter func(*topics.Settings) bool) error {
	if is := a.Topics.Known()[topic].Settings; !alter(&is) {
		return nil
	}
	_, err := a.Topics.Alter(ctx, topic, alter)
	return err
}

// firstParallelism is that of a queue that nobody has set.
const firstParallelism = 1

func (a *api) ensureQueue(ctx context.Context, topic string) error {
	return a.alter(ctx, topic, func(s *topics.Settings) bool {
		if s.Concurrency > 0 {
			return false
		}
		s.Concurrency = firstParallelism
		return true
	})
}

// limit sets the limits of a flow-control key that are given, and reports whether they differ.
func (f *flow) limit(s *topics.Settings) bool {
	parallelism, rate := s.Concurrency, s.Rate
	if f.Parallelism > 0 {
		s.Concurrency = f.Parallelism
	}
	if f.Rate > 0 {
		s.Rate = float64(f.Rate) / max(f.Period, time.Second).Seconds()
	}
	return s.Concurrency != parallelism || s.Rate != rate
}

// queueView is a queue.
type queueView struct {
	Name        string `json:"name"`
	Parallelism int    `json:"parallelism"`
	Paused      bool   `json:"paused"`
	Lag         int64  `json:"lag"`
	CreatedAt   int64  `json:"createdAt"`
	UpdatedAt   int64  `json:"updatedAt"`
}

func queueViewOf(t *app.Topic) queueView {
	return queueView{
		Name: queueOf(t.Name), Parallelism: t.Settings.Concurrency, Paused: t.State == topics.Paused, Lag: t.Stats.Unfinished(),
		CreatedAt: int64(t.CreatedAt), UpdatedAt: int64(t.UpdatedAt),
	}
}

// topicsWith are the topics with settings or a state whose names have a prefix, by name.
func (a *api) topicsWith(ctx context.Context, prefix string) (all []app.Topic, err error) {
	var names []string
	for name := range a.Topics.Known() {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		t, err := a.App.Topic(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// viewsOf answers with a list.
func viewsOf[T, V any](c *httpapi.Call, all []T, view func(*T) V) error {
	views := make([]V, len(all))
	for i := range all {
		views[i] = view(&all[i])
	}
	return c.WriteJSON(http.StatusOK, views)
}

func (a *api) queues(c *httpapi.Call) error {
	all, err := a.topicsWith(c.Context(), queuePrefix)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(t app.Topic) bool { return t.Settings.Concurrency == 0 }) // not made, or deleted
	return viewsOf(c, all, queueViewOf)
}

func (a *api) queue(c *httpapi.Call) error {
	t, err := a.App.Topic(c.Context(), queueTopic(c.Param("name")))
	if err != nil {
		return err
	}
	if t.Settings.Concurrency == 0 {
		return notFound("queue", c.Param("name"))
	}
	return c.WriteJSON(http.StatusOK, queueViewOf(&t))
}

func (a *api) upsertQueue(c *httpapi.Call) error {
	var d struct {
		QueueName   string
		Parallelism *int
		Paused      *bool
	}
	if err := jsonOf(c, maxRequest, &d); err != nil {
		return err
	}
	if err := checkName("queue", d.QueueName); err != nil {
		return err
	}
	if d.Parallelism != nil && (*d.Parallelism < 1 || *d.Parallelism > topics.MaxConcurrency) {
		return refused("parallelism must be from 1 to %d", topics.MaxConcurrency)
	}
	c.Target = d.QueueName
	topic := queueTopic(d.QueueName)
	if err := a.alter(c.Context(), topic, func(s *topics.Settings) bool {
		was := s.Concurrency
		if d.Parallelism != nil {
			s.Concurrency = *d.Parallelism
		}
		s.Concurrency = cmp.Or(s.Concurrency, firstParallelism)
		return s.Concurrency != was
	}); err != nil {
		return err
	}
	if d.Paused != nil {
		if err := a.pause(c, topic, *d.Paused); err != nil {
			return err
		}
	}
	return done(c)
}

// deleteQueue cancels what waits, and forgets the queue. A call whose time ends before leaves the queue, and says so.
func (a *api) deleteQueue(c *httpapi.Call) error {
	topic := queueTopic(c.Param("name"))
	if n, err := a.cancelAll(c.Context(), topic); err != nil {
		if errors.Is(c.Context().Err(), context.DeadlineExceeded) {
			err = &httpapi.Error{Code: httpapi.CodeServerBusy, Detail: fmt.Sprintf(
				"The queue has more messages than one call deletes: %d were cancelled, the others and the queue stay. Send the request again to go on.", n)}
		}
		return err
	}
	if err := a.pause(c, topic, false); err != nil {
		return err
	}
	if err := a.App.DeleteTopic(c.Context(), topic); err != nil && !errors.Is(err, topics.ErrNotFound) {
		return err
	}
	return done(c)
}

// cancelAll cancels the unfinished messages of a topic, and returns how many.
func (a *api) cancelAll(ctx context.Context, topic string) (n int, err error) {
	q := store.Query{Topic: topic, States: unfinished, Limit: 100}
	for before := 0; ; {
		page, err := a.App.List(ctx, q)
		if err != nil {
			return n, err
		}
		done, err := batch.Gather(ctx, len(page.Jobs), func(ctx context.Context, i int) (bool, error) { return a.cancelOne(ctx, &page.Jobs[i]) })
		for _, did := range done {
			if did {
				n++
			}
		}
		if err != nil {
			return n, err
		}
		// The next message of an order key comes to the front when the one before it ends, behind the cursor.
		if q.Cursor = page.Next; q.Cursor == "" && n == before {
			return n, nil
		} else if q.Cursor == "" {
			before = n
		}
	}
}

// pauseBy is a pause by the caller.
func pauseBy(c *httpapi.Call) (p job.Pause) {
	if caller, keyed := c.Caller(); keyed {
		p.By = caller.KeyID
	}
	return p
}

func (a *api) pause(c *httpapi.Call, topic string, paused bool) error {
	state, why := topics.Active, job.Pause{}
	if paused {
		state, why = topics.Paused, pauseBy(c)
	}
	_, err := a.Topics.SetState(c.Context(), topic, state, why)
	return err
}

// pausing answers the calls that pause and resume a queue.
func (a *api) pausing(paused bool) routed {
	return func(c *httpapi.Call) error {
		topic := queueTopic(c.Param("name"))
		if err := checkName("queue", c.Param("name")); err != nil {
			return err
		}
		if err := a.ensureQueue(c.Context(), topic); err != nil {
			return err
		}
		if err := a.pause(c, topic, paused); err != nil {
			return err
		}
		return done(c)
	}
}

// flowView is a flow-control key.
type flowView struct {
	Key              string `json:"flowControlKey"`
	WaitListSize     int64  `json:"waitListSize"`
	ParallelismMax   int    `json:"parallelismMax"`
	ParallelismCount int64  `json:"parallelismCount"`
	RateMax          int    `json:"rateMax"`
	RateCount        int    `json:"rateCount"`
	RatePeriod       int64  `json:"ratePeriod"`
	RatePeriodStart  int64  `json:"ratePeriodStart"`
	IsPaused         bool   `json:"isPaused"`
	PinnedParallel   bool   `json:"isPinnedParallelism"`
	PinnedRate       bool   `json:"isPinnedRate"`
}

func flowViewOf(t *app.Topic) flowView {
	key, _ := flowKeyOf(t.Name)
	v := flowView{
		Key: key, ParallelismMax: t.Settings.Concurrency, IsPaused: t.State == topics.Paused,
		ParallelismCount: t.Stats.States[job.Ready] + t.Stats.States[job.Running],
	}
	if len(t.DueIn) > 0 {
		v.WaitListSize = max(t.DueIn[0]-v.ParallelismCount, 0)
	}
	v.RateMax, v.RatePeriod = wholeRate(t.Settings.Rate)
	return v
}

// wholeRate writes a rate as a whole number in the shortest usual period.
func wholeRate(perSecond float64) (rate int, period int64) {
	if perSecond == 0 {
		return 0, 0
	}
	for _, period = range []int64{1, 60, 3600, 86400, 604800} {
		rate = int(math.Round(perSecond * float64(period)))
		if math.Abs(perSecond*float64(period)-float64(rate)) < 1e-6*float64(rate) {
			break
		}
	}
	return max(rate, 1), period
}

func (a *api) flowKeys(c *httpapi.Call) error {
	all, err := a.topicsWith(c.Context(), flowPrefix)
	if err != nil {
		return err
	}
	search := c.Query().Get("search")
	all = slices.DeleteFunc(all, func(t app.Topic) bool {
		key, ok := flowKeyOf(t.Name)
		return !ok || !strings.Contains(key, search)
	})
	return viewsOf(c, all, flowViewOf)
}

// checkFlowKey refuses a key that no answer could show.
func checkFlowKey(key string) error {
	if !utf8.ValidString(key) {
		return refused("the flow-control key must be UTF-8")
	}
	return nil
}

func (a *api) flowKey(c *httpapi.Call) error {
	if err := checkFlowKey(c.Param("*")); err != nil {
		return err
	}
	t, err := a.App.Topic(c.Context(), flowTopic(c.Param("*")))
	if err != nil {
		return err
	}
	if !t.Exists {
		return notFound("flow control key", c.Param("*"))
	}
	return c.WriteJSON(http.StatusOK, flowViewOf(&t))
}

// changeFlowKey answers the calls that change a key, which may contain slashes.
func (a *api) changeFlowKey(c *httpapi.Call) error {
	path := c.Param("*")
	cut := max(strings.LastIndexByte(path, '/'), 0)
	key, action := path[:cut], strings.TrimPrefix(path[cut:], "/")
	c.Target = key
	switch {
	case key == "":
		return &httpapi.Error{Code: httpapi.CodeNotFound}
	case !utf8.ValidString(key):
		return checkFlowKey(key)
	case action == "pause" || action == "resume":
		if err := a.pause(c, flowTopic(key), action == "pause"); err != nil {
			return err
		}
		return done(c)
	case action == "pin" || action == "unpin" || action == "resetRate":
		return refused("%s is not available here: messages set the limits of a key; see docs/migrate/qstash.md", action)
	}
	return &httpapi.Error{Code: httpapi.CodeNotFound}
}
