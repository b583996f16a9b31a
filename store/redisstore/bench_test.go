package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	r := testenv.StartRedis(b)
	storetest.Benchmark(b, storetest.Harness{Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, r.URL(), o)
	}})
}

// waitingJob is a job with an id of 36 characters and a body of 300 bytes.
func waitingJob(n int) store.Registration {
	return store.Registration{
		Key: job.Key{Topic: "order-timeout", ID: fmt.Sprintf("0b5c9b5e-0000-4000-8000-%012d", n)},
		UID: ulid.Make().String(),
		Spec: job.Spec{
			Destination: "https://shop.example/hooks/timeout", ContentType: "application/json",
			Body: bytes.Repeat([]byte("x"), 300), BodyForm: job.BodyJSON, When: job.When{Delay: 30 * time.Minute},
		},
	}
}

// BenchmarkMemory measures the memory of a waiting job on Redis.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := testenv.StartRedis(b)
			s := open(b, r.URL(), storetest.Options{})
			b.Cleanup(func() { _ = s.Close() })
			used := func() float64 {
				memory := s.db.InfoMap(context.Background(), "memory").Val()["Memory"]
				all, err := strconv.ParseFloat(memory["used_memory"], 64)
				ok(b, "used_memory", err)
				clients, err := strconv.ParseFloat(memory["mem_clients_normal"], 64)
				ok(b, "mem_clients_normal", err)
				return all - clients
			}
			_, err := listing.Depth(context.Background(), s)
			ok(b, "Depth", err)
			before := used()
			for b.Loop() {
				for from := 0; from < n; from += maxBatch {
					regs := make([]store.Registration, min(maxBatch, n-from))
					for i := range regs {
						regs[i] = waitingJob(from + i)
					}
					_, err := s.Register(context.Background(), regs)
					ok(b, "Register", err)
				}
			}
			b.ReportMetric((used()-before)/float64(n), "B/job")
		})
	}
}
