package listing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// MaxSortedGroups bounds the indexes that a page in an order merges: lanes, groups of dead letters and
// topics with other ended jobs, of each shard.
const MaxSortedGroups = 2_000

// checkOrder refuses an order of what cannot be listed in it.
func (q *filter) checkOrder() error {
	unsorted := func(s job.State) bool { return !q.Order.Sorts(s) }
	if q.Order != "" && (len(q.States) == 0 || slices.ContainsFunc(q.States, unsorted)) {
		return store.ErrBadOrder
	}
	return nil
}

// back: the order is a reversed one.
func (q *filter) back() bool { return strings.HasPrefix(string(q.Order), "-") }

// before reports whether a comes before b.
func (q *filter) before(a, b store.Position) bool {
	if q.back() {
		a, b = b, a
	}
	return a.Compare(b) < 0
}

// candidate is an entry that may be one of a page, with its position in the order: the ID is the
// whole key, since jobs of several topics may share an id and a time.
type candidate struct {
	seg   store.Index
	entry store.Entry
	at    store.Position
}

// inOrder is the position in the order of a job with a score.
func inOrder(seg store.Index, score float64, id string) store.Position {
	return store.Position{Score: score, ID: job.Key{Topic: job.TopicOfLane(seg.Name), ID: id}.String()}
}

// behindNames comes after every name.
const behindNames = "\xff"

// inSegment is where the jobs of a segment that are not before a position in the order begin.
func inSegment(seg store.Index, at *store.Position) *store.Position {
	if at == nil {
		return nil
	}
	topic := inOrder(seg, 0, "").ID
	id, same := strings.CutPrefix(at.ID, topic)
	switch {
	case same:
	case topic < at.ID:
		id = behindNames
	default:
		id = ""
	}
	return &store.Position{Score: at.Score, ID: id}
}

// ordered collects the page that comes after from.
func (w *walk) ordered(ctx context.Context, from position) error {
	kinds := w.q.kinds()
	if len(kinds) == 0 { // a reason, but no ended jobs
		return nil
	}
	segments, err := w.groups(ctx, kinds)
	if err != nil {
		return err
	}
	all := store.Index{Kind: kinds[0], Name: w.q.Topic} // in cursors
	w.last = position{Index: all, After: from.After}
	byDue := !slices.ContainsFunc(segments, func(s store.Index) bool { return !w.q.byDue(s) })
	switch {
	case !byDue || from.After != nil:
	case w.q.back() && w.q.DueTo != 0:
		from.After = w.q.dueTo()
	case !w.q.back():
		from.After = w.q.dueFrom()
	}
	next := newMerge(w, segments, from.After)
	for !w.ends() {
		batch, err := next.take(ctx, w.batch())
		if err != nil || len(batch) == 0 {
			return err
		}
		some := batch
		if byDue {
			some = w.q.cutOrdered(batch)
		}
		if err := w.choose(ctx, all, some); err != nil || len(some) < len(batch) {
			return err
		}
	}
	return nil
}

// cutOrdered cuts the candidates that are beyond the bounds of an order by due.
func (q *filter) cutOrdered(batch []candidate) []candidate {
	end := slices.IndexFunc(batch, func(c candidate) bool {
		return q.back() && c.at.Score < float64(q.DueFrom) || !q.back() && q.DueTo != 0 && c.at.Score >= float64(q.DueTo)
	})
	if end < 0 {
		return batch
	}
	return batch[:end]
}

// groups returns the segments in which jobs can match, unless they are too many.
func (w *walk) groups(ctx context.Context, kinds []store.IndexKind) (all []store.Index, err error) {
	examined := 0
	for _, kind := range kinds {
		for from := (store.Index{}); ; {
			segments, err := w.segments(ctx, kind, from)
			if err != nil {
				return nil, err
			}
			examined += len(segments)
			for _, s := range segments {
				if w.q.mayHold(s) {
					all = append(all, s)
				}
			}
			if len(all) > MaxSortedGroups || examined > maxExamined {
				return nil, fmt.Errorf("%w: they are more than %d", store.ErrTooManyToSort, MaxSortedGroups)
			}
			if len(segments) < maxSegments {
				break
			}
			from = following(segments[len(segments)-1])
		}
	}
	return all, nil
}

// choose adds the matching jobs of a batch to the page until that ends.
func (w *walk) choose(ctx context.Context, all store.Index, batch []candidate) error {
	r := reading{src: w.src, part: w.q.part, batch: batch, jobs: make([]*job.Job, len(batch)), left: map[store.Index][]int{}}
	for i, c := range batch {
		r.left[c.seg] = append(r.left[c.seg], i)
	}
	for i := range batch {
		if w.full() {
			return nil
		}
		j, err := r.job(ctx, i)
		if err != nil {
			return err
		}
		w.add(j, position{Index: all, After: &batch[i].at})
	}
	return nil
}

