package batch

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// atOnce bounds the parts that run at a time.
const atOnce = 16

// Each runs do for 0 to n-1. The first error cancels the others and is returned after all have
// ended.
func Each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	if n == 1 {
		return do(ctx, 0)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// Gather runs ask for 0 to n-1 as Each does, and returns the answers in order.
func Gather[T any](ctx context.Context, n int, ask func(ctx context.Context, i int) (T, error)) ([]T, error) {
	all := make([]T, n)
	err := Each(ctx, n, func(ctx context.Context, i int) (err error) {
		all[i], err = ask(ctx, i)
		return err
	})
	return all, err
}
