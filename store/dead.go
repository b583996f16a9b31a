package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

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

// DeadName names the group of a dead letter: "topic|endpoint|reason". Stores
// keep dead letters by it, each group in the order in which its jobs ended.
func DeadName(lane job.Lane, reason string) string { return lane.Plain().String() + "|" + reason }

// ParseDeadName is the reverse of DeadName.
func ParseDeadName(name string) (lane job.Lane, reason string, err error) {
	at := strings.LastIndexByte(name, '|')
	if at < 0 {
		return lane, "", fmt.Errorf("a group of dead letters is written topic|endpoint|reason, not %q", name)
	}
	lane, err = job.ParseLane(name[:at])
	return lane, name[at+1:], err
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

// DeadCursor is the cursor of a page that ends with a group.
func DeadCursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// ParseDeadCursor gives the name of the group behind which a page begins; the
// empty cursor gives the empty name.
func ParseDeadCursor(topic, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	name, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadCursor, err)
	}
	lane, _, err := ParseDeadName(string(name))
	if err != nil || topic != "" && lane.Topic != topic {
		return "", fmt.Errorf("%w: it belongs to another listing", ErrBadCursor)
	}
	return string(name), nil
}
