package memstore

import (
	"context"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Standings returns the standings of jobs.
func (s *Store) Standings(ctx context.Context, keys []job.Key) ([]store.Standing, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	all := make([]store.Standing, len(keys))
	for i, key := range keys {
		if rec := s.find(key); rec != nil {
			all[i] = store.Standing{
				UID: rec.uid, State: rec.state, Version: rec.version, Token: rec.token, CreatedAt: rec.createdAt,
			}
		}
	}
	return all, nil
}

// SwapEpoch stores an epoch and returns the one before. The store is whole if that one is
// whole.
func (s *Store) SwapEpoch(ctx context.Context, mark, whole string) ([]string, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	before := s.mark
	s.mark, s.whole = strings.Clone(mark), whole != "" && before == whole
	return []string{before}, nil
}
