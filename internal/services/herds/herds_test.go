package herds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/store"
)

// due is the jobs of topics by the minute in which they are due, from 0 on.
type due struct {
	store.Reader // for calls that are not made

	topics  map[string]map[int]int64
	limits  map[string]store.Limits
	partial job.Instant
	most    int // entries that the calls may examine
	fail    error
}

func (d *due) Shards() int { return 1 }

// Entries has a lane of each topic.
func (d *due) Entries(_ context.Context, _ store.Index, span store.Span) (all []store.Entry, _ *store.Position, _ error) {
	for topic := range d.topics {
		if span.After == nil {
			all = append(all, store.Entry{Position: store.Position{ID: laneOf(topic)}})
		}
	}
	if d.partial != 0 && span.After == nil {
		all = append(all, store.Entry{Position: store.Position{ID: laneOf("partial")}})
	}
	return all, nil, nil
}

func (d *due) Names(_ context.Context, q store.NameQuery) ([]string, error) {
	return []string{laneOf(q.Topic)}, nil
}

func (d *due) Figures(_ context.Context, q store.FigureQuery) (store.Figures, error) {
	f := store.Figures{Limits: d.limits}
	d.most += q.Due.Most
	for _, lane := range q.Lanes {
		counts := make([]int64, len(q.Due.Bounds)-1)
		for minute, n := range d.topics[job.TopicOfLane(lane)] {
			if minute < len(counts) {
				counts[minute] += n
			}
		}
		f.Lanes = append(f.Lanes, store.LaneFigures{Due: counts, PartialFrom: d.partial})
	}
	return f, d.fail
}

func laneOf(topic string) string {
	return job.Lane{Topic: topic, Endpoint: "http://a.example:80"}.String()
}

func TestComing(t *testing.T) {
	now := job.InstantOf(time.Date(2026, 1, 1, 8, 59, 30, 0, time.UTC))
	at := func(minute int) job.Instant { return now.Add(30*time.Second + time.Duration(minute)*time.Minute) }
	limits := map[string]store.Limits{"slow": {Rate: 0.5}, "capped": {Capacity: 1}}
	for name, tt := range map[string]struct {
		past   int64 // attempts of each minute
		topics map[string]map[int]int64
		want   []Herd
	}{
		"nothing":                  {0, nil, nil},
		"few jobs at once":         {0, map[string]map[int]int64{"t": {3: 99}}, nil},
		"many jobs at once":        {0, map[string]map[int]int64{"t": {3: 100}}, []Herd{{at(3), "", 100, 99}}},
		"as usual":                 {300, map[string]map[int]int64{"t": {3: 600}}, nil},
		"more than twice":          {300, map[string]map[int]int64{"t": {3: 601, 0: 12}}, []Herd{{at(3), "", 601, 600}}},
		"of several topics":        {0, map[string]map[int]int64{"t": {59: 60}, "u": {59: 60}}, []Herd{{at(59), "", 120, 99}}},
		"later":                    {0, map[string]map[int]int64{"t": {60: 1000}}, nil},
		"as much as a rate allows": {0, map[string]map[int]int64{"slow": {2: 30}}, nil},
		"above a rate":             {0, map[string]map[int]int64{"slow": {2: 31, 1: 150}}, []Herd{{at(1), "", 150, 99}, {at(1), "slow", 150, 30}, {at(2), "slow", 31, 30}}},
	} {
		past := recent.Activity{Delivered: make([]int64, recent.Minutes), Failed: make([]int64, recent.Minutes)}
		for i := range past.Delivered {
			past.Delivered[i], past.Failed[i] = tt.past-tt.past/3, tt.past/3
		}
		got, complete, err := Coming(t.Context(), &due{topics: tt.topics, limits: limits}, now, &past)
		if diff := cmp.Diff(tt.want, got); diff != "" || !complete || err != nil {
			t.Errorf("%s: complete %v, %v:\n%s", name, complete, err, diff)
		}
	}
	if _, complete, _ := Coming(t.Context(), &due{partial: at(5)}, now, &recent.Activity{}); complete {
		t.Error("partial counts are complete")
	}
	if _, _, err := Coming(t.Context(), &due{fail: store.ErrUnavailable}, now, &recent.Activity{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

// The counts of topics share what they examine.
func TestManyTopicsExamineNoMore(t *testing.T) {
	limits := map[string]store.Limits{}
	for i := range 2 * maxTopics {
		limits[fmt.Sprint("t", i)] = store.Limits{Rate: 1}
	}
	counted := due{limits: limits}
	if _, complete, err := Coming(t.Context(), &counted, 0, &recent.Activity{}); complete || err != nil || counted.most > mostExamined {
		t.Errorf("complete %v, up to %d entries, error %v", complete, counted.most, err)
	}
}
