package listing

import (
	"context"
	"fmt"
	"strings"

	"github.com/duehook/duehook/internal/job"
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

// DeadGroups returns a page, by name, of the groups of dead letters, of one topic or of all if
// topic is empty. Its work is bounded by limit, 1 to 1000.
func DeadGroups(ctx context.Context, src store.Reader, topic string, limit int, cursor string) (store.DeadPage, error) {
	from, err := decodeName(deadCursor, cursor)
	if err != nil {
		return store.DeadPage{}, err
	}
	if from != "" {
		lane, _, err := ParseDeadName(from)
		if err != nil || topic != "" && lane.Topic != topic {
			return store.DeadPage{}, errOtherListing
		}
	}
	found, err := merged(src, store.NameQuery{Kind: store.DeadNames, Topic: topic})(ctx, behind(from), limit+1)
	if err != nil {
		return store.DeadPage{}, err
	}
	var page store.DeadPage
	if len(found) > limit {
		found = found[:limit]
		page.Next = encodeName(deadCursor, found[limit-1])
	}
	if len(found) == 0 {
		return page, nil
	}
	perShard, err := ask(ctx, src, store.FigureQuery{Groups: found})
	if err != nil {
		return store.DeadPage{}, err
	}
	for i, name := range found {
		var g store.DeadGroup
		if g.Lane, g.Reason, err = ParseDeadName(name); err != nil {
			return store.DeadPage{}, err
		}
		for shard := range perShard { // each may have a part of the group
			part := perShard[shard].Groups[i]
			if part.Count > 0 && (g.Count == 0 || part.Oldest < g.Oldest) {
				g.Oldest = part.Oldest
			}
			g.Count, g.Newest = g.Count+part.Count, max(g.Newest, part.Newest)
		}
		if g.Count > 0 { // else it was emptied meanwhile
			page.Groups = append(page.Groups, g)
		}
	}
	return page, nil
}
