package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

const (
	neighbourRounds = 3
	deadJobs        = 100_000
	neighboursTopic = "orders"
)

// BenchmarkLatenessBesideDead measures received − due of 200 jobs/s alone, and
// beside 100,000 due jobs of the same topic for a dead endpoint: one that
// refuses connections, and one that takes them and never answers. The rounds
// alternate, each on a fresh node; the ratios are those of the medians of their
// p99. It takes 6 minutes for each backend: run it with -benchtime 1x, or as
// `make soak PART=neighbours`.
func BenchmarkLatenessBesideDead(b *testing.B) {
	dead := map[string]func(b *testing.B) string{
		"alone": nil, "refused": refusingEndpoint, "blackhole": silentEndpoint,
	}
	kinds := []string{"alone", "refused", "blackhole"}
	for _, backend := range []string{"embedded", "redis"} {
		b.Run(backend, func(b *testing.B) {
			for b.Loop() {
				p99 := map[string][]time.Duration{}
				for range neighbourRounds {
					for _, kind := range kinds {
						p99[kind] = append(p99[kind], latenessBeside(b, backend, kind, dead[kind]))
					}
				}
				alone := median(p99["alone"])
				b.ReportMetric(0, "ns/op") // says nothing here
				b.ReportMetric(milliseconds(alone), "alone-p99-ms")
				for _, kind := range kinds[1:] {
					b.ReportMetric(float64(median(p99[kind]))/float64(alone), kind+"/alone")
				}
			}
		})
	}
}

// BenchmarkLatenessBesideOutage measures received − due of 200 jobs/s alone, and while 20,000 jobs of another topic come
// due, each for its own endpoint that accepts and never answers. In "at once" all of these are due at one time. It takes
// 5 minutes for each backend.
func BenchmarkLatenessBesideOutage(b *testing.B) {
	kinds := []string{"alone", "as registered", "at once"}
	for _, backend := range []string{"embedded", "redis", "postgres"} {
		b.Run(backend, func(b *testing.B) {
			for b.Loop() {
				p99 := map[string][]time.Duration{}
				for range neighbourRounds {
					for _, kind := range kinds {
						p99[kind] = append(p99[kind], latenessBesideOutage(b, backend, kind))
					}
				}
				b.ReportMetric(0, "ns/op") // says nothing here
				for _, kind := range kinds {
					b.ReportMetric(milliseconds(median(p99[kind])), strings.ReplaceAll(kind, " ", "-")+"-p99-ms")
				}
			}
		})
	}
}

func latenessBesideOutage(b *testing.B, backend, kind string) time.Duration {
	b.Helper()
	const jobs, batch = 20_000, 1000
	n := startOn(b, backend)
	if kind != "alone" {
		_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(silentOn(b, "0.0.0.0:0"), "http://"), "/"))
		if err != nil {
			b.Fatal(err)
		}
		at := ""
		if kind == "at once" {
			at = clock.Now().Add(8 * time.Second).UTC().Format(time.RFC3339)
		}
		var registering sync.WaitGroup
		defer registering.Wait()
		registering.Go(func() {
			for first := 0; first < jobs; first += batch {
				dead := make([]registration, batch)
				for i := range dead {
					id := first + i
					dead[i] = registration{
						Topic: "outage", ID: fmt.Sprint(id), URL: fmt.Sprintf("http://127.%d.%d.%d:%s/", 1+id/50_000, id/250%200, 1+id%250, port), At: at,
					}
				}
				a, err := call(b.Context(), "POST", n.base()+"/v1/jobs/batch", nil, map[string]any{"jobs": dead})
				if err != nil || a.status != http.StatusOK {
					b.Errorf("%v %d", err, a.status)
				}
			}
		})
	}
	late := healthyLateness(b, n, neighboursTopic)
	n.stop()
	b.Logf("%s, %s: %v", backend, kind, late)
	return late.at(0.99)
}

// latenessBeside gives the p99 of the healthy jobs.
func latenessBeside(b *testing.B, backend, kind string, dead func(b *testing.B) string) time.Duration {
	b.Helper()
	n := startOn(b, backend)
	if dead != nil {
		registerDead(b, n.base(), dead(b))
	}
	late := healthyLateness(b, n, neighboursTopic)
	states := getTopic(b, n.base(), neighboursTopic).States
	n.stop()
	b.Logf("%s, %s: %v; the topic's jobs: %v", backend, kind, late, states)
	return late.at(0.99)
}

