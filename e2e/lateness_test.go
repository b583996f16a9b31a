package e2e

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testenv"
)

// BenchmarkLateness measures received − due at 200 jobs/s with random due
// times, on both backends. One iteration takes 30 s: run it with -benchtime 1x,
// or as `make lateness`. It fails when the p99 is above $LATENESS_BAR.
func BenchmarkLateness(b *testing.B) {
	for _, backend := range []string{"embedded", "redis"} {
		b.Run(backend, func(b *testing.B) {
			for b.Loop() {
				measureLateness(b, backend)
			}
		})
	}
}

func measureLateness(b *testing.B, backend string) {
	const perSecond, over = 200, 30 * time.Second
	r := receiver.Start(b, receiver.Accept)
	var n *node
	if backend == "embedded" {
		n = startEmbedded(b, shipped)
	} else {
		n = startNodes(b, shipped, "a", testenv.StartRedis(b, testenv.WithAOF()).URL())[0]
	}
	l := &load{
		topic: backend, url: r.URL(), jobs: int(over.Seconds()) * perSecond,
		over: over, maxDelay: 10 * time.Second, pick: n.base,
	}
	l.run(b, rand.New(rand.NewPCG(1, 0)))
	audit(b, l, r, &cuts{}, n.base())

	var late []time.Duration
	for _, d := range r.Deliveries() {
		late = append(late, d.Arrived.Sub(d.Due))
	}
	slices.Sort(late)
	at := func(q float64) time.Duration { return late[int(q*float64(len(late)-1))] }
	b.Logf("received − due: p50 %v, p99 %v, max %v, earliest %v", at(0.5), at(0.99), at(1), at(0))
	for name, d := range map[string]time.Duration{"p50-ms": at(0.5), "p99-ms": at(0.99), "max-ms": at(1), "min-ms": at(0)} {
		b.ReportMetric(float64(d)/float64(time.Millisecond), name)
	}
	b.ReportMetric(0, "ns/op") // says nothing here
	if bar, err := time.ParseDuration(os.Getenv("LATENESS_BAR")); err == nil && at(0.99) > bar {
		b.Errorf("p99 is %v, more than %v", at(0.99), bar)
	}
}
