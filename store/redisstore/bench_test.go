package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	r := testenv.StartRedis(b)
	storetest.Benchmark(b, storetest.Harness{ReadyList: true, Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, r.URL(), o)
	}})
}

// BenchmarkScripts measures the processor time of Redis for each job and step of its life, in batches, with an
// append-only file as in bench/.
func BenchmarkScripts(b *testing.B) {
	for _, to := range []struct {
		name        string
		destination job.Destination
	}{{"push", "https://shop.example/hooks/timeout"}, {"pull", job.PullQueue}} {
		for _, batch := range []int{32, 100, 500} {
			b.Run(fmt.Sprintf("%s/batch=%d", to.name, batch), func(b *testing.B) {
				r := testenv.StartRedis(b, testenv.WithArgs("--appendonly", "yes", "--appendfsync", "everysec"))
				s := open(b, r.URL(), storetest.Options{Retention: time.Hour})
				b.Cleanup(func() { _ = s.Close() })
				benchScripts(b, s, to.destination, batch)
			})
		}
	}
}

func benchScripts(b *testing.B, s *Store, to job.Destination, batch int) {
	ctx := context.Background()
	spent := func() float64 {
		cpu := s.db.InfoMap(ctx, "cpu").Val()["CPU"]
		user, err := strconv.ParseFloat(cpu["used_cpu_user_main_thread"], 64)
		ok(b, "used_cpu_user_main_thread", err)
		system, err := strconv.ParseFloat(cpu["used_cpu_sys_main_thread"], 64)
		ok(b, "used_cpu_sys_main_thread", err)
		return 1e6 * (user + system)
	}
	last, all := spent(), 0.0
	step := func(name string) {
		now := spent()
		b.ReportMetric((now-last)/float64(b.N), name+"-µs/job")
		all += now - last
		last = now
	}
	for from := 0; from < b.N; from += maxRegister {
		regs := make([]store.Registration, min(maxRegister, b.N-from))
		for i := range regs {
			regs[i] = waitingJob(from + i)
			regs[i].Spec.Destination, regs[i].Spec.When = to, job.When{}
		}
		_, err := s.Register(ctx, regs)
		ok(b, "Register", err)
	}
	step("register")
	o := store.CarryOptions{Cap: b.N, Visibility: time.Hour, FlightLimits: store.FlightLimits{EndpointLimit: b.N + 1}}
	if to == job.PullQueue {
		o.Pull = []string{"order-timeout"}
	}
	var hints []store.Hint
	for len(hints) < b.N {
		r, err := s.Carry(ctx, 0, o)
		ok(b, "Carry", err)
		for i := range r.Carried {
			hints = append(hints, r.Carried[i].Hint)
		}
		if o.Pull == nil {
			_, err = s.Pop(ctx, 0, batch, 0)
			ok(b, "Pop", err)
		}
	}
	step("carry")
	var settlements []job.Settlement
	for from := 0; from < len(hints); from += batch {
		claims, err := s.Claim(ctx, 0, hints[from:min(len(hints), from+batch)], store.ClaimOptions{Nonce: fmt.Sprint(from), Lease: time.Hour})
		ok(b, "Claim", err)
		for i := range claims {
			j := &claims[i].Job
			settlements = append(settlements, job.Settlement{
				Key: j.Key, Lane: j.Lane(), Token: j.Token, CreatedAt: j.CreatedAt, Due: j.DueAt, To: job.Delivered, Attempts: 1,
				Attempt: &job.Attempt{Number: 1, StartedAt: claims[i].Now, Duration: time.Millisecond, Status: 200, Version: j.Version},
			})
		}
	}
	step("claim")
	for from := 0; from < len(settlements); from += batch {
		_, err := s.Settle(ctx, settlements[from:min(len(settlements), from+batch)])
		ok(b, "Settle", err)
	}
	step("settle")
	b.ReportMetric(all/float64(b.N), "all-µs/job")
}

// waitingJob is a job with an id of 36 characters and a body of 300 bytes.
func waitingJob(n int) store.Registration {
	return store.Registration{
		Key: job.Key{Topic: "order-timeout", ID: fmt.Sprintf("%016x-4000-8000-%010d", uint64(n+1)*0x9e3779b97f4a7c15, n)},
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
