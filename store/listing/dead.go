package listing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// DeadName names the group of a dead letter: "topic|letter|endpoint|reason". Stores
// keep dead letters by it, each group in the order in which its jobs ended.
func DeadName(lane job.Lane, reason string) string { return lane.Plain().String() + "|" + reason }

// ParseDeadName is the reverse of DeadName.
func ParseDeadName(name string) (lane job.Lane, reason string, err error) {
	at := strings.LastIndexByte(name, '|')
	if at < 0 {
		return lane, "", fmt.Errorf("a group of dead letters is written topic|letter|endpoint|reason, not %q", name)
	}
	lane, err = job.ParseLane(name[:at])
	return lane, name[at+1:], err
}

// DeadGroups reads a page of the groups of dead letters of a topic, or of all. names returns
// the first n names of groups, sorted, that are not less than from; read returns what is in
// groups, without Lane and Reason.
func DeadGroups(
	ctx context.Context, topic string, limit int, cursor string, names NextNames,
	read func(ctx context.Context, names []string) ([]store.DeadGroup, error),
) (store.DeadPage, error) {
	from, err := decodeName(deadCursor, cursor)
	if err != nil {
		return store.DeadPage{}, err
	}
	if from != "" {
		lane, _, err := ParseDeadName(from)
		if err != nil || topic != "" && lane.Topic != topic {
			return store.DeadPage{}, errOtherListing
		}
		from += "\x00" // the first name behind it
	}
	found, err := names(ctx, from, limit+1)
	if err != nil {
		return store.DeadPage{}, err
	}
	var page store.DeadPage
	if len(found) > limit {
		found = found[:limit]
		page.Next = encodeName(deadCursor, found[limit-1])
	}
	if page.Groups, err = read(ctx, found); err != nil {
		return store.DeadPage{}, err
	}
	for i, name := range found {
		g := &page.Groups[i]
		if g.Lane, g.Reason, err = ParseDeadName(name); err != nil {
			return store.DeadPage{}, err
		}
	}
	page.Groups = slices.DeleteFunc(page.Groups, func(g store.DeadGroup) bool { return g.Count == 0 }) // emptied meanwhile
	return page, nil
}
