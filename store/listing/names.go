package listing

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/duehook/duehook/store"
)

// GroupIndex is the name of the index of a group id's jobs. No biz_key has this form.
func GroupIndex(groupID string) string { return groupMark + groupID }

// groupMark is a character that names cannot contain.
const groupMark = "/"

// CutGroupIndex returns the group id whose index has the name, if it is such a name.
func CutGroupIndex(name string) (groupID string, ok bool) { return strings.CutPrefix(name, groupMark) }

// Topics returns the names of the page that q selects, and the cursor of the next
// page. next reads the store's topics.
func Topics(ctx context.Context, q *store.TopicQuery, next NextNames) ([]string, string, error) {
	from, err := decodeName(topicCursor, q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if q.Topic != "" {
		return []string{q.Topic}, "", nil
	}
	part := strings.ToLower(q.Part)
	walk := nameWalk{next: next, also: q.Also, from: behind(from), limit: q.Limit, chunk: q.Limit + 1}
	if part != "" || len(q.Only) > 0 {
		walk.chunk = nameChunk
		walk.matches = func(name string) bool { return q.Only.Has(name) && strings.Contains(strings.ToLower(name), part) }
	}
	names, last, err := walk.page(ctx)
	return names, encodeName(topicCursor, last), err
}

// NextNames returns the first n names that are not less than from, in order; fewer if there
// are no more.
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

// page returns the names, and the one after which the next page begins; empty: there is
// none.
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
		end := len(also)
		if !ends {
			last = names[len(names)-1]
			w.from = behind(last)
			end, _ = slices.BinarySearch(also, w.from)
		}
		names = append(names, also[min(first, end):end]...)
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
	deadCursor     = "d "
)

func encodeName(kind, name string) string {
	if name == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + name))
}

var errOtherListing = fmt.Errorf("%w: it belongs to another listing", store.ErrBadCursor)

// decodeName returns the name behind which a page begins; empty for the first page.
func decodeName(kind, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", fmt.Errorf("%w: %w", store.ErrBadCursor, err)
	}
	name, ok := strings.CutPrefix(string(text), kind)
	if !ok || name == "" {
		return "", errOtherListing
	}
	return name, nil
}

// behind is the first name that there can be behind another one.
func behind(name string) string {
	if name == "" {
		return ""
	}
	return name + "\x00"
}

// Endpoints returns the endpoints of the page that q selects, and the cursor of the
// next page. circuits are the circuits that are not simply closed; next reads the
// store's endpoints with unfinished jobs.
func Endpoints(ctx context.Context, q *store.EndpointQuery, circuits map[string]store.Circuit, next NextNames) ([]store.EndpointStats, string, error) {
	from, err := decodeName(endpointCursor, q.Cursor)
	if err != nil {
		return nil, "", err
	}
	walk := nameWalk{
		next: next, also: slices.AppendSeq(slices.Clone(q.Also), maps.Keys(circuits)), from: behind(from), limit: q.Limit, chunk: q.Limit + 1,
		matches: func(name string) bool {
			g := circuits[name]
			return len(q.States) == 0 || slices.Contains(q.States, g.State())
		},
	}
	if !wantsClosed(q) {
		walk.next = func(context.Context, string, int) ([]string, error) { return nil, nil }
	}
	if q.Endpoint != "" {
		if walk, err = only(ctx, q.Endpoint, walk); err != nil {
			return nil, "", err
		}
	}
	names, last, err := walk.page(ctx)
	page := make([]store.EndpointStats, len(names))
	for i, name := range names {
		page[i] = store.EndpointStats{Endpoint: name, Circuit: circuits[name]}
	}
	return page, encodeName(endpointCursor, last), err
}

// wantsClosed: endpoints without a circuit may be among those selected.
func wantsClosed(q *store.EndpointQuery) bool {
	return len(q.States) == 0 || slices.Contains(q.States, store.CircuitClosed)
}

// only narrows a walk down to one endpoint.
func only(ctx context.Context, name string, walk nameWalk) (nameWalk, error) {
	others := func(other string) bool { return other != name }
	if !slices.Contains(walk.also, name) {
		found, err := walk.next(ctx, name, 1)
		if err != nil {
			return walk, err
		}
		walk.also = append(walk.also, found...)
	}
	walk.also = slices.DeleteFunc(walk.also, others)
	walk.next = func(context.Context, string, int) ([]string, error) { return nil, nil }
	return walk, nil
}
