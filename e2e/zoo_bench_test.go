package e2e

import (
	"testing"
	"time"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/testing/hostile"
)

// BenchmarkLatenessBesideZoo measures received − due of 200 jobs/s alone, and
// beside 100 jobs for each hostile server that are due at the same time and have
// the default timeout. The rounds alternate, each on a fresh node with the
// default settings; the ratio is that of the medians of their p99. It takes 4
// minutes: run it with -benchtime 1x, or as `make soak PART=zoo`.
func BenchmarkLatenessBesideZoo(b *testing.B) {
	zoo := hostile.Start(b)
	for b.Loop() {
		var alone, beside []time.Duration
		for range neighbourRounds {
			alone = append(alone, latenessWithZoo(b, zoo, "alone"))
			beside = append(beside, latenessWithZoo(b, zoo, "beside"))
		}
		b.ReportMetric(0, "ns/op") // says nothing here
		b.ReportMetric(milliseconds(median(alone)), "alone-p99-ms")
		b.ReportMetric(milliseconds(median(beside)), "beside-p99-ms")
		b.ReportMetric(float64(median(beside))/float64(median(alone)), "beside/alone")
	}
}

// latenessWithZoo gives the p99 of the healthy jobs.
func latenessWithZoo(b *testing.B, zoo *hostile.Zoo, how string) time.Duration {
	b.Helper()
	n := startForZoo(b, zoo)
	if how == "beside" {
		registerZoo(b, n.base(), zoo, clock.Now().Add(5*time.Second), 20*time.Second, dispatcher.DefaultTimeout)
	}
	late := healthyLateness(b, n, "healthy")
	states := map[string]int{}
	if how == "beside" {
		states = getTopic(b, n.base(), zooTopic).States
	}
	n.stop()
	b.Logf("%s: %v; the zoo's jobs: %v", how, late, states)
	return late.at(0.99)
}
