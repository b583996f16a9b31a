package storetest

import (
	"errors"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

var closeCases = []testCase{
	{name: "close/calls under way and later ones fail", closes: true, run: func(f *fixture) {
		key := f.add(reg("t", "a", delay(long))).Key
		results := make(chan error, 2)
		go func() {
			o := generous
			o.Wait = time.Minute
			_, err := f.wait(o)
			results <- err
		}()
		go func() { results <- store.Wakeups(f.ctx, f, func(int) {}) }()
		f.waitPast(f.now().Add(short)) // so that they wait, most probably
		f.noError("Close", f.Close())
		for range cap(results) {
			f.unavailable("a call under way", <-results)
		}
		for name, call := range f.everyCall(key) {
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
func (f *fixture) everyCall(key job.Key) map[string]func() error {
	lane := laneOf(key.Topic, urlA)
	settlement := job.Settlement{Key: key, Lane: lane, Token: 1, To: job.Delivered, IfCancelled: job.Delivered}
	return map[string]func() error{
		"Ping":            func() error { return f.Ping(f.ctx) },
		"Register":        func() error { return second(f.Register(f.ctx, []store.Registration{reg("t", "b")})) },
		"Update":          func() error { return second(f.Update(f.ctx, key, cancel)) },
		"Get":             func() error { return second(f.Get(f.ctx, key)) },
		"Attempts":        func() error { return second(f.Attempts(f.ctx, key)) },
		"List":            func() error { return second(f.List(f.ctx, store.Query{Limit: 1})) },
		"List by biz_key": func() error { return second(f.List(f.ctx, store.Query{Limit: 1, BizKey: "b"})) },
		"Topics":          func() error { return second(f.Topics(f.ctx, store.TopicQuery{Limit: 1})) },
		"Backlogs":        func() error { return second(f.Backlogs(f.ctx)) },
		"Now":             func() error { return second(f.Now(f.ctx)) },
		"Depth":           func() error { return second(f.Depth(f.ctx)) },
		"Take":            func() error { return second(f.wait(generous)) },
		"Wakeups":         func() error { return store.Wakeups(f.ctx, f, func(int) {}) },
		"Publish":         func() error { return f.Publish(f.ctx, "c", nil) },
		"Listen":          func() error { return f.Listen(f.ctx, "c", func([]byte) {}) },
		"Settle":          func() error { return second(f.Settle(f.ctx, []job.Settlement{settlement})) },
		"SetCircuit":      func() error { return f.SetCircuit(f.ctx, lane.Endpoint, store.CircuitOpen, long) },
		"Purge":           func() error { return second(f.Purge(f.ctx, 1)) },
	}
}

func second[V any](_ V, err error) error { return err }
