package listing

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
)

func compareIndexes(a, b store.Index) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shard, b.Shard))
}

// following is the first index that can come behind one.
func following(i store.Index) store.Index {
	i.Shard++
	return i
}

// Bounds of one page, so that a filter that matches nothing cannot keep a
// store busy: the entries that it examines, and what counts for entries besides:
// fetching a chunk of them, so that many small segments are bounded as well,
// reading a job for nothing, and passing over a segment.
const (
	maxExamined  = 10_000
	maxFruitless = 3 * maxExamined // of a page without jobs
	maxSegments  = 1_000           // listed at once
	fetchCost    = 10
	missCost     = 4
	missBytes    = 2 << 10 // of jobs read for nothing count for one entry
	maxChunk     = 1_000
	maxLimit     = 1_000
	leastBatch   = 100
)

// List returns a page of jobs in a fixed order. It lists a job exactly once if its state, URL
// and due time do not change between the pages. A page may have fewer jobs than the limit, even
// none, and a next page: it examines a bounded number of jobs, and ends when its jobs take
// store.PageBytes.
func List(ctx context.Context, src store.Reader, query store.Query) (store.Page, error) {
	return list(ctx, src, filter{Query: query, part: store.WholeJob})
}

// Heads is List of jobs without their bodies.
func Heads(ctx context.Context, src store.Reader, query store.Query) (store.Page, error) {
	return list(ctx, src, filter{Query: query, part: store.JobHead})
}

func list(ctx context.Context, src store.Reader, q filter) (store.Page, error) {
	w := walk{src: src, q: q, limit: min(max(q.Limit, 1), maxLimit), budget: maxExamined, room: store.PageBytes}
	if err := q.checkOrder(); err != nil {
		return store.Page{}, err
	}
	from, err := decodeCursor(q)
	if err != nil {
		return store.Page{}, err
	}
	if q.UID != "" {
		return lookUp(ctx, src, q, from)
	}
	if q.Order != "" {
		if err := w.ordered(ctx, from); err != nil {
			return store.Page{}, err
		}
		return w.page()
	}
	for _, kind := range q.kinds() {
		if kind < from.Index.Kind {
			continue
		}
		more, err := w.kind(ctx, kind, from)
		if err != nil {
			return store.Page{}, err
		}
		if more {
			break
		}
	}
	return w.page()
}

// getting is the part of store.Reader that Jobs needs.
type getting interface {
	Get(ctx context.Context, key job.Key) (job.Job, error)
}

// Jobs returns the jobs of keys, nil for those that the store does not have.
func Jobs(ctx context.Context, src getting, keys []job.Key) ([]*job.Job, error) {
	return batch.Gather(ctx, len(keys), func(ctx context.Context, i int) (found *job.Job, err error) {
		j, err := src.Get(ctx, keys[i])
		if err == nil {
			found = &j
		} else if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return found, err
	})
}

// HeadsOf is Jobs without their bodies. Jobs that cannot be read may be nil, too.
func HeadsOf(ctx context.Context, src store.Reader, keys []job.Key) ([]*job.Job, error) {
	if src.Shards() == 1 {
		heads := make([]*job.Job, 0, len(keys))
		for len(heads) < len(keys) {
			some, err := src.Read(ctx, store.ReadQuery{Keys: keys[len(heads):], Part: store.JobHead})
			if err != nil {
				return nil, err
			}
			heads = append(heads, some.Jobs...)
		}
		return heads, nil
	}
	heads, err := Jobs(ctx, src, keys)
	for _, j := range heads {
		if j != nil {
			j.Spec.Body = nil
		}
	}
	return heads, err
}

// lookUp reads a page of the listing by uid, which holds one job at most.
func lookUp(ctx context.Context, src store.Reader, q filter, from position) (store.Page, error) {
	uid := store.Index{Kind: store.IndexUID, Name: q.UID}
	entries, next, err := src.Entries(ctx, uid, store.Span{After: from.After, N: 1})
	switch {
	case err != nil:
		return store.Page{}, err
	case len(entries) > 0:
		return q.found(ctx, src, entries[0])
	case next == nil:
		return store.Page{}, nil
	}
	cursor, err := encodeCursor(q, position{Index: uid, After: next})
	return store.Page{Next: cursor}, err
}

// found reads the job of an entry of a uid. It may be gone, or another one have its key.
func (q *filter) found(ctx context.Context, src store.Reader, e store.Entry) (store.Page, error) {
	key, err := job.ParseKey(e.ID)
	if err != nil {
		return store.Page{}, fmt.Errorf("the entry %q of a uid: %w", e.ID, err)
	}
	j, err := src.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Page{}, nil
	case err != nil:
		return store.Page{}, err
	case !q.Matches(&j):
		return store.Page{}, nil
	}
	if q.part == store.JobHead {
		j.Spec.Body = nil
	}
	return store.Page{Jobs: []job.Job{j}}, nil
}

