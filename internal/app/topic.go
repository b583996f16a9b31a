package app

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Topic is a topic with its jobs.
type Topic struct {
	topics.Topic
	Stats store.TopicStats
	// DueIn counts the unfinished jobs by DueRanges, in that order. The first range
	// includes overdue jobs and jobs in flight. Nil in listings of topics.
	DueIn []int64
	// Overdue are the due jobs that nobody has claimed. Zero in listings of topics.
	Overdue int64
	// DuePartial says that the topic has too many lanes: DueIn leaves some out.
	DuePartial bool
	// Exists is false when the topic has no job, no settings, no limits and no state.
	Exists bool
}

// DueRanges are the ranges by which Topic.DueIn counts jobs: the time from now until
// they next need attention. A range ends before its bound.
var DueRanges = []struct {
	Name  string
	Below time.Duration // zero: no bound
}{
	{"0_1min", time.Minute},
	{"1_10min", 10 * time.Minute},
	{"10_30min", 30 * time.Minute},
	{"30min_1h", time.Hour},
	{"1_6h", 6 * time.Hour},
	{"6h_1day", 24 * time.Hour},
	{"1_7day", 7 * 24 * time.Hour},
	{"7_30day", 30 * 24 * time.Hour},
	{"30day_more", 0},
}

// TopicPage is a page of topics; Next is empty on the last.
type TopicPage struct {
	Topics []Topic
	Next   string
}

// Topics returns a page of the topics that hold jobs or have settings.
func (s *App) Topics(ctx context.Context, q store.TopicQuery) (TopicPage, error) {
	known := s.o.Topics.Known()
	q.Also = slices.Collect(maps.Keys(known))
	var page store.TopicPage
	err := access.Paged(ctx, q.Cursor, func(cursor string) (next *string, err error) {
		q.Cursor = cursor
		page, err = listing.Topics(ctx, s.o.Store, q)
		return &page.Next, err
	})
	if err != nil {
		return TopicPage{}, err
	}
	result := TopicPage{Topics: make([]Topic, len(page.Topics)), Next: page.Next}
	for i, stats := range page.Topics {
		t, ok := known[stats.Topic]
		if !ok {
			t.State = topics.Active
		}
		if t, err = s.currently(ctx, t); err != nil {
			return TopicPage{}, err
		}
		t.Name, t.Settings = stats.Topic, t.Settings.Shown(access.SightOf(ctx))
		result.Topics[i] = Topic{Topic: t, Stats: stats, Exists: true}
	}
	return result, nil
}

// currently is a topic as it is now: a pause may have ended by itself.
func (s *App) currently(ctx context.Context, t topics.Topic) (topics.Topic, error) {
	if t.Pause == nil || t.Pause.Until == 0 {
		return t, nil
	}
	now, err := store.Now(ctx, s.o.Store)
	return t.At(now), err
}

// Topic returns one topic, whether or not it exists.
func (s *App) Topic(ctx context.Context, name string) (Topic, error) {
	t, err := s.o.Topics.Get(ctx, name)
	if err != nil {
		return Topic{}, err
	}
	return s.withStats(ctx, t)
}

func (s *App) withStats(ctx context.Context, t topics.Topic) (Topic, error) {
	t, err := s.currently(ctx, t)
	if err != nil {
		return Topic{}, err
	}
	t.Settings = t.Settings.Shown(access.SightOf(ctx))
	stats, exists, err := s.stats(ctx, t.Name)
	if err != nil {
		return Topic{}, err
	}
	result := Topic{Topic: t, Stats: stats, DueIn: make([]int64, len(DueRanges)), Exists: exists || !t.Plain()}
	if !exists {
		return result, nil
	}
	now, err := store.Now(ctx, s.o.Store)
	if err != nil {
		return Topic{}, err
	}
	bounds := []job.Instant{now + 1}
	for _, r := range DueRanges[:len(DueRanges)-1] {
		bounds = append(bounds, now.Add(r.Below))
	}
	due, err := listing.DueCounts(ctx, s.o.Store, store.DueOf{Topic: t.Name}, bounds)
	if err != nil {
		return Topic{}, err
	}
	result.Overdue = due.Counts[0] + stats.States[job.Ready]
	result.DueIn, result.DuePartial = due.Counts[1:], due.PartialFrom != 0
	result.DueIn[0] += result.Overdue + stats.States[job.Running]
	return result, nil
}

