package topics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/kit/documents"
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
	return m.known.Run(ctx, documents.Following{
		What: "reconciling topics with the limits of the store", From: m.o.Store, Channel: channel,
		Every: reconcileEvery, Retry: retryPause, Limit: callTimeout, Clock: m.o.Clock, Logger: m.o.Logger,
		Refresh: func(ctx context.Context) error {
			if err := m.Reconcile(ctx); err != nil {
				return err
			}
			return m.resumeDue(ctx)
		},
	})
}

// gauges shows the number of topics with settings or a status.
type gauges struct{ m *Manager }

var topicsDesc = prometheus.NewDesc("duehook_topics_set",
	"Topics with settings, or paused or draining, by status.", []string{"status"}, nil)

func (g gauges) Describe(ch chan<- *prometheus.Desc) { ch <- topicsDesc }

func (g gauges) Collect(ch chan<- prometheus.Metric) {
	counts := map[State]int{}
	for _, t := range g.m.Known() {
		counts[t.State]++
	}
	for _, s := range []State{Active, Paused, Draining} {
		ch <- prometheus.MustNewConstMetric(topicsDesc, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
}