// walk collects one page.
type walk struct {
	src    store.Reader
	q      filter
	limit  int
	budget int

	jobs []job.Job
	at   []position // of each job
	room int        // for bytes
	last position   // up to here everything was examined
}

// position is where a page begins or ends within a listing; a nil After is before the segment's
// first entry.
type position struct {
	Index store.Index     `json:"g"`
	After *store.Position `json:"a,omitempty"`
}

// kind walks all segments of a kind; it reports whether the page ends in them.
func (w *walk) kind(ctx context.Context, kind store.IndexKind, from position) (bool, error) {
	if from.Index.Kind != kind {
		from = position{}
	}
	for {
		segments, err := w.segments(ctx, kind, from.Index)
		if err != nil {
			return false, err
		}
		for _, seg := range segments {
			w.last = position{Index: seg}
			if seg == from.Index {
				w.last.After = from.After
			}
			ends, err := w.segment(ctx)
			if err != nil || ends {
				return ends, err
			}
		}
		if len(segments) < maxSegments {
			return false, nil
		}
		from = position{Index: following(segments[len(segments)-1])}
	}
}

// namesOf are the indexes of names of the indexes of jobs.
var namesOf = map[store.IndexKind]store.NameKind{
	store.IndexLane: store.LaneNames, store.IndexDead: store.DeadNames, store.IndexEnded: store.EndedNames,
}

// segments returns the next indexes of a kind, by name and shard.
func (w *walk) segments(ctx context.Context, kind store.IndexKind, from store.Index) ([]store.Index, error) {
	perShard, err := batch.Gather(ctx, w.src.Shards(), func(ctx context.Context, shard int) ([]string, error) {
		switch {
		case kind == store.IndexNamed:
			return []string{w.q.index()}, nil
		case kind == store.IndexEnded && w.q.Topic != "":
			return []string{w.q.Topic}, nil
		}
		// One more than requested: the first may be before the one to begin with.
		q := store.NameQuery{Kind: namesOf[kind], Shard: shard, Topic: w.q.Topic, From: from.Name, N: maxSegments + 1}
		if kind == store.IndexLane {
			q.Endpoint = w.q.Endpoint
		}
		return w.src.Names(ctx, q)
	})
	var all []store.Index
	for shard, names := range perShard {
		for _, name := range names {
			if i := (store.Index{Kind: kind, Name: name, Shard: shard}); compareIndexes(i, from) >= 0 {
				all = append(all, i)
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return compareIndexes(all[i], all[j]) < 0 })
	return all[:min(maxSegments, len(all))], err
}

// segment walks on from w.last to the end of its segment; it reports whether
// the page ends before that.
func (w *walk) segment(ctx context.Context) (bool, error) {
	if !w.q.mayHold(w.last.Index) {
		w.budget--
		return w.ends(), nil
	}
	byDue := w.q.byDue(w.last.Index)
	if byDue && w.last.After == nil && !w.q.Wants(job.Ready) && !w.q.Wants(job.Running) {
		w.last.After = w.q.dueFrom()
	}
	for !w.ends() {
		n := w.chunk(byDue)
		entries, _, err := w.src.Entries(ctx, w.last.Index, store.Span{After: w.last.After, N: n})
		if err != nil {
			return false, err
		}
		w.budget -= len(entries) + fetchCost
		last, next := len(entries) < n, (*store.Position)(nil)
		if byDue {
			entries, next, last = w.q.cutDue(entries, last)
		}
		if all, err := w.take(ctx, entries); err != nil || !all {
			return true, err
		}
		switch {
		case next != nil:
			w.last.After = next
		case len(entries) > 0:
			w.last.After = &entries[len(entries)-1].Position
		}
		if last {
			break
		}
	}
	return w.ends(), nil
}

// ends reports whether nothing more is to be fetched.
func (w *walk) ends() bool { return w.full() || w.spent(len(w.jobs)) }

// spent reports whether enough entries were examined for a page with so many jobs. One
// without jobs goes on for longer: it is of no use to a client.
func (w *walk) spent(jobs int) bool {
	return w.budget <= 0 && (jobs > 0 || w.budget <= maxExamined-maxFruitless)
}

// full reports whether the page needs no more jobs: one job beyond the page shows that
// there is a next page.
func (w *walk) full() bool { return len(w.jobs) > w.limit || w.room <= 0 }

// chunk is how many entries to fetch: no more than needed when all of them
// belong to the page.
func (w *walk) chunk(byDue bool) int {
	if byDue {
		return max(w.missing(), leastBatch)
	}
	if w.q.looksAtEntries() || w.q.index() != "" || w.q.looksInside() {
		return maxChunk
	}
	return w.missing()
}

func (w *walk) missing() int { return w.limit + 1 - len(w.jobs) }

// batch is how many jobs to read at once: when many of them may not match, more
// than the page still holds, or a rare match would be looked for in small steps.
func (w *walk) batch() int {
	if w.q.looksInside() {
		return max(w.missing(), leastBatch)
	}
	return w.missing()
}

// take adds the matching jobs of entries to the page until it ends. It reports whether it took
// all entries.
func (w *walk) take(ctx context.Context, entries []store.Entry) (bool, error) {
	seg := w.last.Index
	if w.q.looksAtEntries() && seg.Kind != store.IndexNamed {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e store.Entry) bool { return !w.q.wantsEntry(e) })
	}
	for len(entries) > 0 {
		jobs, err := readJobs(ctx, w.src, seg, entries[:min(len(entries), w.batch())], w.q.part)
		if err != nil {
			return false, err
		}
		for i := range jobs {
			if w.full() {
				return false, nil
			}
			w.add(jobs[i], position{Index: seg, After: &entries[i].Position})
		}
		if entries = entries[len(jobs):]; w.ends() {
			break
		}
	}
	return len(entries) == 0, nil
}

