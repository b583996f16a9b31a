package ledger_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/redisstore"
)

// benchNode is a node on a Redis, of which it also gives the addresses.
func benchNode(b *testing.B, kind *backend) (*ledger.Store, *testenv.Redis) {
	b.Helper()
	redis := testenv.StartRedis(b)
	inner, err := redisstore.Open(b.Context(), redisstore.Options{URL: redis.URL(), Retention: time.Hour})
	must.OK(b, err)
	s, err := ledger.Open(b.Context(), ledger.Options{URL: kind.Fresh(b), Store: inner, StoreRetention: time.Hour})
	must.OK(b, err)
	return s, redis
}

// BenchmarkClaimCheck drains jobs as BenchmarkDrain does, of a Redis, with and
// without asking the ledger about what is claimed.
func BenchmarkClaimCheck(b *testing.B) {
	onEachServer(b, func(b *testing.B, kind *backend) {
		for _, mode := range []string{"without", "with"} {
			b.Run(mode, func(b *testing.B) {
				s, _ := benchNode(b, kind)
				defer s.Close()
				if mode == "without" {
					s.Unchecked()
				}
				for i := 0; i < b.N; i += 1000 {
					benchRegister(b, s, i, min(1000, b.N-i), 0)
				}
				b.ResetTimer()
				cpu := cpuTime(b)
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for w := range 4 {
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
	})
}

// BenchmarkCompare counts waiting jobs that are compared while all is well, and
// that are put back into a Redis that lost them.
func BenchmarkCompare(b *testing.B) {
	onEachServer(b, func(b *testing.B, kind *backend) {
		for _, lost := range []bool{false, true} {
			b.Run(map[bool]string{false: "nothing_lost", true: "all_lost"}[lost], func(b *testing.B) {
				s, redis := benchNode(b, kind)
				defer s.Close()
				for i := 0; i < b.N; i += 1000 {
					benchRegister(b, s, i, min(1000, b.N-i), time.Hour)
				}
				if lost {
					flushAll(b, redis)
				}
				b.ResetTimer()
				cpu := cpuTime(b)
				r, err := s.CompareOnce(b.Context())
				must.OK(b, err)
				report(b, cpu)
				want := map[bool]int64{true: int64(b.N)}[lost]
				if r.Restored != want || r.Conflicts != 0 {
					b.Fatalf("%+v, want %d jobs restored", r, want)
				}
			})
		}
	})
}
