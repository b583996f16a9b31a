package rules

import (
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func TestHold(t *testing.T) {
	const now = job.Instant(1_000_000)
	look := now.Add(UncalledLook)
	for name, test := range map[string]struct {
		topic    Topic
		inFlight int
		until    job.Instant
		called   bool
	}{
		"without limits":     {topic: Topic{}},
		"paused":             {topic: Topic{Limits: store.Limits{Paused: true}}, until: look},
		"paused for a while": {topic: Topic{Limits: store.Limits{Paused: true, PausedUntil: now + 5}}, until: now + 5},
		"paused for long":    {topic: Topic{Limits: store.Limits{Paused: true, PausedUntil: look + 5}}, until: look},
		"no longer paused":   {topic: Topic{Limits: store.Limits{Paused: true, PausedUntil: now}}},
		"a place is free":    {topic: Topic{Limits: store.Limits{Concurrency: 3}}, inFlight: 2},
		"no place is free":   {topic: Topic{Limits: store.Limits{Concurrency: 3}}, inFlight: 3, until: look, called: true},
		"the rate allows":    {topic: Topic{Limits: store.Limits{Rate: 1}, Next: float64(now)}},
		"the rate is used":   {topic: Topic{Limits: store.Limits{Rate: 1}, Next: float64(now + 300)}, until: now + 300},
		"a fast rate":        {topic: Topic{Limits: store.Limits{Rate: 1000}, Next: float64(now) + 0.5}, until: now.Add(PaceGap)},
	} {
		t.Run(name, func(t *testing.T) {
			until, called := test.topic.Hold(now, test.inFlight)
			if until != test.until || called != test.called {
				t.Errorf("held until %d, called %v; want %d, %v", until, called, test.until, test.called)
			}
		})
	}
}
