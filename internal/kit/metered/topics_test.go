package metered_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/store"
)

func newTopics(t *testing.T) (*metered.Topics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	topics, err := metered.NewTopics(registry, []string{"delivered", "failed"})
	if err != nil {
		t.Fatal(err)
	}
	return topics, registry
}

func shows(t *testing.T, registry *prometheus.Registry, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

const attemptsHead = `# HELP duehook_attempts_total Claimed jobs by topic and outcome. Topics beyond the busiest 1,000 count as other.
# TYPE duehook_attempts_total counter
`

func TestTopicsShowAttempts(t *testing.T) {
	topics, registry := newTopics(t)
	topics.Started("orders", 100*time.Millisecond, 1)
	topics.Ended("orders", "failed", 2)
	topics.Ended("orders", "failed", 3)
	topics.Ended("other", "failed", 3)
	shows(t, registry, attemptsHead+`duehook_attempts_total{outcome="delivered",topic="other"} 0
duehook_attempts_total{outcome="failed",topic="orders"} 2
duehook_attempts_total{outcome="failed",topic="other"} 1
# HELP duehook_topic_lateness_seconds Time from the due time of an attempt to its start, in seconds by the store's clock, by topic.
# TYPE duehook_topic_lateness_seconds histogram
duehook_topic_lateness_seconds_bucket{topic="orders",le="0.05"} 0
duehook_topic_lateness_seconds_bucket{topic="orders",le="0.25"} 1
duehook_topic_lateness_seconds_bucket{topic="orders",le="1"} 1
duehook_topic_lateness_seconds_bucket{topic="orders",le="5"} 1
duehook_topic_lateness_seconds_bucket{topic="orders",le="30"} 1
duehook_topic_lateness_seconds_bucket{topic="orders",le="300"} 1
duehook_topic_lateness_seconds_bucket{topic="orders",le="+Inf"} 1
duehook_topic_lateness_seconds_sum{topic="orders"} 0.1
duehook_topic_lateness_seconds_count{topic="orders"} 1
`, "duehook_attempts_total", "duehook_topic_lateness_seconds")
}

func TestTopicsAreBounded(t *testing.T) {
	topics, registry := newTopics(t)
	for i := range 1000 {
		topics.Ended(fmt.Sprintf("t%03d", i), "delivered", 1)
		topics.Started(fmt.Sprintf("t%03d", i), 0, 1)
	}
	for range 5 {
		topics.Ended("busy", "delivered", 2)
	}
	count := func(want int, name string) {
		t.Helper()
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != want {
			t.Errorf("%d series of %s (%v), want %d", n, name, err, want)
		}
	}
	count(1002, "duehook_attempts_total")
	topics.Ended("busy", "delivered", job.Instant(1).Add(time.Hour))
	topics.Started("busy", 0, job.Instant(1).Add(time.Hour))
	count(1002, "duehook_attempts_total") // t000 has gone
	count(1000, "duehook_topic_lateness_seconds")
	topics.Ended("t000", "failed", job.Instant(2).Add(time.Hour))
	count(1002, "duehook_attempts_total")
}

func TestTopicsShowWaitingJobs(t *testing.T) {
	topics, registry := newTopics(t)
	const names = "duehook_topic_due_jobs duehook_topic_oldest_due_seconds"
	shows(t, registry, "", strings.Fields(names)...)
	all := store.Backlogs{Now: 10_000}
	for i := range 1000 {
		topics.Ended(fmt.Sprintf("t%03d", i), "delivered", 1)
	}
	all.Topics = []store.Backlog{{Topic: "new", Jobs: 3, Oldest: 9_000}, {Topic: "newer", Jobs: 4, Oldest: 8_000}, {Topic: "t001", Jobs: 2, Oldest: 9_500}}
	topics.Waiting(&all)
	const want = `# HELP duehook_topic_due_jobs Due jobs that wait, by topic: for a carrier, for a place under a limit, or for a circuit.
# TYPE duehook_topic_due_jobs gauge
duehook_topic_due_jobs{topic="other"} 7
duehook_topic_due_jobs{topic="t001"} 2
# HELP duehook_topic_oldest_due_seconds Time since the oldest due job that waits has been due, in seconds, by topic.
# TYPE duehook_topic_oldest_due_seconds gauge
duehook_topic_oldest_due_seconds{topic="other"} 2
duehook_topic_oldest_due_seconds{topic="t001"} 0.5
`
	shows(t, registry, want, strings.Fields(names)...)
	topics.Waiting(nil)
	shows(t, registry, "", strings.Fields(names)...)
}