// stats returns the counts of a topic; exists is false if it holds no job.
func (s *App) stats(ctx context.Context, topic string) (stats store.TopicStats, exists bool, err error) {
	page, err := listing.Topics(ctx, s.o.Store, store.TopicQuery{Topic: topic, Limit: 1})
	if err != nil || len(page.Topics) == 0 {
		return store.TopicStats{Topic: topic}, false, err
	}
	return page.Topics[0], true, nil
}

// fill sets absent fields of a draft to the defaults of its topic.
func (s *App) fill(d *job.Draft, topic string, spec *job.Spec) {
	if defaults := s.defaults(topic); defaults != nil {
		*spec = defaults.Apply(d, *spec)
	}
}

// defaults are the defaults of the topic's jobs, or nil.
func (s *App) defaults(topic string) *job.Defaults {
	if s.o.Topics == nil {
		return nil
	}
	return s.o.Topics.Defaults(topic)
}

// TopicSettings checks the settings of a topic, and reads the defaults of its jobs from a
// draft. The error is a *job.ValidationError.
func (s *App) TopicSettings(settings topics.Settings, defaults *job.Draft) (topics.Settings, error) {
	var f job.Findings
	var err error
	settings.Defaults, err = defaults.Defaults(s.o.Bounds)
	_ = f.Take("", err)
	_ = f.Take("", settings.Check())
	return settings, f.Err()
}

// PutTopic replaces the settings of a topic; created: it had none. Errors of this and the following
// calls: a *job.ValidationError, a *BlockedError, and those of
// topics.Manager.
func (s *App) PutTopic(ctx context.Context, name string, settings topics.Settings, allow ...documents.Allow) (t Topic, created bool, err error) {
	if d := settings.Defaults.Destination; d != "" {
		if err := s.CheckDestination("url", d); err != nil {
			return Topic{}, false, err
		}
	}
	if err := s.checkCallbacks("", settings.Defaults.Callbacks); err != nil {
		return Topic{}, false, err
	}
	set, had, err := s.o.Topics.Put(ctx, name, settings, s.allowTopic(ctx, name, allow)...)
	if err != nil {
		return Topic{}, false, err
	}
	t, err = s.withStats(ctx, set)
	return t, !had && !settings.Empty(), err
}

// DeleteTopic removes the settings of a topic. Its status and the limits of operators stay.
func (s *App) DeleteTopic(ctx context.Context, name string, allow ...documents.Allow) error {
	return s.o.Topics.Delete(ctx, name, s.allowTopic(ctx, name, allow)...)
}

// TopicLimits are the limits of operators for a topic, and the version of the topic. The error may be
// topics.ErrNoLimits.
func (s *App) TopicLimits(ctx context.Context, name string) (topics.Topic, error) {
	t, err := s.o.Topics.Get(ctx, name)
	if err == nil && t.Limits == (topics.Limits{}) {
		err = topics.ErrNoLimits
	}
	return t, err
}

// PutTopicLimits replaces the limits of operators for a topic; created: there were none.
func (s *App) PutTopicLimits(ctx context.Context, name string, l topics.Limits, allow ...documents.Allow) (t topics.Topic, created bool, err error) {
	t, had, err := s.o.Topics.PutLimits(ctx, name, l, s.allowTopic(ctx, name, allow)...)
	return t, !had && l != topics.Limits{}, err
}

// DeleteTopicLimits removes the limits of operators for a topic.
func (s *App) DeleteTopicLimits(ctx context.Context, name string, allow ...documents.Allow) error {
	return s.o.Topics.DeleteLimits(ctx, name, s.allowTopic(ctx, name, allow)...)
}

// SetTopicState pauses, drains or resumes a topic. p is why.
func (s *App) SetTopicState(ctx context.Context, name string, state topics.State, p job.Pause, allow ...documents.Allow) (Topic, error) {
	t, err := s.o.Topics.SetState(ctx, name, state, p, s.allowTopic(ctx, name, allow)...)
	if err != nil {
		return Topic{}, err
	}
	return s.withStats(ctx, t)
}

// allowTopic finds out for allow whether the topic exists. One that only has jobs has the version 0.
func (s *App) allowTopic(ctx context.Context, topic string, allow []documents.Allow) (checks []documents.Allow) {
	for _, allowed := range allow {
		checks = append(checks, func(exists bool, version uint64) (err error) {
			if !exists {
				if _, exists, err = s.stats(ctx, topic); err != nil {
					return err
				}
			}
			return allowed(exists, version)
		})
	}
	return checks
}
