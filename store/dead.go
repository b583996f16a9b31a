package store

import "github.com/duehook/duehook/internal/job"

// DeadGroup is the dead letters of one topic, endpoint and reason. Lane is the plain
// one, whatever their priorities.
type DeadGroup struct {
	Lane   job.Lane
	Reason string
	Count  int64
	// Oldest and Newest are when the first and the last one ended.
	Oldest, Newest job.Instant
}

// DeadPage is a page of groups of dead letters. Next is empty on the last.
type DeadPage struct {
	Groups []DeadGroup
	Next   string
}

// ReadPages reads the items of up to n pages. all is false if there are more.
func ReadPages[T any](n int, read func(cursor string) (items []T, next string, err error)) (items []T, all bool, err error) {
	cursor := ""
	for range n {
		page, next, err := read(cursor)
		if err != nil {
			return nil, false, err
		}
		items = append(items, page...)
		if cursor = next; cursor == "" {
			return items, true, nil
		}
	}
	return items, false, nil
}
