package topics

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/follow"
	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/internal/kit/signal"
)

// Load reconciles until it has succeeded once. A store that loses limits with its process
// must not carry before: a paused topic would resume after a restart. Load returns early
// when ctx ends.
func (m *Manager) Load(ctx context.Context) {
	loads, cancel := context.WithCancel(ctx)
	defer cancel()
	outage.New("reading topics before the first delivery", m.o.Clock, m.o.Logger, nil).Repeat(loads, outage.Task{
		Every: retryPause, Limit: callTimeout,
		Do: func(ctx context.Context) error {
			err := m.Reconcile(ctx)
			if err == nil {
				cancel()
			}
			return err
		},
	})
}

// Run follows the changes of other nodes and keeps the store's limits up to date, until
// ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	look, changed := signal.New(), changes{}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		follow.Channel(ctx, m.o.Store, channel, m.o.Clock, m.o.Logger, func(topic []byte) {
			changed.add(string(topic))
			look.Set()
		})
		return nil
	})
	var reconciled time.Time
	group.Go(func() error {
		outage.New("reconciling topics with the limits of the store", m.o.Clock, m.o.Logger, nil).Repeat(ctx, outage.Task{
			Every: reconcileEvery, Retry: retryPause, Limit: callTimeout, Wake: look,
			Do: func(ctx context.Context) error {
				names, now := changed.take(), m.o.Clock.Now()
				if len(names) > 0 && now.Sub(reconciled) < reconcileEvery && m.learnAll(ctx, names) == nil {
					return nil
				}
				reconciled = now
				return m.Reconcile(ctx)
			},
		})
		return nil
	})
	return group.Wait()
}

// learnAll reads the topics that other nodes changed. These have set the limits.
func (m *Manager) learnAll(ctx context.Context, names map[string]bool) error {
	m.limitsMu.Lock()
	defer m.limitsMu.Unlock()
	for name := range names {
		if _, err := m.learn(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// changes are the names of changed topics.
type changes struct {
	mu    sync.Mutex
	names map[string]bool
}

func (c *changes) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = map[string]bool{}
	}
	c.names[name] = true
}

func (c *changes) take() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return names
}

// gauges shows the number of topics with settings or a status.
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
