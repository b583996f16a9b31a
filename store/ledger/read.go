package ledger

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// A store of this process alone has a change before it is committed, and loses
// with the process what is not. So whoever asks about one job is answered when
// what is under way for it is committed: a client that was told that its job is
// cancelled must not find it delivered after a crash. A shared store keeps what
// it says by itself. Listings do not wait.

// Get is the wrapped store's, of what is committed.
func (s *Store) Get(ctx context.Context, key job.Key) (job.Job, error) {
	return committed(ctx, s, key, s.inner.Get)
}

// Attempts is the wrapped store's, of what is committed.
func (s *Store) Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error) {
	return committed(ctx, s, key, s.inner.Attempts)
}

// Outlook is the wrapped store's, of what is committed.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	return committed(ctx, s, key, s.inner.Outlook)
}

// committed reads when no change of the job is under way.
func committed[T any](ctx context.Context, s *Store, key job.Key, read func(context.Context, job.Key) (T, error)) (T, error) {
	if !s.o.Shared {
		unlock, err := s.keys.lockWritten(ctx, key)
		if err != nil {
			var none T
			return none, err
		}
		defer unlock()
	}
	return read(ctx, key)
}
