package v1

import (
	"net/http"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/operations"
	"github.com/duehook/duehook/scheduler/schedules"
)

// Keys can be restricted to topics. The server checks the topic of a path, and refuses restricted
// keys all calls without one, except these: they limit themselves to the caller's topics.
var ownTopics = map[string]bool{
	"POST " + jobsPath: true, "POST " + batchPath: true, "POST " + planPath: true, "GET " + jobsPath: true, "GET /v1/dead": true, "GET /v1/topics": true,
	"POST /v1/operations": true, "GET /v1/operations": true, "GET " + operationPath: true,
	"POST " + operationPath + "/stop": true, "POST " + operationPath + "/resume": true,
	"GET " + schedulesPath: true, "POST " + previewPath: true, "PUT " + schedulePath: true, "GET " + schedulePath: true, "DELETE " + schedulePath: true,
	"GET " + schedulePath + "/registration": true, "GET " + schedulePath + "/occurrences": true, "GET " + schedulePath + "/runs": true,
	"POST " + schedulePath + "/pause": true, "POST " + schedulePath + "/resume": true,
	"POST " + schedulePath + "/skip": true, "POST " + schedulePath + "/unskip": true, "GET " + calendarsPath: true, "GET " + calendarPath: true,
	"POST " + schedulePath + "/run": true, "POST " + schedulePath + "/backfill": true,
	"POST /v1/endpoints/test": true, "GET " + eventsPath: true,
	"POST " + pullPath: true, "POST " + pullPath + "/ack": true, "POST " + pullPath + "/nack": true, "POST " + pullPath + "/extend": true,
	"GET /v1/activity": true, "GET /v1/whoami": true,
}

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
