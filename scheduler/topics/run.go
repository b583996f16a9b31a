package topics

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/follow"
	"github.com/duehook/duehook/internal/kit/mailbox"
	"github.com/duehook/duehook/internal/kit/outage"
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
	changed := mailbox.New[struct{}]()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		follow.Channel(ctx, m.o.Store, channel, m.o.Clock, m.o.Logger, func(topic []byte) {
			changed.Put(string(topic), struct{}{})
		})
		return nil
	})
	var reconciled time.Time
	group.Go(func() error {
		outage.New("reconciling topics with the limits of the store", m.o.Clock, m.o.Logger, nil).Repeat(ctx, outage.Task{
			Every: reconcileEvery, Retry: retryPause, Limit: callTimeout, Wake: changed.Wake,
			Do: func(ctx context.Context) error {
				names, now := changed.Take(), m.o.Clock.Now()
				_, lost := names[""] // the node has just begun to listen: messages may be lost
				if len(names) > 0 && !lost && now.Sub(reconciled) < reconcileEvery && m.learnAll(ctx, names) == nil {
					return nil
				}
				reconciled = now
				if err := m.Reconcile(ctx); err != nil {
					return err
				}
				return m.resumeDue(ctx)
			},
		})
		return nil
	})
	return group.Wait()
}

// learnAll reads the topics that other nodes changed. These have set the limits.
func (m *Manager) learnAll(ctx context.Context, names map[string]struct{}) error {
	m.limitsMu.Lock()
	defer m.limitsMu.Unlock()
	for name := range names {
		if _, err := m.learn(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// gauges shows the number of topics with settings or a status.
type gauges struct{ m *Manager }

var topicsDesc = prometheus.NewDesc("duehook_topics_set",
	"Topics with settings, or paused or draining, by status.", []string{"status"}, nil)

func (g gauges) Describe(ch chan<- *prometheus.Desc) { ch <- topicsDesc }

func (g gauges) Collect(ch chan<- prometheus.Metric) {
	counts := map[State]int{}
	for _, t := range *g.m.known.Load() {
		counts[t.State]++
	}
	for _, s := range []State{Active, Paused, Draining} {
		ch <- prometheus.MustNewConstMetric(topicsDesc, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
}
