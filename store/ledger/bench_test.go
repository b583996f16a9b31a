package ledger_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// benchReg is a registration of about 300 bytes with an id as random as a UUID.
func benchReg(i int, delay time.Duration) store.Registration {
	return store.Registration{
		Key: job.Key{Topic: "order-timeout", ID: fmt.Sprintf("%08x-4444-8888-bbbb-%012x", uint32(i)*2654435761, i)},
		UID: fmt.Sprintf("%026d", i),
		Spec: job.Spec{
			Destination: "https://shop.example/hooks/timeout", BizKey: strconv.Itoa(i), ContentType: "application/json",
			Headers: []job.Header{{Name: "x-tenant", Value: "acme"}}, BodyForm: job.BodyJSON,
			Body: fmt.Appendf(nil, `{"order_id":%d,"note":%q}`, i, "some text that makes the body as long as bodies are, about two hundred bytes; some text that makes the body as long as bodies are"),
			When: job.When{Delay: delay},
		},
	}
}

// report adds figures by the second, and the processor's time, which says more
// on a busy machine.
func report(b *testing.B, cpuBefore time.Duration) {
	b.Helper()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64((cpuTime(b)-cpuBefore).Microseconds())/float64(b.N), "cpu-us/job")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchStore(b *testing.B, url string) store.Store {
	b.Helper()
	s, err := ledger.Open(b.Context(), ledger.Options{URL: url, Store: newStore(b, 0)})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchRegister(b *testing.B, s store.Store, from, n int, delay time.Duration) {
	b.Helper()
	regs := make([]store.Registration, n)
	for i := range regs {
		regs[i] = benchReg(from+i, delay)
	}
	if _, err := s.Register(b.Context(), regs); err != nil {
		b.Fatal(err)
	}
}

// onEachServer runs a benchmark for every kind of server.
func onEachServer(b *testing.B, run func(b *testing.B, kind *backend)) {
	b.Helper()
	for _, kind := range servers {
		b.Run(kind.Name, func(b *testing.B) { run(b, kind) })
	}
}

// BenchmarkRegister counts jobs: one at a time by so many callers at once.
func BenchmarkRegister(b *testing.B) {
	onEachServer(b, func(b *testing.B, kind *backend) { benchmarkRegister(b, kind, 1, 1, 32, 256) })
}

// BenchmarkRegisterBatch counts jobs, registered a hundred at a time.
func BenchmarkRegisterBatch(b *testing.B) {
	onEachServer(b, func(b *testing.B, kind *backend) { benchmarkRegister(b, kind, 100, 1, 32) })
}

func benchmarkRegister(b *testing.B, kind *backend, batch int, callers ...int) {
	b.Helper()
	for _, callers := range callers {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			s := benchStore(b, kind.Fresh(b))
			defer s.Close()
			b.ResetTimer()
			cpu := cpuTime(b)
			var next atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for {
						i := int(next.Add(int64(batch)))
						if i-batch >= b.N {
							return
						}
						benchRegister(b, s, i, batch, time.Hour)
					}
				})
			}
			wg.Wait()
			report(b, cpu)
		})
	}
}

// BenchmarkDrain counts jobs that are carried, claimed, and settled a hundred
// at a time by several workers.
func BenchmarkDrain(b *testing.B) { onEachServer(b, benchmarkDrain) }

func benchmarkDrain(b *testing.B, kind *backend) {
	for _, workers := range []int{1, 4} {
		b.Run("workers="+strconv.Itoa(workers), func(b *testing.B) {
			s := benchStore(b, kind.Fresh(b))
			defer s.Close()
			for i := 0; i < b.N; i += 1000 {
				benchRegister(b, s, i, min(1000, b.N-i), 0)
			}
			b.ResetTimer()
			cpu := cpuTime(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for n := 0; left.Load() > 0; n++ {
						left.Add(-int64(drainOnce(b, s, fmt.Sprintf("w%d-%d", w, n))))
					}
				})
			}
			wg.Wait()
			report(b, cpu)
		})
	}
}

func drainOnce(b *testing.B, s store.Store, nonce string) int {
	b.Helper()
	_, err := s.Carry(b.Context(), 0, store.CarryOptions{Cap: 100, Visibility: time.Minute, By: "carrier"})
	if err != nil {
		b.Error(err)
	}
	hints, err := s.Pop(b.Context(), 0, 100, time.Millisecond)
	if err != nil {
		b.Error(err)
	}
	claims, err := s.Claim(b.Context(), 0, hints, store.ClaimOptions{Nonce: nonce, Lease: time.Minute, By: "worker"})
	if err != nil {
		b.Error(err)
	}
	if len(claims) == 0 {
		return 0
	}
	settlements := make([]job.Settlement, len(claims))
	for i := range claims {
		settlements[i] = job.Settle(&claims[i].Job, job.Outcome{
			Kind:    job.OutcomeDelivered,
			Attempt: &job.Attempt{Number: 1, StartedAt: claims[i].Now, Duration: time.Millisecond, Status: 200, ResponseBody: "success"},
		}, nil)
	}
	if _, err := s.Settle(b.Context(), settlements); err != nil {
		b.Error(err)
	}
	return len(claims)
}
