package listing

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// SegmentKind distinguishes the parts of a listing. They are listed in this
// order; a listing by biz_key, by group id or by uid has only that one.
type SegmentKind uint8

// The kinds of segments.
const (
	SegmentLane  SegmentKind = iota // the bucket of a lane; Name is the lane
	SegmentDead                     // a group of dead letters; Name is its DeadName
	SegmentEnded                    // a topic's other ended jobs; Name is the topic
	SegmentNamed                    // the jobs of a biz_key, which is Name, or of a GroupIndex
	SegmentUID                      // the job with a uid, which is Name; only in cursors
)

// Segment is an ordered part of a listing that a store holds as one index.
type Segment struct {
	Kind  SegmentKind `json:"k"`
	Name  string      `json:"n"`
	Shard int         `json:"s,omitempty"`
}

func (s Segment) compare(o Segment) int {
	return cmp.Or(cmp.Compare(s.Kind, o.Kind), cmp.Compare(s.Name, o.Name), cmp.Compare(s.Shard, o.Shard))
}

// following is the first segment that can come behind s.
func (s Segment) following() Segment {
	s.Shard++
	return s
}

// Position is the position of an entry in its segment. The store defines the score, which
// must be finite.
type Position struct {
	Score float64 `json:"t"`
	ID    string  `json:"i"`
}

// Entry is one entry of a segment: the id of a job, or in a SegmentNamed its
// whole key, and the state as far as the index knows it. In a SegmentNamed
// the state means nothing.
type Entry struct {
	Position
	State job.State
}

func (p Position) compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Score, o.Score), cmp.Compare(p.ID, o.ID))
}

// Before reports whether p comes before o in its segment.
func (p Position) Before(o Position) bool { return p.compare(o) < 0 }

// Span is a part of a segment: the N entries after a position, or from the start when
// After is nil. With Back they are those before it, or from the end, the last one first.
type Span struct {
	After *Position
	N     int
	Back  bool
}

// Source is what List needs of a store. Its methods may each see another
// moment of the store.
type Source interface {
	// Segments lists the first n of some segments, by name and shard; fewer when
	// there are no more.
	Segments(ctx context.Context, of SegmentQuery, n int) ([]Segment, error)
	// Entries lists entries of a segment, by (score, id). In a lane, jobs that wait are in
	// the order of when they need attention, behind those in flight. It is not asked to go
	// back in a SegmentNamed.
	Entries(ctx context.Context, seg Segment, span Span) ([]Entry, error)
	// Jobs reads the jobs of the first entries of one segment: of one at least, and of
	// others as long as those before take less than BatchBytes together. The result has
	// one element for each of them, nil when the job is gone.
	Jobs(ctx context.Context, seg Segment, entries []Entry) ([]*job.Job, error)
	// Times reads the times of the jobs of the first entries: of one at least, and of as
	// many others as one call reads. Those of a job that is gone are zero. bytes is about
	// how much the store had to handle for them.
	Times(ctx context.Context, seg Segment, entries []Entry) (times []store.Times, bytes int, err error)
	// FindUID looks for the job with a uid; nil when it found none. Then next is
	// where to go on, as after, or empty when there is no such job. Each call
	// examines a bounded part of the store, from the start when after is empty. An
	// after that no call gave is an ErrBadCursor, or harmless.
	FindUID(ctx context.Context, uid, after string) (found *job.Job, next string, err error)
}

// SegmentQuery selects segments of a listing.
type SegmentQuery struct {
	Kind  SegmentKind
	Topic string // empty: of all topics
	Named string // the name of a SegmentNamed, of which each shard has one
	// Endpoint may be left out of account, since segments are told apart by their names.
	Endpoint string
	// From is the first one that may be listed; the zero value for the start.
	From Segment
}

// FirstSegments returns the first n segments at or after From, by name. names are of a
// shard, in any order. It is for stores.
func (q *SegmentQuery) FirstSegments(names [][]string, n int) []Segment {
	var out []Segment
	for shard, of := range names {
		for _, name := range of {
			if seg := (Segment{Kind: q.Kind, Name: name, Shard: shard}); seg.compare(q.From) >= 0 {
				out = append(out, seg)
			}
		}
	}
	slices.SortFunc(out, Segment.compare)
	return out[:min(n, len(out))]
}

// Bounds of one page, so that a filter that matches nothing cannot keep a
// store busy: the entries that it examines, and what counts for entries besides:
// fetching a chunk of them, so that many small segments are bounded as well,
// reading a job for nothing, and passing over a segment.
const (
	maxExamined  = 10_000
	maxFruitless = 5 * maxExamined // of a page without jobs
	maxSegments  = 1_000           // listed at once
	fetchCost    = 10
	missCost     = 4
	missBytes    = 4 << 10 // of jobs read for nothing count for one entry
	maxChunk     = 1_000
	maxLimit     = 1_000
	leastBatch   = 100
)

