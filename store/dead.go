package store

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
)

// DeadGroup counts the dead letters of one topic and endpoint that gave up for
// one reason; Lane is the plain one, whatever their priorities.
type DeadGroup struct {
	Lane   job.Lane
	Reason string
	Count  int64
	// Oldest and Newest are when the first and the last of them ended.
	Oldest, Newest job.Instant
}

// DeadPage is one page of the groups of dead letters; Next is empty on the last.
type DeadPage struct {
	Groups []DeadGroup
	Next   string
}

// deadPage is how many groups of dead letters are read at a time.
const deadPage = 1000

// ReadDeadGroups reads the groups of dead letters of one topic, or of all, in so
// many pages of 1000 at most; all is false when there are more.
func ReadDeadGroups(ctx context.Context, from DeadLetters, topic string, pages int) (groups []DeadGroup, all bool, err error) {
	cursor := ""
	for range pages {
		page, err := from.DeadGroups(ctx, topic, deadPage, cursor)
		if err != nil {
			return nil, false, fmt.Errorf("count dead letters: %w", err)
		}
		groups = append(groups, page.Groups...)
		if cursor = page.Next; cursor == "" {
			return groups, true, nil
		}
	}
	return groups, false, nil
}

// DeadLetters is the part of a Reader that counts dead letters.
type DeadLetters interface {
	DeadGroups(ctx context.Context, topic string, limit int, cursor string) (DeadPage, error)
}