// healthyLateness gives how late 200 jobs/s arrive at a receiver that accepts
// them, over half a minute.
func healthyLateness(b *testing.B, n *node, topic string) latenesses {
	b.Helper()
	const perSecond, over = 200, 30 * time.Second
	r := receiver.Start(b, receiver.Accept)
	l := &load{
		topic: topic, url: r.URL(), jobs: int(over.Seconds()) * perSecond,
		over: over, maxDelay: 5 * time.Second, pick: n.base,
	}
	l.run(b, rand.New(rand.NewPCG(1, 0)))
	testenv.Eventually(b, deliverLimit, func() bool { return r.Jobs() == l.jobs }, "all healthy jobs to arrive")
	return latenessOf(r)
}

// TestOneTopicDoesNotStopOthers: while each of many endpoints of one topic accepts requests and
// never answers, the jobs of another topic are delivered. None of the first topic's attempts has
// ended by then, so no worker has come free.
func TestOneTopicDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	flags := []string{"--workers=32", "--ready-cap=100", "--timeout=5m", "--max-timeout=5m"}
	for _, backend := range []string{"embedded", "redis"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			var n *node
			if backend == "redis" {
				n = startNodes(t, shipped, "a", testenv.StartRedis(t).URL(), flags...)[0]
			} else {
				n = startEmbedded(t, shipped, flags...)
			}
			_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(silentOn(t, "0.0.0.0:0"), "http://"), "/"))
			if err != nil {
				t.Fatal(err)
			}
			var dead []registration
			for i := range 500 {
				url := fmt.Sprintf("http://127.1.%d.%d:%s/", i/250, 1+i%250, port)
				dead = append(dead, registration{Topic: "dead", ID: fmt.Sprint(i), URL: url})
			}
			must(t, http.StatusOK, "POST", n.base()+"/v1/jobs/batch", map[string]any{"jobs": dead})
			testenv.Eventually(t, deliverLimit, func() bool { return getTopic(t, n.base(), "dead").States["running"] == 28 }, "the topic to have its share of workers")

			r := receiver.Start(t, receiver.Accept)
			l := &load{topic: "well", url: r.URL(), jobs: 24, pick: n.base}
			l.run(t, rand.New(rand.NewPCG(1, 0)))
			testenv.Eventually(t, deliverLimit, func() bool { return r.Jobs() == l.jobs }, "the jobs of the other topic to arrive")
			if states := getTopic(t, n.base(), "dead").States; states["running"] != 28 || states["waiting"]+states["ready"] != 500-28 {
				t.Errorf("the jobs of the first topic: %v", states)
			}
		})
	}
}

// registerDead registers the jobs for a dead endpoint, due at once.
func registerDead(b *testing.B, base, url string) {
	b.Helper()
	const batch = 1000
	for i := range deadJobs / batch {
		jobs := make([]registration, batch)
		for k := range jobs {
			jobs[k] = registration{Topic: neighboursTopic, ID: fmt.Sprintf("dead-%d-%d", i, k), URL: url, Body: k}
		}
		a := must(b, http.StatusOK, "POST", base+"/v1/jobs/batch", map[string]any{"jobs": jobs})
		if n := strings.Count(string(a.body), `"status":201`); n != batch {
			b.Fatalf("%d of %d were registered", n, batch)
		}
	}
}

// refusingEndpoint is a port at which nobody listens.
func refusingEndpoint(b *testing.B) string {
	b.Helper()
	l := listen(b, "127.0.0.1:0")
	_ = l.Close()
	return "http://" + l.Addr().String() + "/"
}

// silentEndpoint takes connections, reads, and never answers.
func silentEndpoint(b *testing.B) string {
	b.Helper()
	return silentOn(b, "127.0.0.1:0")
}

func silentOn(b testing.TB, address string) string {
	b.Helper()
	l := listen(b, address)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
		}
		for _, c := range open {
			_ = c.Close()
		}
	}()
	b.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "http://" + l.Addr().String() + "/"
}

func listen(b testing.TB, address string) net.Listener {
	b.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
