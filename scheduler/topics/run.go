package topics

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Load compares until that has succeeded once. A store that forgets limits with
// its process must not carry before, or a paused topic would go on after a
// restart. It returns early when ctx ends.
func (m *Manager) Load(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := m.Compare(limited)
		cancel()
		if err == nil {
			return
		}
		if !failing {
			m.o.Logger.WarnContext(ctx, "topics cannot be read; nothing is delivered before they can", "error", err)
			failing = true
		}
		_ = job.Sleep(ctx, m.o.Clock, retryPause) // the loop looks at ctx
	}
}

// Run follows what other nodes change, and sees to it that the store obeys,
// until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	look := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		store.Follow(ctx, m.o.Store, channel, func([]byte) {
			select {
			case look <- struct{}{}:
			default: // it is told
			}
		}, store.PauseBetween(m.o.Clock, m.o.Logger, "changes of topics"))
		return nil
	})
	group.Go(func() error {
		m.follow(ctx, look)
		return nil
	})
	return group.Wait()
}

func (m *Manager) follow(ctx context.Context, look <-chan struct{}) {
	failing := false
	for {
		pause := compareEvery
		if failing {
			pause = retryPause
		}
		timer := m.o.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-look:
			timer.Stop()
		case <-timer.C():
		}
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := m.Compare(limited)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			m.o.Logger.WarnContext(ctx, "topics cannot be compared with what the store obeys; it is tried again", "error", err)
		}
		failing = err != nil
	}
}

// gauges shows how many topics there are that are not as all others are.
type gauges struct{ m *Manager }

var topicsDesc = prometheus.NewDesc("duehook_topics_set",
	"Topics with settings, or paused or draining, by status.", []string{"status"}, nil)

func (g gauges) Describe(ch chan<- *prometheus.Desc) { ch <- topicsDesc }

func (g gauges) Collect(ch chan<- prometheus.Metric) {
	counts := map[Status]int{}
	for _, t := range *g.m.known.Load() {
		counts[t.Status]++
	}
	for _, s := range []Status{Active, Paused, Draining} {
		ch <- prometheus.MustNewConstMetric(topicsDesc, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
}
