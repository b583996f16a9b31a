package v1

import (
	"net/http"
	"strings"

	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
)

const operationPath = "/v1/operations/{id}"

// checkOwn hides schedules and operations of other topics from restricted callers.
func (s *API) checkOwn(r *request) error {
	switch {
	case len(r.Topics()) == 0:
		return nil
	case strings.HasPrefix(r.row.path, schedulePath) && r.row.method != http.MethodPut:
		found, err := s.Schedules.Get(r.Context(), r.Param("schedule"))
		if err == nil && !r.Topics().Has(found.Def.Topic()) {
			err = schedules.ErrNotFound
		}
		return err
	case strings.HasPrefix(r.row.path, operationPath):
		found, err := s.Operations.Get(r.Context(), r.Param("id"))
		if err == nil && !found.Within(r.Topics()) {
			err = operations.ErrNotFound
		}
		return err
	}
	return nil
}

// ownFilter limits a filter of jobs to the caller's topics.
func (r *request) ownFilter(topic string, only *job.TopicSet) error {
	if topic != "" {
		return r.Topics().Allow(topic)
	}
	*only = r.Topics()
	return nil
}

// maxOwnPages bounds the pages of a listing that are read for one page of a restricted caller.
const maxOwnPages = 100

// ownPage reads a page of entries of the caller's topics. read returns up to limit entries behind
// the cursor, and the next cursor. The page may be short although more entries follow.
func ownPage[T any](r *request, topicsHave func(*T) bool, read func(limit int, cursor string) ([]T, string, error)) ([]T, string, error) {
	limit, cursor := r.query.Limit, r.query.Cursor
	if len(r.Topics()) == 0 {
		return read(limit, cursor)
	}
	var own []T
	for range maxOwnPages {
		all, next, err := read(limit-len(own), cursor)
		if err != nil {
			return nil, "", err
		}
		for i := range all {
			if topicsHave(&all[i]) {
				own = append(own, all[i])
			}
		}
		if cursor = next; next == "" || len(own) == limit {
			break
		}
	}
	return own, cursor, nil
}
