package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/hostile"
	"github.com/duehook/duehook/internal/testenv"
)

// BenchmarkLatenessBesideZoo measures received − due of 200 jobs/s alone, and
// beside 100 jobs for each hostile server that are due at the same time and have
// the default timeout. The rounds alternate, each on a fresh node with the
// default settings; the ratio is that of the medians of their p99. It takes 4
// minutes: run it with -benchtime 1x, or as `make zoo`.
func BenchmarkLatenessBesideZoo(b *testing.B) {
	zoo := hostile.Start(b)
	for b.Loop() {
		var alone, beside []time.Duration
		for range 1 {
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
	const perSecond, over = 200, 30 * time.Second
	r := receiver.Start(b, receiver.Accept)
	n := startForZoo(b, zoo)
	if how == "beside" {
		registerZoo(b, n.base(), zoo, clock.Now().Add(5*time.Second), 20*time.Second, dispatcher.DefaultTimeout)
	}
	l := &load{
		topic: "healthy", url: r.URL(), jobs: int(over.Seconds()) * perSecond,
		over: over, maxDelay: 5 * time.Second, pick: n.base,
	}
	l.run(b, rand.New(rand.NewPCG(1, 0)))
	testenv.Eventually(b, deliverLimit, func() bool { return r.Jobs() == l.jobs }, "all healthy jobs to arrive")
	var late []time.Duration
	for _, d := range r.Deliveries() {
		late = append(late, d.Arrived.Sub(d.Due))
	}
	states := map[string]int{}
	if how == "beside" {
		states = getTopic(b, n.base(), zooTopic).States
	}
	n.stop()
	slices.Sort(late)
	at := func(q float64) time.Duration { return late[int(q*float64(len(late)-1))] }
	b.Logf("%s: p50 %v, p99 %v, max %v; the zoo's jobs: %v", how, at(0.5), at(0.99), at(1), states)
	return at(0.99)
}
