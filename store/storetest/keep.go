package storetest

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func (f *fixture) purge(want, limit int) {
	f.Helper()
	n, err := f.Purge(f.ctx, limit)
	f.noError("Purge", err)
	f.changed("purged", n, want)
}

func (f *fixture) tryLock(want bool, l store.Locker, ttl time.Duration) {
	f.Helper()
	got, err := l.TryLock(f.ctx, ttl)
	f.noError("TryLock", err)
	equal(f, "locked", got, want)
}

func (f *fixture) extend(want bool, l store.Locker) {
	f.Helper()
	got, err := l.Extend(f.ctx)
	f.noError("Extend", err)
	equal(f, "extended", got, want)
}

var keepCases = []testCase{
	{name: "purge/forgets what ended longer ago than the retention", options: Options{Retention: short, Shards: 2}, run: func(f *fixture) {
		for _, topic := range []string{"t", "u"} {
			for _, state := range finals {
				f.end(reg(topic, state.String(), biz("b")), state)
			}
			f.add(reg(topic, "waiting", delay(long), biz("b")))
		}
		f.waitPast(f.now().Add(short))
		f.purge(6, 100)
		f.purge(0, 100)
		for _, state := range []job.State{job.Delivered, job.Cancelled, job.Expired} {
			f.notFound(job.Key{Topic: "t", ID: state.String()})
		}
		want := []string{"t/dead", "t/waiting", "u/dead", "u/waiting"}
		equal(f, "jobs left", keys(f.list(store.Query{Limit: 3})), want)
		equal(f, "by biz_key", keys(f.list(store.Query{BizKey: "b", Limit: 3})), want)
		equal(f, "counts", f.states("u"), map[job.State]int64{job.Dead: 1, job.Waiting: 1})
		f.add(reg("t", "delivered"))
	}},
	{name: "purge/keeps what is retained", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range finals {
			f.end(reg("t", state.String()), state)
		}
		f.purge(0, 100)
		equal(f, "jobs left", f.sum("t"), 4)
	}},
	{name: "purge/forgets so many at once", options: Options{Retention: short}, run: func(f *fixture) {
		f.register(store.Created, many("t", 6)...)
		f.register(store.Created, many("u", 6)...)
		for _, c := range f.take() {
			f.settle(store.Applied, delivered(c))
		}
		f.waitPast(f.now().Add(short))
		for range 3 {
			f.purge(4, 4)
		}
		f.purge(0, 4)
		equal(f, "jobs left", keys(f.list(store.Query{Limit: 3})), nil)
	}},
	{name: "purge/spares a job that lives again", options: Options{Retention: short}, run: func(f *fixture) {
		f.end(reg("t", "replayed"), job.Delivered)
		f.end(reg("t", "anew"), job.Cancelled)
		f.waitPast(f.now().Add(short))
		f.update(job.Key{Topic: "t", ID: "replayed"}, replay)
		f.add(reg("t", "anew"))
		f.purge(0, 100)
		equal(f, "claimed", claimedKeys(f.take()), []string{"t/anew", "t/replayed"})
	}},
}

// carrierCases are of what carriers need.
var carrierCases = []testCase{
	{name: "wakeups/tell of a job that is due earlier", options: Options{Shards: 2}, run: func(f *fixture) {
		f.add(reg("t", "last", delay(10*long)))
		changes := map[string]func(i int){
			"register": func(i int) { f.add(reg("t", newUID(), delay(9*long-time.Duration(i)*time.Second))) },
			"update": func(i int) {
				f.update(job.Key{Topic: "t", ID: "last"}, func(j *job.Job, now job.Instant) error {
					return j.Reschedule(job.When{Delay: 7*long - time.Duration(i)*time.Second}, now)
				})
			},
			"settle": func(i int) {
				f.add(reg("t", newUID()))
				f.settle(store.Applied, failed(f.takeOne(), after(6*long-time.Duration(i)*time.Second)))
			},
		}
		for _, name := range []string{"register", "update", "settle"} {
			f.wakes(name, changes[name])
		}
	}},
	{name: "wakeups/end with their context", options: Options{}, run: func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		result := make(chan error, 1)
		go func() { result <- store.Wakeups(ctx, f, func(int) {}) }()
		cancel()
		f.noError("Wakeups", <-result)
	}},
	{name: "lock/is held by one", options: Options{Shards: 2}, run: func(f *fixture) {
		a, b := f.readyList().Locker(0), f.readyList().Locker(0)
		f.extend(false, a)
		f.tryLock(true, a, long)
		f.tryLock(false, b, long)
		f.extend(true, a)
		f.extend(false, b)
		f.noError("Unlock", a.Unlock(f.ctx))
		f.extend(false, a)
		f.tryLock(true, b, long)
		f.tryLock(false, a, long)
		f.noError("Unlock", b.Unlock(f.ctx))
	}},
	{name: "lock/ends by itself", options: Options{}, run: func(f *fixture) {
		a, b := f.readyList().Locker(0), f.readyList().Locker(0)
		// On a busy machine so short a lock can end before its taking is answered.
		f.eventually("a short lock can be had", func() bool {
			got, err := a.TryLock(f.ctx, short)
			return got && err == nil
		})
		f.eventually("the lock of one that died can be had", func() bool {
			got, err := b.TryLock(f.ctx, long)
			f.noError("TryLock", err)
			return got
		})
		f.extend(false, a)
		_ = a.Unlock(f.ctx) // it may say that the lock was lost; it must not free the other's
		f.tryLock(false, f.readyList().Locker(0), long)
		f.extend(true, b)
	}},
	{name: "lock/of each shard is its own", options: Options{Shards: 2}, run: func(f *fixture) {
		for shard := range f.Shards() {
			f.tryLock(true, f.readyList().Locker(shard), long)
		}
	}},
}

// wakes expects that change, which makes a job due earlier than all others,
// wakes up carriers. Single wake-ups may be lost, so it is tried again; and
// some may come unasked, as when the listening begins, so one is not enough.
func (f *fixture) wakes(what string, change func(i int)) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	woken, done := make(chan int, 1), make(chan error, 1)
	go func() {
		done <- store.Wakeups(ctx, f, func(shard int) {
			select {
			case woken <- shard:
			default:
			}
		})
	}()
	wakeUps, want := 0, f.Shards()+2
	for i := 0; i < 200 && wakeUps < want; i++ {
		change(i)
		if f.wokenWithin(woken, short) {
			wakeUps++
		}
	}
	cancel()
	f.noError("Wakeups", <-done)
	if wakeUps < want {
		f.Fatalf("%s: %d wake-ups, want %d", what, wakeUps, want)
	}
}

func (f *fixture) wokenWithin(woken <-chan int, d time.Duration) bool {
	f.Helper()
	timer := job.SystemClock().NewTimer(d)
	defer timer.Stop()
	select {
	case shard := <-woken:
		equal(f, "a shard", shard >= store.AnyShard && shard < f.Shards(), true)
		return true
	case <-timer.C():
		return false
	}
}
