package diskstore_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

var waiting = flag.Int("waiting", 100_000, "how many jobs wait in BenchmarkWaiting")

// BenchmarkWaiting measures a store on disk with many jobs that wait for random times: the
// processor time to register and to deliver one, resident memory, and the time to open.
// Run it with -benchtime 1x -waiting 1000000.
func BenchmarkWaiting(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		s := open(b, diskstore.Options{Dir: dir})
		cpu := processorTime()
		fillWaiting(b, s, *waiting)
		b.ReportMetric(perJob(cpu, *waiting), "insert-µs/job")
		cpu = processorTime()
		const due = 50_000
		fillDue(b, s, due)
		b.ReportMetric(perJob(cpu, due), "insert-due-µs/job")
		cpu = processorTime()
		deliverAll(b, s, due)
		b.ReportMetric(perJob(cpu, due), "deliver-µs/job")
		must.OK(b, s.Close())
		runtime.GC()
		began := time.Now()
		s = open(b, diskstore.Options{Dir: dir})
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "open-ms")
		fillDue(b, s, due)
		deliverAll(b, s, due)
		b.ReportMetric(resident(b), "resident-MB")
		readers(b, s)
		must.OK(b, s.Close())
	}
}

func readers(b *testing.B, s diskstore.Embedded) {
	now, bounds := time.Now(), []job.Instant(nil)
	for i := range 97 {
		bounds = append(bounds, job.InstantOf(now.Add(time.Duration(i)*15*time.Minute)))
	}
	list := func(q store.Query) func() error {
		return func() error { q.Limit = 100; _, err := listing.List(b.Context(), s, q); return err }
	}
	ofTopic, noon := store.Query{Topic: "topic3", States: []job.State{job.Waiting}}, job.InstantOf(now.Add(12*time.Hour))
	byDue, byLabel, prefixed := ofTopic, store.Query{Labels: []job.Label{{Key: "no", Value: "job"}}}, ofTopic
	byDue.Order, prefixed.IDPrefix = store.OrderDue, "nothing"
	calls := map[string]func() error{
		"due-counts": func() error { _, err := listing.DueCounts(b.Context(), s, store.DueOf{}, bounds); return err },
		"due-in-a-minute": func() error {
			_, err := listing.DueCounts(b.Context(), s, store.DueOf{Within: true}, []job.Instant{noon, noon.Add(time.Minute)})
			return err
		},
		"backlogs":        func() error { _, err := listing.Backlogs(b.Context(), s); return err },
		"list":            list(store.Query{}),
		"list-by-due":     list(byDue),
		"list-prefix":     list(prefixed),
		"list-label":      list(byLabel),
		"list-due-minute": list(store.Query{States: ofTopic.States, DueFrom: noon, DueTo: noon.Add(time.Minute)}),
	}
	for name, call := range calls {
		began := time.Now()
		must.OK(b, call())
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, name+"-ms")
	}
}

const benchBatch = 200

func benchReg(topic string, r *rand.Rand, delay time.Duration) store.Registration {
	body := make([]byte, 300)
	for i := range body {
		body[i] = byte('a' + r.IntN(26))
	}
	reg := newReg(topic, fmt.Sprintf("%016x-%019d", r.Uint64(), r.Int64()), job.Spec{Body: body, When: job.When{Delay: delay}})
	reg.UID = store.BindUID(fmt.Sprintf("%019d%07d", time.Now().UnixNano(), 0), reg.Key)
	return reg
}

func fillWaiting(b *testing.B, s diskstore.Embedded, n int) {
	r := rand.New(rand.NewPCG(1, 2))
	fill(b, s, n, func(i int) store.Registration {
		return benchReg(fmt.Sprint("topic", i%10), r, time.Hour+time.Duration(r.Int64N(int64(24*time.Hour))))
	})
}

func fillDue(b *testing.B, s diskstore.Embedded, n int) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 3))
	fill(b, s, n, func(int) store.Registration { return benchReg("due", r, 0) })
}

func fill(b *testing.B, s diskstore.Embedded, n int, make func(i int) store.Registration) {
	b.Helper()
	for from := 0; from < n; from += benchBatch {
		var regs []store.Registration
		for i := from; i < min(n, from+benchBatch); i++ {
			regs = append(regs, make(i))
		}
		if _, err := s.Register(b.Context(), regs); err != nil {
			b.Fatal(err)
		}
	}
}

func deliverAll(b *testing.B, s diskstore.Embedded, n int) {
	b.Helper()
	for done := 0; done < n; {
		taken, err := s.Take(b.Context(), 0, store.TakeOptions{Max: benchBatch, Wait: time.Second, Lease: time.Hour, Limits: store.FlightLimits{HalfOpenLimit: 1}})
		must.OK(b, err)
		claims := taken.Claims
		settlements := make([]job.Settlement, len(claims))
		for i := range claims {
			settlements[i] = job.Settle(&claims[i].Job, job.Outcome{Kind: job.OutcomeDelivered}, nil)
		}
		if _, err := s.Settle(b.Context(), settlements); err != nil {
			b.Fatal(err)
		}
		done += len(claims)
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func perJob(since time.Duration, n int) float64 {
	return float64((processorTime() - since).Microseconds()) / float64(n)
}

// resident is the memory of the process, in MB.
func resident(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	must.OK(b, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, _ := strconv.Atoi(strings.Fields(rest)[0])
	return float64(kb) / 1024
}
