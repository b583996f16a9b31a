package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/duehook/duehook/store"
)

var popCases = []testCase{
	{name: "pop/takes up to so many, once", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 5)...)
		f.carry(carryOptions)
		seen := map[string]bool{}
		for len(seen) < 5 {
			hints, err := f.readyList().Pop(f.ctx, 0, 2, patience)
			f.noError("Pop", err)
			equal(f, "one or two hints", len(hints) == 1 || len(hints) == 2, true)
			for _, h := range hints {
				equal(f, "lane", h.Lane, laneOf("t", urlA))
				equal(f, "popped before", seen[h.ID], false)
				seen[h.ID] = true
			}
		}
		hints, err := f.readyList().Pop(f.ctx, 0, 2, time.Millisecond)
		f.noError("Pop", err)
		equal(f, "hints after the last", hints, nil)
		equal(f, "hints left", f.depth().ReadyList, 0)
	}},
	{name: "pop/gives none after the wait", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", delay(long)))
		for _, wait := range []time.Duration{0, short} {
			hints, err := f.readyList().Pop(f.ctx, 0, 10, wait)
			f.noError("Pop", err)
			equal(f, "hints", hints, nil)
		}
	}},
	{name: "pop/waits for the first", options: Options{}, run: func(f *fixture) {
		var wg sync.WaitGroup
		defer wg.Wait()
		found := make(chan []store.Hint, 1)
		wg.Go(func() {
			hints, err := f.readyList().Pop(f.ctx, 0, 10, patience)
			if err != nil {
				f.Errorf("Pop: %v", err)
			}
			found <- hints
		})
		f.waitPast(f.now().Add(short)) // so that it waits, most probably
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		equal(f, "hints", <-found, []store.Hint{{Lane: laneOf("t", urlA), ID: "a"}})
	}},
	{name: "pop/returns when its context ends", options: Options{}, run: func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		result := make(chan error, 1)
		go func() {
			_, err := f.readyList().Pop(ctx, 0, 10, time.Minute)
			result <- err
		}()
		f.waitPast(f.now().Add(short)) // so that it waits, most probably
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			f.Errorf("Pop: %v, want context.Canceled", err)
		}
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		if _, err := f.readyList().Pop(ctx, 0, 10, time.Minute); !errors.Is(err, context.Canceled) {
			f.Errorf("Pop: %v, want context.Canceled", err)
		}
	}},
	{name: "pop/of many at once each hint goes to one", options: Options{}, run: func(f *fixture) {
		const n, callers = 300, 4
		counts := make([]int, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for {
					hints, err := f.readyList().Pop(f.ctx, 0, 7, 10*short)
					if err != nil {
						f.Errorf("Pop: %v", err)
						return
					}
					if len(hints) == 0 {
						return
					}
					counts[i] += len(hints)
				}
			})
		}
		f.register(store.Created, many("t", n)...)
		f.carry(carryOptions)
		wg.Wait()
		total := len(f.pop()) // should the poppers have waited in vain
		for _, c := range counts {
			total += c
		}
		equal(f, "hints", total, n)
	}},
}
