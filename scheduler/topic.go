package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/topics"
	"github.com/duehook/duehook/store"
)

// ErrTopicsFixed says that this server keeps no settings of topics.
var ErrTopicsFixed = errors.New("topics have no settings here")

// Topic is a topic with its jobs.
type Topic struct {
	topics.Topic
	Stats store.TopicStats // DueIn is nil in listings
	// Exists is false when the topic has no job, no settings and no status.
	Exists bool
}

// TopicPage is a page of topics; Next is empty on the last.
type TopicPage struct {
	Topics []Topic
	Next   string
}

// AllowTopic decides on a change by the topic as it is before the change. exists is
// that of Topic. Its error is returned, and nothing changes.
type AllowTopic func(t *topics.Topic, exists bool) error

// Topics returns a page of the topics that hold jobs or have settings.
func (s *Scheduler) Topics(ctx context.Context, q store.TopicQuery) (TopicPage, error) {
	known := s.o.Topics.Known()
	q.Also = slices.Collect(maps.Keys(known))
	page, err := s.o.Store.Topics(ctx, q)
	if err != nil {
		return TopicPage{}, err
	}
	result := TopicPage{Topics: make([]Topic, len(page.Topics)), Next: page.Next}
	for i, stats := range page.Topics {
		t, ok := known[stats.Topic]
		if !ok {
			t.Status = topics.Active
		}
		t.Name = stats.Topic
		result.Topics[i] = Topic{Topic: t, Stats: stats, Exists: true}
	}
	return result, nil
}

// Topic returns one topic, whether or not it exists.
func (s *Scheduler) Topic(ctx context.Context, name string) (Topic, error) {
	t, err := s.o.Topics.Get(ctx, name)
	if err != nil {
		return Topic{}, err
	}
	return s.withStats(ctx, t)
}

func (s *Scheduler) withStats(ctx context.Context, t topics.Topic) (Topic, error) {
	stats, err := s.o.Store.Topic(ctx, t.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Topic{t, store.TopicStats{Topic: t.Name, DueIn: make([]int64, len(store.DueRanges))}, !t.Plain()}, nil
	case err != nil:
		return Topic{}, err
	}
	return Topic{t, stats, true}, nil
}

// TopicDefaults reads the defaults of a topic's jobs from a draft. Errors are those
// of job.Draft.Defaults.
func (s *Scheduler) TopicDefaults(d *job.Draft) (job.Defaults, error) { return d.Defaults(s.o.Limits) }

// PutTopic replaces the settings of a topic. Errors of this and the following
// calls: a *job.ValidationError, a *BlockedError, ErrTopicsFixed, and those of
// topics.Manager.
func (s *Scheduler) PutTopic(ctx context.Context, name string, settings topics.Settings, allow ...AllowTopic) (Topic, error) {
	if a := settings.Alerts; a != nil && a.URL != "" {
		if err := s.CheckDestination("alerts.url", job.Destination(a.URL)); err != nil {
			return Topic{}, err
		}
	}
	t, err := s.o.Topics.Put(ctx, name, settings, s.allowTopic(ctx, allow)...)
	if err != nil {
		return Topic{}, err
	}
	return s.withStats(ctx, t)
}

// DeleteTopic removes the settings of a topic. Its status stays.
func (s *Scheduler) DeleteTopic(ctx context.Context, name string, allow ...AllowTopic) error {
	return s.o.Topics.Delete(ctx, name, s.allowTopic(ctx, allow)...)
}

// SetTopicStatus pauses, drains or resumes a topic.
func (s *Scheduler) SetTopicStatus(ctx context.Context, name string, status topics.Status, allow ...AllowTopic) (Topic, error) {
	t, err := s.o.Topics.SetStatus(ctx, name, status, s.allowTopic(ctx, allow)...)
	if err != nil {
		return Topic{}, err
	}
	return s.withStats(ctx, t)
}

// allowTopic finds out for allow whether the topic exists.
func (s *Scheduler) allowTopic(ctx context.Context, allow []AllowTopic) (checks []topics.Allow) {
	for _, allowed := range allow {
		checks = append(checks, func(t *topics.Topic) error {
			exists := !t.Plain()
			if !exists {
				_, err := s.o.Store.Topic(ctx, t.Name)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				exists = err == nil
			}
			return allowed(t, exists)
		})
	}
	return checks
}

// noTopics are topics without settings.
type noTopics struct{}

func (noTopics) Get(_ context.Context, topic string) (topics.Topic, error) {
	return topics.Topic{Name: topic, Status: topics.Active}, nil
}
func (noTopics) Known() map[string]topics.Topic { return nil }
func (noTopics) Put(context.Context, string, topics.Settings, ...topics.Allow) (topics.Topic, error) {
	return topics.Topic{}, ErrTopicsFixed
}
func (noTopics) Delete(context.Context, string, ...topics.Allow) error { return ErrTopicsFixed }
func (noTopics) SetStatus(context.Context, string, topics.Status, ...topics.Allow) (topics.Topic, error) {
	return topics.Topic{}, ErrTopicsFixed
}
func (noTopics) Defaults(string) *job.Defaults { return nil }
