package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// windowPages is how many pages are compared before their differences are checked again.
const windowPages = 50

// walkers read a ledger and a store page by page, and compare them.
type walkers struct {
	compare comparer
	topic   string // empty: all
	dead    bool   // include dead letters of the store
	// checked counts compared jobs, settle gets the findings of each window, and bad gets
	// unreadable jobs. pause follows each page.
	checked func(jobs int)
	bad     func(...unreadable)
	settle  func(ctx context.Context, found []finding) error
	pause   func(ctx context.Context) error
}

// ledger compares the open messages of the ledger with the store.
func (w *walkers) ledger(ctx context.Context) error {
	var last *entry
	for more := true; more; {
		var found []finding
		for n := 0; n < windowPages && more; n++ {
			page, err := w.compare.openEntries(ctx, w.topic, last)
			if err != nil {
				return err
			}
			if more = len(page) == entryPage; more {
				last = page[len(page)-1]
			}
			page = slices.DeleteFunc(page, func(e *entry) bool {
				if e.bad != nil {
					w.bad(e.unreadable())
				}
				return e.bad != nil
			})
			differ, err := w.compare.fromLedger(ctx, page)
			if err != nil {
				return err
			}
			w.checked(len(page))
			found = append(found, differ...)
			if err := w.pause(ctx); err != nil {
				return err
			}
		}
		if err := w.settle(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// store compares the unfinished jobs of the store with the ledger.
func (w *walkers) store(ctx context.Context) error {
	var found []finding
	q := store.Query{
		Topic: w.topic, Limit: entryPage,
		States: []job.State{job.Waiting, job.Retrying, job.Ready, job.Running},
	}
	if w.dead {
		q.States = append(q.States, job.Dead)
	}
	for n := 1; ; n++ {
		page, err := listing.List(ctx, w.compare.inner, q)
		if err != nil {
			return fmt.Errorf("list the store: %w", err)
		}
		keys, standings := make([]job.Key, len(page.Jobs)), make([]store.Standing, len(page.Jobs))
		for i := range page.Jobs {
			keys[i], standings[i] = page.Jobs[i].Key, store.StandingOf(&page.Jobs[i])
		}
		differ, err := w.compare.fromStore(ctx, keys, standings)
		if err != nil {
			return err
		}
		w.checked(len(keys))
		found = append(found, differ...)
		last := page.Next == ""
		if last || n%windowPages == 0 {
			if err := w.settle(ctx, found); err != nil {
				return err
			}
			found = nil
		}
		if last {
			return nil
		}
		q.Cursor = page.Next
		if err := w.pause(ctx); err != nil {
			return err
		}
	}
}
