package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/duehook/duehook/job"
)

// TopicStats counts the jobs that a topic holds now.
type TopicStats struct {
	Topic  string
	States map[job.State]int64 // missing means 0
	// DueIn counts unfinished jobs by DueRanges, in that order; overdue ones
	// and those being worked on are in the first. Nil in listings of topics.
	DueIn []int64
	// DuePartial is set when the topic has more than MaxLanes lanes: DueIn counts
	// the jobs of so many.
	DuePartial bool
}

// Unfinished is how many of the jobs have not ended.
func (t *TopicStats) Unfinished() (n int64) {
	for state, held := range t.States {
		if !state.Final() {
			n += held
		}
	}
	return n
}

// MaxLanes bounds how many lanes of a shard one call counts.
const MaxLanes = 10_000

// TopicQuery selects topics.
type TopicQuery struct {
	Part string // of the name, whatever its case; empty: all topics
	// Also are topics that are listed although they may hold no job.
	Also   []string
	Limit  int    // 1..1000
	Cursor string // from the page before, or empty
}

// TopicPage is one page of topics, by name; Next is empty on the last. A page may
// hold fewer topics than asked for, even none, and still have a next one: a page
// examines a bounded number of names.
type TopicPage struct {
	Topics []TopicStats
	Next   string
}

// BusyTopic is a topic with its unfinished jobs.
type BusyTopic struct {
	Topic      string
	Unfinished int64
}

// Pick gives the names of the page that q asks for, and the cursor of the next.
// next gives a store's topics. It is for stores.
func (q *TopicQuery) Pick(ctx context.Context, next NextNames) ([]string, string, error) {
	from, err := decodeName(topicCursor, q.Cursor)
	if err != nil {
		return nil, "", err
	}
	part := strings.ToLower(q.Part)
	walk := nameWalk{next: next, also: q.Also, from: from, limit: q.Limit, chunk: q.Limit + 1}
	if part != "" {
		walk.chunk = nameChunk
		walk.matches = func(name string) bool { return strings.Contains(strings.ToLower(name), part) }
	}
	names, last, err := walk.page(ctx)
	return names, encodeName(topicCursor, last), err
}

// NextNames gives the first n names that are not less than from, in order; fewer
// when there are no more.
type NextNames func(ctx context.Context, from string, n int) ([]string, error)

// Bounds of one page of names.
const (
	nameChunk = 1_000  // fetched at once where not all of them match
	maxNames  = 10_000 // examined
)

// nameWalk collects a page of names.
type nameWalk struct {
	next    NextNames
	also    []string // names beside those
	matches func(name string) bool
	from    string
	limit   int
	chunk   int
}

// page gives the names, and behind which one the next page begins; empty: there is none.
func (w *nameWalk) page(ctx context.Context) (page []string, last string, err error) {
	also := slices.Compact(slices.Sorted(slices.Values(w.also)))
	for examined := 0; ; {
		names, err := w.next(ctx, w.from, w.chunk)
		if err != nil {
			return nil, "", err
		}
		examined += len(names)
		ends := len(names) < w.chunk
		first, _ := slices.BinarySearch(also, w.from)
		behind := len(also)
		if !ends {
			last = names[len(names)-1]
			w.from = last + "\x00" // the next one that there can be
			behind, _ = slices.BinarySearch(also, w.from)
		}
		names = append(names, also[min(first, behind):behind]...)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if w.matches != nil && !w.matches(name) {
				continue
			}
			if len(page) == w.limit {
				return page, page[len(page)-1], nil
			}
			page = append(page, name)
		}
		if ends {
			return page, "", nil
		}
		if examined >= maxNames {
			return page, last, nil
		}
	}
}

// Kinds of cursors of names.
const (
	topicCursor    = "t "
	endpointCursor = "e "
)

func encodeName(kind, name string) string {
	if name == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + name))
}

// decodeName gives the name from which a page is looked for.
func decodeName(kind, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadCursor, err)
	}
	name, ok := strings.CutPrefix(string(text), kind)
	if !ok || name == "" {
		return "", fmt.Errorf("%w: it belongs to another listing", ErrBadCursor)
	}
	return name + "\x00", nil
}
