package listing

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
)

// GroupIndex is the name of the index of the jobs of job.Indexes.GroupID. No biz_key has this form.
func GroupIndex(groupID string) string { return groupMark + groupID }

// groupMark is a character that names cannot contain.
const groupMark = "/"

// CutGroupIndex returns the group id whose index has the name, if it is such a name.
func CutGroupIndex(name string) (groupID string, ok bool) { return strings.CutPrefix(name, groupMark) }

// Topics returns a page of topics. Its work is bounded by the page, whatever the number of
// topics.
func Topics(ctx context.Context, src store.Reader, q store.TopicQuery) (store.TopicPage, error) {
	if q.Busiest {
		return busiest(ctx, src, q)
	}
	names, next, err := topicNames(ctx, src, &q)
	if err != nil {
		return store.TopicPage{}, err
	}
	counts, err := topicCounts(ctx, src, names)
	page := store.TopicPage{Next: next}
	for i := range counts {
		if counts[i].sum() > 0 || slices.Contains(q.Also, names[i]) { // else it went meanwhile
			page.Topics = append(page.Topics, store.TopicStats{Topic: names[i], States: counts[i]})
		}
	}
	return page, err
}

// topicNames returns the topics of a page, and the cursor of the next one.
func topicNames(ctx context.Context, src store.Reader, q *store.TopicQuery) ([]string, string, error) {
	from, err := decodeName(topicCursor, q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if q.Topic != "" {
		return []string{q.Topic}, "", nil
	}
	walk := nameWalk{next: merged(src, store.NameQuery{Kind: store.TopicNames}), also: q.Also, from: behind(from), limit: q.Limit, chunk: q.Limit + 1}
	if q.Part != "" || len(q.Only) > 0 {
		walk.chunk = nameChunk
		walk.matches = topicMatch(q)
	}
	names, last, err := walk.page(ctx)
	return names, encodeName(topicCursor, last), err
}

// topicMatch reports whether q may select a topic.
func topicMatch(q *store.TopicQuery) func(name string) bool {
	part := strings.ToLower(q.Part)
	return func(name string) bool { return q.Only.Has(name) && strings.Contains(strings.ToLower(name), part) }
}

// busiest returns the topics with the most unfinished jobs. Most jobs of a topic wait, evenly
// spread over the shards, so one of the busiest topics is among the busiest of some shard.
func busiest(ctx context.Context, src store.Reader, q store.TopicQuery) (store.TopicPage, error) {
	if q.Cursor != "" {
		return store.TopicPage{}, errOtherListing
	}
	first := q
	first.Limit, first.Also = busyCandidates, nil
	names, _, err := topicNames(ctx, src, &first)
	if err != nil {
		return store.TopicPage{}, err
	}
	busy, err := namesIn(ctx, src, store.NameQuery{Kind: store.BusyNames, N: busyCandidates})
	if err != nil {
		return store.TopicPage{}, err
	}
	matches := topicMatch(&q)
	names = append(names, slices.DeleteFunc(busy, func(name string) bool { return !matches(name) })...)
	slices.Sort(names)
	names = slices.Compact(names)
	counts, err := topicCounts(ctx, src, names)
	if err != nil {
		return store.TopicPage{}, err
	}
	var page store.TopicPage
	for i := range counts {
		if t := (store.TopicStats{Topic: names[i], States: counts[i]}); t.Unfinished() > 0 {
			page.Topics = append(page.Topics, t)
		}
	}
	sort.SliceStable(page.Topics, func(i, j int) bool { return page.Topics[i].Unfinished() > page.Topics[j].Unfinished() })
	page.Topics = page.Topics[:min(q.Limit, busyCandidates, len(page.Topics))]
	return page, nil
}

// busyCandidates is how many topics of a shard may be among the busiest, and how many of all
// others are, the first by name: few topics may have many jobs.
const busyCandidates = 100

// nextNames returns the first n names that are not less than from, in order; fewer if there
// are no more.
type nextNames func(ctx context.Context, from string, n int) ([]string, error)

// merged are the names of all shards.
func merged(src store.Reader, q store.NameQuery) nextNames {
	return func(ctx context.Context, from string, n int) ([]string, error) {
		q.From, q.N = from, n
		all, err := namesIn(ctx, src, q)
		return all[:min(n, len(all))], err
	}
}

// namesIn returns the first names of every shard, sorted.
func namesIn(ctx context.Context, src store.Reader, q store.NameQuery) ([]string, error) {
	perShard, err := batch.Gather(ctx, src.Shards(), func(ctx context.Context, shard int) ([]string, error) {
		q := q
		q.Shard = shard
		return src.Names(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	all := slices.Concat(perShard...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Bounds of one page of names.
const (
	nameChunk = 1_000  // fetched at once where not all of them match
	maxNames  = 10_000 // examined
)

// nameWalk collects a page of names.
type nameWalk struct {
	next    nextNames
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

// Endpoints returns a page, by name, of the endpoints with unfinished jobs, an open or
// half-open circuit, or a ramp. Jobs that consumers fetch have none. Its work is bounded by the page
// and by the number of circuits.
func Endpoints(ctx context.Context, src store.Reader, q store.EndpointQuery) (store.EndpointPage, error) {
	var page store.EndpointPage
	circuits, now, err := circuitsOf(ctx, src)
	if err != nil {
		return page, err
	}
	names, next, err := endpointNames(ctx, src, &q, circuits)
	if err != nil {
		return page, err
	}
	page.Now, page.Next = now, next
	counts, err := endpointCounts(ctx, src, names)
	for i, of := range counts {
		page.Endpoints = append(page.Endpoints, store.EndpointStats{
			Endpoint: names[i], Circuit: circuits[names[i]],
			Waiting: of[job.Waiting] + of[job.Retrying], Ready: of[job.Ready], Running: of[job.Running],
		})
	}
	return page, err
}

// endpointNames returns the endpoints of a page, and the cursor of the next one. circuits are
// those that are not closed.
func endpointNames(ctx context.Context, src store.Reader, q *store.EndpointQuery, circuits map[string]store.Circuit) ([]string, string, error) {
	from, err := decodeName(endpointCursor, q.Cursor)
	if err != nil {
		return nil, "", err
	}
	walk := nameWalk{
		next: merged(src, store.NameQuery{Kind: store.EndpointNames}),
		also: slices.AppendSeq(slices.Clone(q.Also), maps.Keys(circuits)), from: behind(from), limit: q.Limit, chunk: q.Limit + 1,
		matches: func(name string) bool {
			g := circuits[name]
			return name != string(job.PullQueue) && (len(q.States) == 0 || slices.Contains(q.States, g.State()))
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
	return names, encodeName(endpointCursor, last), err
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
