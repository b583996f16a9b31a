package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Benchmark measures a store's hot calls. One operation is one job.
func Benchmark(b *testing.B, h Harness) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("Register/batch=%d", batch), func(b *testing.B) {
			f := h.open(b, Options{}, false)
			f.benchRegister(b, batch)
		})
	}
	for _, batch := range []int{1, 100} {
		for _, waiting := range []int{0, 100_000} {
			b.Run(fmt.Sprintf("Cycle/batch=%d/waiting=%d", batch, waiting), func(b *testing.B) {
				f := h.open(b, Options{}, false)
				f.fill(waiting, delay(24*long))
				f.benchCycle(b, batch)
			})
		}
	}
	b.Run("Get", func(b *testing.B) {
		f := h.open(b, Options{}, false)
		key := f.add(benchJob(0)).Key
		b.ReportAllocs()
		for b.Loop() {
			f.get(key)
		}
	})
	b.Run("DueCounts/lanes=1000", func(b *testing.B) {
		f := h.open(b, Options{}, false)
		n := 0
		f.fill(1_000_000, func(r *store.Registration) { // of a day, spread evenly
			n++
			r.Key.Topic, r.Spec.When.Delay = fmt.Sprint("topic", n%1_000), time.Duration(n*8_641%86_400_000)*time.Millisecond
		})
		bounds := make([]job.Instant, 98)
		for i := range bounds {
			bounds[i] = f.now().Add(time.Duration(i) * 15 * time.Minute)
		}
		for b.Loop() {
			_, err := f.DueCounts(f.ctx, store.DueOf{}, bounds)
			f.noError("DueCounts", err)
		}
	})
	for _, jobs := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("List/uid/jobs=%d", jobs), func(b *testing.B) {
			f := h.open(b, Options{}, false)
			f.fill(jobs, delay(long))
			j := f.add(benchJob(jobs, delay(long)))
			for b.Loop() {
				page, err := f.List(f.ctx, store.Query{UID: j.UID})
				f.noError("List", err)
				equal(f, "jobs found", len(page.Jobs), 1)
			}
		})
	}
	b.Run("List/order=due", func(b *testing.B) {
		f := h.open(b, Options{}, false)
		f.fill(10_000, delay(long))
		for b.Loop() {
			_, err := f.List(f.ctx, store.Query{Topic: "order-timeout", States: stateOf(job.Waiting), Order: store.OrderDue, Limit: 100})
			f.noError("List", err)
		}
	})
	b.Run("List/limit=100", func(b *testing.B) {
		f := h.open(b, Options{}, false)
		f.fill(10_000, delay(long))
		b.ReportAllocs()
		for b.Loop() {
			_, err := f.List(f.ctx, store.Query{Limit: 100})
			f.noError("List", err)
		}
	})
}

// benchJob is a job of the usual size: an id of 36 characters, a body of 300.
func benchJob(n int, with ...func(*store.Registration)) store.Registration {
	return reg("order-timeout", fmt.Sprintf("%036d", n), append(with, func(r *store.Registration) {
		r.Spec.Body = fmt.Appendf(nil, `{"order_id":"%d","text":"%0270d"}`, n, n)
	})...)
}

// fill registers n jobs.
func (f *fixture) fill(n int, with ...func(*store.Registration)) {
	const batch = 1_000
	for from := 0; from < n; from += batch {
		regs := make([]store.Registration, 0, batch)
		for i := from; i < min(n, from+batch); i++ {
			regs = append(regs, benchJob(i, with...))
		}
		_, err := f.Register(f.ctx, regs)
		f.noError("Register", err)
	}
}

func (f *fixture) benchRegister(b *testing.B, batch int) {
	regs := make([]store.Registration, b.N)
	for i := range regs {
		regs[i] = benchJob(i, delay(long))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for from := 0; from < len(regs); from += batch {
		_, err := f.Register(f.ctx, regs[from:min(len(regs), from+batch)])
		f.noError("Register", err)
	}
}

// benchCycle takes jobs that are all due through their lives, and tells what
// each step takes of it.
func (f *fixture) benchCycle(b *testing.B, batch int) {
	f.fill(b.N, func(r *store.Registration) { r.Key.Topic = "due" })
	o := generous
	o.Max = batch
	clock := job.SystemClock()
	var take, settle time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		began := clock.Now()
		claims := f.takeOnce(o).Claims
		claimed := clock.Now()
		settlements := make([]job.Settlement, len(claims))
		for i, c := range claims {
			settlements[i] = delivered(c)
		}
		results, err := f.Settle(f.ctx, settlements)
		f.noError("Settle", err)
		done += len(results)
		take += claimed.Sub(began)
		settle += clock.Now().Sub(claimed)
	}
	for step, took := range map[string]time.Duration{"take": take, "settle": settle} {
		b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), step+"-ns/op")
	}
}
