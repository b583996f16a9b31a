package topics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/documents"
)

// AwaitLoad waits until Reconcile has succeeded once, or ctx ends. A store that loses limits with its process
// must not carry before: a paused topic would resume after a restart.
func (m *Manager) AwaitLoad(ctx context.Context) {
	select {
	case <-m.isLoaded:
	case <-ctx.Done():
	}
}

// Ready is documents.ErrUnread until Reconcile has succeeded once.
func (m *Manager) Ready() error {
	select {
	case <-m.isLoaded:
		return nil
	default:
		return documents.ErrUnread
	}
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
