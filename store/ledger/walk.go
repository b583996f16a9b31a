package ledger

import (
	"context"
	"fmt"

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
	decode  bool   // read what clients gave, too
	// checked counts compared jobs, and settle gets the findings of each window. pause follows
	// each page.
	checked func(jobs int)
	settle  func(ctx context.Context, found []finding) error
	pause   func(ctx context.Context) error
}

// run compares page after page, until next returns no more.
func (w *walkers) run(ctx context.Context, next func() (found []finding, jobs int, more bool, err error)) error {
	for more := true; more; {
		var found []finding
		for n := 0; n < windowPages && more; n++ {
			var differ []finding
			var jobs int
			var err error
			if differ, jobs, more, err = next(); err != nil {
				return err
			}
			w.checked(jobs)
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

// ledger compares the open messages of the ledger with the store.
func (w *walkers) ledger(ctx context.Context) error {
	var last *entry
	return w.run(ctx, func() (found []finding, jobs int, more bool, err error) {
		page, err := w.compare.openEntries(ctx, w.topic, last)
		if err != nil {
			return nil, 0, false, err
		}
		if more = len(page) == entryPage; more {
			last = page[len(page)-1]
		}
		if w.decode {
			if err := w.compare.decodeAll(ctx, page); err != nil {
				return nil, 0, false, err
			}
		}
		found, err = w.compare.fromLedger(ctx, page)
		return found, len(page), more, err
	})
}

// store compares the unfinished jobs of the store with the ledger.
func (w *walkers) store(ctx context.Context) error {
	q := store.Query{
		Topic: w.topic, Limit: entryPage,
		States: []job.State{job.Waiting, job.Retrying, job.Ready, job.Running},
	}
	if w.dead {
		q.States = append(q.States, job.Dead)
	}
	return w.run(ctx, func() (found []finding, jobs int, more bool, err error) {
		page, err := listing.List(ctx, w.compare.inner, q)
		if err != nil {
			return nil, 0, false, fmt.Errorf("list the store: %w", err)
		}
		q.Cursor = page.Next
		found, err = w.compare.fromStore(ctx, page.Jobs)
		return found, len(page.Jobs), page.Next != "", err
	})
}
