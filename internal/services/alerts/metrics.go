package alerts

import "github.com/prometheus/client_golang/prometheus"

// firingGauge shows the firing alerts, as of the last read.
type firingGauge struct{ m *Manager }

var firingDesc = prometheus.NewDesc("duehook_alert_firing",
	"Alerts that fire, by rule; the same on every node.", []string{"rule"}, nil)

// Describe implements prometheus.Collector.
func (firingGauge) Describe(ch chan<- *prometheus.Desc) { ch <- firingDesc }

// Collect implements prometheus.Collector.
func (g firingGauge) Collect(ch chan<- prometheus.Metric) {
	firing := g.m.firing.Load()
	if firing == nil {
		return
	}
	for rule, n := range *firing {
		ch <- prometheus.MustNewConstMetric(firingDesc, prometheus.GaugeValue, float64(n), rule)
	}
}

// show sets the metric; rules that do not fire have 0.
func (m *Manager) show(rules []Rule, books map[string]*storedBook) {
	firing := make(map[string]int, len(rules))
	for i := range rules {
		if !rules[i].Newer {
			firing[rules[i].Name] = 0
		}
	}
	for name, b := range books {
		for i := range b.Value.Alerts {
			if b.Value.Alerts[i].Firing() {
				firing[name]++
			}
		}
	}
	m.firing.Store(&firing)
}