// List reads the page of src that the query selects. Stores implement Reader.List
// with it.
func List(ctx context.Context, src Source, query store.Query) (store.Page, error) {
	q := filter{query}
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
		if kind < from.Segment.Kind {
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

// lookUp reads a page of the listing by uid, which holds one job at most.
func lookUp(ctx context.Context, src Source, q filter, from place) (store.Page, error) {
	after := ""
	if from.After != nil {
		after = from.After.ID
	}
	found, next, err := src.FindUID(ctx, q.UID, after)
	switch {
	case err != nil:
		return store.Page{}, err
	case found != nil && q.Matches(found):
		return store.Page{Jobs: []job.Job{*found}}, nil
	case found != nil || next == "":
		return store.Page{}, nil
	}
	cursor, err := encodeCursor(q, place{Segment: Segment{Kind: SegmentUID, Name: q.UID}, After: &Position{ID: next}})
	return store.Page{Next: cursor}, err
}

// walk collects one page.
type walk struct {
	src    Source
	q      filter
	limit  int
	budget int

	jobs []job.Job
	at   []place // of each job
	room int     // for bytes
	last place   // up to here everything was examined
}

// place is a position within a listing; a nil After is before the segment's
// first entry.
type place struct {
	Segment Segment   `json:"g"`
	After   *Position `json:"a,omitempty"`
}

// kind walks all segments of a kind; it reports whether the page ends in them.
func (w *walk) kind(ctx context.Context, kind SegmentKind, from place) (bool, error) {
	if from.Segment.Kind != kind {
		from = place{}
	}
	for {
		segments, err := w.segments(ctx, kind, from.Segment)
		if err != nil {
			return false, err
		}
		for _, seg := range segments {
			w.last = place{Segment: seg}
			if seg == from.Segment {
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
		from = place{Segment: segments[len(segments)-1].following()}
	}
}

// segments returns the next segments of a kind.
func (w *walk) segments(ctx context.Context, kind SegmentKind, from Segment) ([]Segment, error) {
	q := SegmentQuery{Kind: kind, Topic: w.q.Topic, Named: w.q.index(), Endpoint: w.q.Endpoint, From: from}
	return w.src.Segments(ctx, q, maxSegments)
}

// segment walks on from w.last to the end of its segment; it reports whether
// the page ends before that.
func (w *walk) segment(ctx context.Context) (bool, error) {
	if !w.q.mayHold(w.last.Segment) {
		w.budget--
		return w.ends(), nil
	}
	for !w.ends() {
		n := w.chunk()
		entries, err := w.src.Entries(ctx, w.last.Segment, Span{After: w.last.After, N: n})
		if err != nil {
			return false, err
		}
		w.budget -= len(entries) + fetchCost
		if all, err := w.take(ctx, entries); err != nil || !all {
			return true, err
		}
		if len(entries) > 0 {
			w.last.After = &entries[len(entries)-1].Position
		}
		if len(entries) < n {
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
func (w *walk) chunk() int {
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
func (w *walk) take(ctx context.Context, entries []Entry) (bool, error) {
	seg := w.last.Segment
	if w.q.looksAtEntries() && seg.Kind != SegmentNamed {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !w.q.wantsEntry(e) })
	}
	for len(entries) > 0 {
		jobs, err := w.src.Jobs(ctx, seg, entries[:min(len(entries), w.batch())])
		if err != nil {
			return false, err
		}
		for i := range jobs {
			if w.full() {
				return false, nil
			}
			w.add(jobs[i], place{Segment: seg, After: &entries[i].Position})
		}
		if entries = entries[len(jobs):]; w.ends() {
			break
		}
	}
	return len(entries) == 0, nil
}

// add adds the job at a place to the page if it matches. It is nil when it is gone.
func (w *walk) add(j *job.Job, at place) {
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

func (w *walk) page() (store.Page, error) {
	switch {
	case len(w.jobs) > w.limit:
		next, err := encodeCursor(w.q, w.at[w.limit-1])
		return store.Page{Jobs: w.jobs[:w.limit], Next: next}, err
	case w.ends():
		next, err := encodeCursor(w.q, w.last)
		return store.Page{Jobs: w.jobs, Next: next}, err
	}
	return store.Page{Jobs: w.jobs}, nil
}

// cursor is what a cursor encodes: the filter that it belongs to and a place. A forged one
// is harmless: its place is only compared.
type cursor struct {
	Filter string `json:"f,omitempty"`
	place
}

func encodeCursor(q filter, at place) (string, error) {
	filter, err := q.digest()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(cursor{Filter: filter, place: at})
	if err != nil {
		return "", fmt.Errorf("encode cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(text), nil
}

// decodeCursor returns the place where the page begins.
func decodeCursor(q filter) (place, error) {
	if q.Cursor == "" {
		return place{}, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(q.Cursor)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", store.ErrBadCursor, err)
	}
	var c cursor
	if err := json.Unmarshal(text, &c); err != nil {
		return place{}, fmt.Errorf("%w: %w", store.ErrBadCursor, err)
	}
	filter, err := q.digest()
	if err != nil {
		return place{}, err
	}
	if c.Filter != filter {
		return place{}, fmt.Errorf("%w: it belongs to another filter", store.ErrBadCursor)
	}
	if c.Segment.Name == "" || !slices.Contains(q.kinds(), c.Segment.Kind) {
		return place{}, fmt.Errorf("%w: it has no valid position", store.ErrBadCursor)
	}
	return c.place, nil
}
