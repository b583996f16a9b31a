// Package herds finds the minutes to come in which unusually many jobs are due.
package herds

import (
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

const (
	// Minutes is how many whole minutes to come are examined.
	Minutes = 60
	// Least is the fewest jobs of all topics that are a herd.
	Least = 100
	// maxTopics bounds the topics with a rate that are examined, the first by name.
	maxTopics = 100
	// mostExamined bounds what the counts of these topics examine together, as store.DueOf.Most.
	mostExamined = 300_000
)

// Herd is a minute in which more jobs are due than usual, or than the rate of a topic allows.
type Herd struct {
	At    job.Instant // the beginning of the minute
	Topic string      // empty: all topics
	Jobs  int64       // due in it
	Limit int64       // what they exceed: twice the usual, or the rate of the topic
}

// Coming returns the herds of the next hour, by time. Usual is the average of a minute: of the
// attempts of the past hour, or of the jobs due in the next hour if that is more. complete is
// false if not all jobs or topics were counted.
func Coming(ctx context.Context, s store.Reader, now job.Instant, past *recent.Activity) (herds []Herd, complete bool, err error) {
	limits, err := listing.Limits(ctx, s)
	if err != nil {
		return nil, false, err
	}
	limits = maps.Clone(limits)
	maps.DeleteFunc(limits, func(_ string, l store.Limits) bool { return l.Rate == 0 })
	topics := slices.Sorted(maps.Keys(limits))
	complete = len(topics) <= maxTopics
	bounds := minutesAfter(now)
	count := func(of store.DueOf) ([]int64, error) {
		of.Within = true
		due, err := listing.DueCounts(ctx, s, of, bounds)
		if err != nil {
			return nil, err
		}
		complete = complete && (due.PartialFrom == 0 || due.PartialFrom >= bounds[Minutes])
		return due.Counts, nil
	}
	all, err := count(store.DueOf{})
	if err != nil {
		return nil, false, err
	}
	herds = above(all, bounds, "", max(2*usual(past, all), Least-1))
	topics = topics[:min(len(topics), maxTopics)]
	for _, topic := range topics {
		due, err := count(store.DueOf{Topic: topic, Most: mostExamined / len(topics)})
		if err != nil {
			return nil, false, err
		}
		herds = append(herds, above(due, bounds, topic, int64(limits[topic].Rate*time.Minute.Seconds()))...)
	}
	sort.SliceStable(herds, func(i, j int) bool { return herds[i].At < herds[j].At })
	return herds, complete, nil
}

// minutesAfter are the bounds of the whole minutes after now.
func minutesAfter(now job.Instant) []job.Instant {
	minute := job.Instant(time.Minute.Milliseconds())
	bounds := make([]job.Instant, Minutes+1)
	for i := range bounds {
		bounds[i] = now - now%minute + job.Instant(i+1)*minute
	}
	return bounds
}

func usual(past *recent.Activity, due []int64) int64 {
	var attempts, coming int64
	for i := range past.Delivered {
		attempts += past.Delivered[i] + past.Failed[i]
	}
	for _, n := range due {
		coming += n
	}
	return max(attempts/recent.Minutes, coming/Minutes)
}

// above returns the minutes with more jobs than limit.
func above(due []int64, bounds []job.Instant, topic string, limit int64) (herds []Herd) {
	for i, n := range due {
		if n > limit {
			herds = append(herds, Herd{At: bounds[i], Topic: topic, Jobs: n, Limit: limit})
		}
	}
	return herds
}
