package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// BenchmarkLateness measures received − due at 200 jobs/s with random due
// times, on both backends. One iteration takes 30 s: run it with -benchtime 1x,
// or as `make soak PART=lateness`. It fails when the p99 is above $LATENESS_BAR.
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
	n := startOn(b, backend)
	l := &load{
		topic: backend, url: r.URL(), jobs: int(over.Seconds()) * perSecond,
		over: over, maxDelay: 10 * time.Second, pick: n.base,
	}
	l.run(b, rand.New(rand.NewPCG(1, 0)))
	audit(b, l, r, &cuts{}, n.base())

	late := latenessOf(r)
	b.Logf("received − due: %v", late)
	for name, q := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1, "min-ms": 0} {
		b.ReportMetric(milliseconds(late.at(q)), name)
	}
	b.ReportMetric(0, "ns/op") // says nothing here
	if bar, err := time.ParseDuration(os.Getenv("LATENESS_BAR")); err == nil && late.at(0.99) > bar {
		b.Errorf("p99 is %v, more than %v", late.at(0.99), bar)
	}
}

// startOn starts a node as shipped, with a Redis of its own if the backend is
// that.
func startOn(b *testing.B, backend string) *node {
	b.Helper()
	switch backend {
	case "embedded":
		return startEmbedded(b, shipped)
	case "postgres":
		return startNodesOn(b, shipped, "a", "--postgres-url", testenv.Postgres(b, true).URL("postgres"))[0]
	}
	return startNodes(b, shipped, "a", testenv.StartRedis(b, testenv.WithAOF()).URL())[0]
}

// latenesses are received − due of deliveries, in order.
type latenesses []time.Duration

func latenessOf(r *receiver.Receiver) latenesses {
	var late latenesses
	for _, d := range r.Deliveries() {
		late = append(late, d.Arrived.Sub(d.Due))
	}
	slices.Sort(late)
	return late
}

// at is the quantile q.
func (l latenesses) at(q float64) time.Duration { return l[int(q*float64(len(l)-1))] }

func (l latenesses) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, max %v, earliest %v", l.at(0.5), l.at(0.99), l.at(1), l.at(0))
}
