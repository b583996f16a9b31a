package metered

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// otherTopics is the label of all topics without series of their own.
	otherTopics = "other"
	// topicSeries is how many topics have series of their own.
	topicSeries = 1000
	// topicPeriod is how often a busier topic may replace another one.
	topicPeriod = time.Hour
)

// Topics are the metrics by topic. They are bounded: the busiest 1,000 topics have series
// of their own. It is safe for concurrent use.
type Topics struct {
	outcomes []string
	attempts *prometheus.CounterVec
	lateness *prometheus.HistogramVec

	mu      sync.Mutex
	names   *Busiest
	backlog []topicBacklog
}

// topicBacklog is what a label shows of the last sample.
type topicBacklog struct {
	label  string
	jobs   float64
	oldest float64 // seconds
}

// NewTopics returns the metrics, registered with r unless that is nil. Outcomes are the
// values of the label "outcome".
func NewTopics(r prometheus.Registerer, outcomes []string) (*Topics, error) {
	t := &Topics{
		outcomes: outcomes,
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duehook_attempts_total",
			Help: "Claimed jobs by topic and outcome. Topics beyond the busiest 1,000 count as other.",
		}, []string{"topic", "outcome"}),
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "duehook_topic_lateness_seconds", Buckets: []float64{.05, .25, 1, 5, 30, 300},
			Help: "Time from the due time of an attempt to its start, in seconds by the store's clock, by topic.",
		}, []string{"topic"}),
		names: NewBusiest(topicSeries, topicPeriod),
	}
	for _, o := range outcomes {
		t.attempts.WithLabelValues(otherTopics, o) // so that every outcome is shown from the start
	}
	return t, Register(r, "topics", t.attempts, t.lateness, t)
}

// Started records the lateness of an attempt.
func (t *Topics) Started(topic string, late time.Duration, at job.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lateness.WithLabelValues(t.label(topic, at)).Observe(late.Seconds())
}

// Ended counts a claimed job with its outcome.
func (t *Topics) Ended(topic, outcome string, at job.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts.WithLabelValues(t.label(topic, at), outcome).Inc()
}

// Waiting replaces the figures of due jobs that wait. Nil: they are unknown, and not shown.
func (t *Topics) Waiting(b *store.Backlogs) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b == nil {
		t.backlog = nil
		return
	}
	t.backlog = []topicBacklog{{label: otherTopics}} // so that the metrics are there without a backlog
	at := map[string]int{otherTopics: 0}
	for _, topic := range b.Topics {
		label := t.label(topic.Topic, b.Now)
		i, known := at[label]
		if !known {
			i, at[label] = len(t.backlog), len(t.backlog)
			t.backlog = append(t.backlog, topicBacklog{label: label})
		}
		shown := &t.backlog[i]
		shown.jobs += float64(topic.Jobs)
		shown.oldest = max(shown.oldest, b.Now.Sub(topic.Oldest).Seconds())
	}
}

// label returns the label of a topic, and deletes the series of topics that lost theirs.
// The caller holds mu.
func (t *Topics) label(topic string, at job.Instant) string {
	if topic == otherTopics {
		return otherTopics
	}
	has, lost := t.names.Use(topic, at)
	for _, name := range lost {
		t.lateness.DeleteLabelValues(name)
		for _, outcome := range t.outcomes {
			t.attempts.DeleteLabelValues(name, outcome)
		}
	}
	if !has {
		return otherTopics
	}
	return topic
}

var (
	topicDueDesc = prometheus.NewDesc("duehook_topic_due_jobs",
		"Due jobs that wait, by topic: for a carrier, for a place under a limit, or for a circuit.", []string{"topic"}, nil)
	topicOldestDesc = prometheus.NewDesc("duehook_topic_oldest_due_seconds",
		"Time since the oldest due job that waits has been due, in seconds, by topic.", []string{"topic"}, nil)
)

// Describe implements prometheus.Collector.
func (*Topics) Describe(ch chan<- *prometheus.Desc) {
	ch <- topicDueDesc
	ch <- topicOldestDesc
}

// Collect implements prometheus.Collector.
func (t *Topics) Collect(ch chan<- prometheus.Metric) {
	t.mu.Lock()
	shown := t.backlog // replaced, never changed
	t.mu.Unlock()
	for _, b := range shown {
		ch <- prometheus.MustNewConstMetric(topicDueDesc, prometheus.GaugeValue, b.jobs, b.label)
		ch <- prometheus.MustNewConstMetric(topicOldestDesc, prometheus.GaugeValue, b.oldest, b.label)
	}
}