// readJobs reads the jobs of the first entries.
func readJobs(ctx context.Context, src store.Reader, seg store.Index, entries []store.Entry, part store.Part) ([]*job.Job, error) {
	q, err := records(seg, entries, part)
	if err != nil {
		return nil, err
	}
	found, err := src.Read(ctx, q)
	return found.Jobs, err
}

// records are the records of entries.
func records(seg store.Index, entries []store.Entry, part store.Part) (store.ReadQuery, error) {
	q := store.ReadQuery{Shard: seg.Shard, Keys: make([]job.Key, len(entries)), Places: make([]string, len(entries)), Part: part}
	topic := job.TopicOfLane(seg.Name)
	for i, e := range entries {
		q.Keys[i], q.Places[i] = job.Key{Topic: topic, ID: e.ID}, e.Place
		if seg.Kind == store.IndexNamed {
			var err error
			if q.Keys[i], err = job.ParseKey(e.ID); err != nil {
				return q, fmt.Errorf("the entry %q of %s: %w", e.ID, seg.Name, err)
			}
		}
	}
	return q, nil
}

// add adds the job at a position to the page if it matches. It is nil when it is gone.
func (w *walk) add(j *job.Job, at position) {
	w.last = at
	switch {
	case j == nil:
		w.budget -= missCost
	case !w.q.Matches(j):
		w.budget -= missCost + store.SizeOf(j)/missBytes
	default:
		w.jobs, w.at = append(w.jobs, *j), append(w.at, at)
		w.room -= store.SizeOf(j)
	}
}

func (w *walk) page() (p store.Page, err error) {
	p = store.Page{Jobs: w.jobs, Scanned: maxExamined - w.budget}
	switch {
	case len(w.jobs) > w.limit:
		p.Jobs = w.jobs[:w.limit]
		p.Next, err = encodeCursor(w.q, w.at[w.limit-1])
	case w.ends():
		p.Next, err = encodeCursor(w.q, w.last)
	}
	return p, err
}

// cursor is what a cursor encodes: the filter that it belongs to and a position. A forged one
// is harmless: its position is only compared.
type cursor struct {
	Filter string `json:"f,omitempty"`
	position
}

func encodeCursor(q filter, at position) (string, error) {
	filter, err := q.digest()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(cursor{Filter: filter, position: at})
	if err != nil {
		return "", fmt.Errorf("encode cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(text), nil
}

// decodeCursor returns the position where the page begins.
func decodeCursor(q filter) (position, error) {
	if q.Cursor == "" {
		return position{}, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(q.Cursor)
	if err != nil {
		return position{}, fmt.Errorf("%w: %w", store.ErrBadCursor, err)
	}
	var c cursor
	if err := json.Unmarshal(text, &c); err != nil {
		return position{}, fmt.Errorf("%w: %w", store.ErrBadCursor, err)
	}
	filter, err := q.digest()
	if err != nil {
		return position{}, err
	}
	if c.Filter != filter {
		return position{}, fmt.Errorf("%w: it belongs to another filter", store.ErrBadCursor)
	}
	if c.Index.Name == "" && q.Order == "" || !slices.Contains(q.kinds(), c.Index.Kind) {
		return position{}, fmt.Errorf("%w: it has no valid position", store.ErrBadCursor)
	}
	return c.position, nil
}
