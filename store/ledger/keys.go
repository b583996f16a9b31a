package ledger

import (
	"context"
	"sync"

	"github.com/duehook/duehook/job"
)

// keyLocks lets one update at a time change a job, so that each finds its change in the store
// after the commit.
type keyLocks struct {
	held sync.Map // by job.Key a chan struct{}, closed when the key is released
}

// lock takes a key. unlock releases it.
func (l *keyLocks) lock(ctx context.Context, key job.Key) (unlock func(), err error) {
	done := make(chan struct{})
	for {
		held, busy := l.held.LoadOrStore(key, done)
		if !busy {
			return func() {
				l.held.Delete(key)
				close(done)
			}, nil
		}
		select {
		case <-held.(chan struct{}):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
