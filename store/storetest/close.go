package storetest

import (
	"errors"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

var closeCases = []testCase{
	{name: "close/calls under way and later ones fail", closes: true, run: func(f *fixture) {
		key := f.add(reg("t", "a", delay(long))).Key
		locker := f.Locker(0)
		f.tryLock(true, locker, long)
		results := make(chan error, 2)
		go func() {
			_, err := f.Pop(f.ctx, 0, 1, time.Minute)
			results <- err
		}()
		go func() { results <- store.Wakeups(f.ctx, f, func(int) {}) }()
		f.waitPast(f.now().Add(short)) // so that they wait, most probably
		f.noError("Close", f.Close())
		for range cap(results) {
			f.unavailable("a call under way", <-results)
		}
		for name, call := range f.everyCall(key, locker) {
			f.unavailable(name, call())
		}
	}},
}

func (f *fixture) unavailable(what string, err error) {
	f.Helper()
	if !errors.Is(err, store.ErrUnavailable) {
		f.Errorf("%s: %v, want ErrUnavailable", what, err)
	}
}

// everyCall is a call of every method of store.Store that can fail but Close.
func (f *fixture) everyCall(key job.Key, locker store.Locker) map[string]func() error {
	hint := store.Hint{Lane: laneOf(key.Topic, urlA), ID: key.ID}
	settlement := job.Settlement{Key: key, Lane: hint.Lane, Token: 1, To: job.Delivered, IfCancelled: job.Delivered}
	return map[string]func() error{
		"Ping": func() error { return f.Ping(f.ctx) },
		"Register": func() error {
			_, err := f.Register(f.ctx, []store.Registration{reg("t", "b")})
			return err
		},
		"Update": func() error {
			_, err := f.Update(f.ctx, key, cancel)
			return err
		},
		"Get": func() error {
			_, err := f.Get(f.ctx, key)
			return err
		},
		"Attempts": func() error {
			_, err := f.Attempts(f.ctx, key)
			return err
		},
		"List": func() error {
			_, err := f.List(f.ctx, store.Query{Limit: 1})
			return err
		},
		"List by biz_key": func() error {
			_, err := f.List(f.ctx, store.Query{Limit: 1, BizKey: "b"})
			return err
		},
		"Topics": func() error {
			_, err := f.Topics(f.ctx, store.TopicQuery{Limit: 1})
			return err
		},
		"Backlogs": func() error {
			_, err := f.Backlogs(f.ctx)
			return err
		},
		"Now": func() error {
			_, err := f.Now(f.ctx)
			return err
		},
		"Depth": func() error {
			_, err := f.Depth(f.ctx)
			return err
		},
		"Carry": func() error {
			_, err := f.Carry(f.ctx, 0, carryOptions)
			return err
		},
		"Wakeups": func() error { return store.Wakeups(f.ctx, f, func(int) {}) },
		"Publish": func() error { return f.Publish(f.ctx, "c", nil) },
		"Listen":  func() error { return f.Listen(f.ctx, "c", func([]byte) {}) },
		"Pop": func() error {
			_, err := f.Pop(f.ctx, 0, 1, time.Millisecond)
			return err
		},
		"Claim": func() error {
			_, err := f.Claim(f.ctx, 0, []store.Hint{hint}, terms())
			return err
		},
		"Settle": func() error {
			_, err := f.Settle(f.ctx, []job.Settlement{settlement})
			return err
		},
		"SetCircuit": func() error { return f.SetCircuit(f.ctx, hint.Lane.Endpoint, store.CircuitOpen, long) },
		"Purge": func() error {
			_, err := f.Purge(f.ctx, 1)
			return err
		},
		"TryLock": func() error {
			_, err := locker.TryLock(f.ctx, long)
			return err
		},
		"Extend": func() error {
			_, err := locker.Extend(f.ctx)
			return err
		},
	}
}
