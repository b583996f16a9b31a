package operations

import (
	"context"
	"fmt"
	"time"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// previewTime bounds the counting of one preview; requests have twice as long.
const previewTime = 5 * time.Second

// previewPage is how many jobs are examined in a step.
const previewPage = 1000

// Preview is the effect that an operation would have.
type Preview struct {
	Operation Operation // without an id
	Matched   int64     // jobs that it would change
	// Complete is false if the time did not suffice to count all.
	Complete bool
}

// Preview counts what an operation would change, for a few seconds at most. It
// changes nothing. Errors: a *job.ValidationError, or the store's.
func (m *Manager) Preview(ctx context.Context, d Draft) (Preview, error) {
	o, err := m.draft(ctx, d)
	if err != nil {
		return Preview{}, err
	}
	p := Preview{Operation: o}
	if o.ofEnded() { // it can change all jobs of the filter
		known, err := m.estimate(ctx, &o)
		if err != nil {
			return Preview{}, err
		}
		if known != nil {
			p.Matched, p.Complete = *known, true
			return p, nil
		}
	}
	until := m.clock.Now().Add(previewTime)
	q := o.listing()
	q.Limit = previewPage
	for {
		page, err := listing.List(ctx, m.store, q)
		if err != nil {
			return Preview{}, fmt.Errorf("count jobs: %w", err)
		}
		p.Matched += o.count(page)
		if q.Cursor = page.Next; q.Cursor == "" {
			p.Complete = true
			return p, nil
		}
		if !m.clock.Now().Before(until) {
			return p, nil
		}
	}
}

// count returns how many jobs of a page the operation would change.
func (o *Operation) count(page store.Page) (n int64) {
	for i := range page.Jobs {
		if o.selects(&page.Jobs[i], o.StartedAt) {
			n++
		}
	}
	return n
}