// reading reads the jobs of candidates in their order, those of a segment together as
// far as their bytes allow.
type reading struct {
	src   store.Reader
	part  store.Part
	batch []candidate
	jobs  []*job.Job            // those read and not taken
	bytes int                   // of jobs
	left  map[store.Index][]int // which are not read
}

// job takes the i-th job, the next one.
func (r *reading) job(ctx context.Context, i int) (*job.Job, error) {
	seg := r.batch[i].seg
	if left := r.left[seg]; len(left) > 0 && left[0] == i {
		if r.bytes >= store.PageBytes { // of other segments
			left = left[:1]
		}
		entries := make([]store.Entry, len(left))
		for n, i := range left {
			entries[n] = r.batch[i].entry
		}
		found, err := readJobs(ctx, r.src, seg, entries, r.part)
		if err != nil {
			return nil, err
		}
		for n, j := range found {
			r.jobs[left[n]] = j
			r.bytes += sizeOfAny(j)
		}
		r.left[seg] = r.left[seg][len(found):]
	}
	j := r.jobs[i]
	r.jobs[i] = nil
	r.bytes -= sizeOfAny(j)
	return j, nil
}

// sizeOfAny is SizeOf a job that may be gone.
func sizeOfAny(j *job.Job) int {
	if j == nil {
		return 0
	}
	return store.SizeOf(j)
}

// merge merges segments that have the order each.
type merge struct {
	w    *walk
	runs []*run
}

// run is the rest of a segment.
type run struct {
	seg     store.Index
	after   *store.Position // of the last entry fetched
	reached *store.Position // the same in the order
	entries []candidate     // fetched and not taken
	chunk   int
	fetched bool // at least once
	done    bool // to the end
}

// leastChunk is how many entries of a segment are fetched at first.
const leastChunk = 16

func newMerge(w *walk, segments []store.Index, after *store.Position) *merge {
	m := &merge{w: w}
	for _, seg := range segments {
		chunk := min(max(leastChunk, 2*w.missing()/len(segments)), maxChunk)
		m.runs = append(m.runs, &run{seg: seg, after: inSegment(seg, after), chunk: chunk})
	}
	return m
}

// take returns the next candidates, at most n, and none at the end.
func (m *merge) take(ctx context.Context, n int) ([]candidate, error) {
	var batch []candidate
	for len(batch) < n {
		r, err := m.first(ctx, len(m.w.jobs)+len(batch))
		if err != nil {
			return nil, err
		}
		if r == nil {
			break
		}
		batch = append(batch, r.entries[0])
		r.entries = r.entries[1:]
	}
	return batch, nil
}

// first is the run whose next entry comes first. It is nil at the end, or when the budget
// of a page with so many jobs is used up: then the page ends where all runs have been examined.
func (m *merge) first(ctx context.Context, found int) (*run, error) {
	for {
		first, behind, err := m.look(ctx)
		switch {
		case err != nil:
			return nil, err
		case behind == nil, first != nil && m.w.q.before(first.entries[0].at, *behind.reached):
			return first, nil
		case m.w.spent(found):
			m.w.last.After = behind.reached
			return nil, nil
		}
		if err := m.fetch(ctx, behind); err != nil {
			return nil, err
		}
	}
}

// look returns the run with the first entry, and among the runs to fetch the one that is
// least advanced. Each page fetches every run at least once, so that it always makes
// progress.
func (m *merge) look(ctx context.Context) (first, behind *run, err error) {
	q := &m.w.q
	for _, r := range m.runs {
		if !r.fetched {
			if err := m.fetch(ctx, r); err != nil {
				return nil, nil, err
			}
		}
		switch {
		case len(r.entries) > 0:
			if first == nil || q.before(r.entries[0].at, first.entries[0].at) {
				first = r
			}
		case !r.done && (behind == nil || q.before(*r.reached, *behind.reached)):
			behind = r
		}
	}
	return first, behind, nil
}

// fetch fetches entries of a run that has none.
func (m *merge) fetch(ctx context.Context, r *run) error {
	entries, _, err := m.w.src.Entries(ctx, r.seg, store.Span{After: r.after, N: r.chunk, Back: m.w.q.back()})
	if err != nil {
		return err
	}
	m.w.budget -= len(entries) + fetchCost
	r.fetched, r.done = true, len(entries) < r.chunk
	if n := len(entries); n > 0 {
		r.after = &entries[n-1].Position
		reached := inOrder(r.seg, r.after.Score, r.after.ID)
		r.reached = &reached
	}
	for _, e := range entries {
		if m.w.q.wantsEntry(e) {
			r.entries = append(r.entries, candidate{r.seg, e, inOrder(r.seg, e.Score, e.ID)})
		}
	}
	r.chunk = min(2*r.chunk, maxChunk)
	return nil
}
