package app

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
)

// part is something that runs until its context ends, and then returns when
// it is drained.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// runParts runs all parts until ctx ends or one of them fails, and then stops
// them one after the other in the order given, each when the one before it is
// drained. It returns the first failure.
func runParts(ctx context.Context, log *slog.Logger, parts ...part) error {
	group, stop := errgroup.WithContext(ctx)
	stopPart := make([]context.CancelFunc, len(parts))
	drained := make([]chan struct{}, len(parts))
	for i, p := range parts {
		// Not derived from ctx: a part stops when its turn comes.
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stopPart[i], drained[i] = cancel, make(chan struct{})
		group.Go(func() error {
			defer close(drained[i])
			err := p.run(partCtx)
			if err == nil && partCtx.Err() == nil {
				err = fmt.Errorf("%s ended by itself", p.name)
			}
			return err
		})
	}
	group.Go(func() error {
		<-stop.Done()
		for i, p := range parts {
			log.Info("stopping", "part", p.name)
			stopPart[i]()
			<-drained[i]
		}
		return nil
	})
	return group.Wait()
}
