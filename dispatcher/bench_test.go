package dispatcher

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// accept reads the request and answers 200.
func accept(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// BenchmarkSend is one delivery over loopback, receiver included; the plain
// client beside it is what net/http itself takes.
func BenchmarkSend(b *testing.B) {
	url := serve(b, accept)
	for name, workers := range map[string]int{"one": 1, "64": 64} {
		b.Run(name, func(b *testing.B) {
			s := realSender(b, Options{AllowCIDRs: loopback()})
			c := claimOf(newJob("b", url))
			b.SetParallelism(workers)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if o, _ := s.send(context.Background(), c); o.Kind != job.OutcomeDelivered {
						b.Errorf("%+v", o.Attempt)
						return
					}
				}
			})
		})
	}
	b.Run("plain-64", func(b *testing.B) {
		transport := newTransport(mustGuard(b, loopback()...), DefaultWorkers)
		b.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		c := claimOf(newJob("b", url))
		s := newSender(Options{}.withDefaults(), transport)
		b.SetParallelism(64)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				req, err := s.newRequest(context.Background(), &c.Job, 1, c.Now)
				if err != nil {
					b.Error(err)
					return
				}
				req.Request.Body, _ = req.Request.GetBody()
				resp, err := client.Do(req.Request)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	})
}

// instantStore has as many jobs as are wanted and takes no time.
type instantStore struct {
	noRetries
	noMessages
	url   string
	total int

	mu       sync.Mutex
	taken    int
	settled  int
	finished chan struct{}
}

func (s *instantStore) Shards() int { return 1 }

func (s *instantStore) Take(ctx context.Context, _ int, o store.TakeOptions) (store.Taken, error) {
	s.mu.Lock()
	n := min(o.Max, s.total-s.taken)
	first := s.taken
	s.taken += n
	s.mu.Unlock()
	if n == 0 {
		<-ctx.Done()
		return store.Taken{}, ctx.Err()
	}
	claims := make([]store.Claimed, n)
	for i := range claims {
		claims[i] = store.Claimed{Job: newJob(strconv.Itoa(first+i), s.url), Now: job.InstantOf(time.Now())}
	}
	return store.Taken{Claims: claims}, nil
}

func (s *instantStore) Settle(_ context.Context, batch []job.Settlement) ([]store.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled += len(batch)
	if s.settled == s.total {
		close(s.finished)
	}
	return make([]store.Settled, len(batch)), nil
}

func (s *instantStore) SetCircuit(context.Context, string, store.CircuitState, time.Duration) error {
	return nil
}

// drain delivers b.N jobs through transport, or the network if it is nil.
func drain(b *testing.B, url string, transport http.RoundTripper) {
	b.Helper()
	s := &instantStore{url: url, total: b.N, finished: make(chan struct{})}
	o := Options{Store: s, AllowCIDRs: loopback()}.withDefaults()
	if transport == nil {
		transport = newTransport(mustGuard(b, o.AllowCIDRs...), o.Workers)
	}
	d, err := newDispatcher(o, transport)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { done <- d.Run(ctx) }()
	<-s.finished
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

// BenchmarkPipeline is all that a delivery costs but the store and the network.
func BenchmarkPipeline(b *testing.B) { drain(b, anyURL, always(http.StatusOK)) }

// BenchmarkDrain delivers a backlog over loopback, receiver included.
func BenchmarkDrain(b *testing.B) { drain(b, serve(b, accept), nil) }

// BenchmarkLateness delivers 1,000 jobs a second that become ready on time,
// and reports how late their requests start at the receiver.
func BenchmarkLateness(b *testing.B) {
	const pace = time.Millisecond
	late := make(chan time.Duration, b.N)
	var due sync.Map // id to time.Time
	url := serve(b, func(_ http.ResponseWriter, r *http.Request) {
		at, _ := due.Load(r.Header.Get("Duehook-Job-Id"))
		late <- time.Since(at.(time.Time))
	})
	s := newFakeStore()
	d, err := New(Options{Store: nodeOf(s), AllowCIDRs: loopback()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for i := range b.N {
		<-ticker.C
		id := strconv.Itoa(i)
		due.Store(id, time.Now())
		s.add(newJob(id, url))
		for len(s.settled) > 0 { // or the fake would fill up
			<-s.settled
		}
		for len(s.claims) > 0 {
			<-s.claims
		}
	}
	all := make([]time.Duration, b.N)
	for i := range all {
		all[i] = <-late
	}
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op")
}
