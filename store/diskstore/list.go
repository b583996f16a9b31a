package diskstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// List pages through jobs.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	return listing.List(ctx, source{s}, q)
}

// source is the store as package listing sees it.
type source struct{ *Store }

var _ listing.Source = source{}

// Segments names lanes, groups of dead letters and topics, which are in memory.
func (s source) Segments(ctx context.Context, q listing.SegmentQuery, n int) ([]listing.Segment, error) {
	var names []string
	add := func(name string) bool { names = append(names, name); return len(names) <= n }
	err := s.locked(ctx, func(job.Instant) {
		prefix := prefixOf(q.Topic)
		switch {
		case q.Kind == listing.SegmentNamed:
			add(q.Named)
		case q.Kind == listing.SegmentLane:
			s.lanes.Ascend(max(prefix, q.From.Name), func(name string, _ *lane) bool {
				return strings.HasPrefix(name, prefix) && add(name)
			})
		case q.Kind == listing.SegmentDead:
			s.dead.Ascend(max(prefix, q.From.Name), func(name string, _ int64) bool {
				return strings.HasPrefix(name, prefix) && add(name)
			})
		case q.Topic != "":
			add(q.Topic)
		default:
			s.topics.Ascend(q.From.Name, func(name string, t *topic) bool { return t.ended() == 0 || add(name) })
		}
	})
	return q.FirstSegments([][]string{names}, n), err
}

// ended counts the jobs in the list of a topic's ended ones.
func (t *topic) ended() int64 {
	return t.counts[job.Delivered] + t.counts[job.Cancelled] + t.counts[job.Expired]
}

// Scores of entries: the time, with shifts that put jobs in flight before the others of
// their lane and parked ones behind them. A float64 holds them exactly.
const (
	flightShift = 1 << 51
	parkedShift = 1 << 51
)

// Entries reads entries of a segment.
func (s source) Entries(ctx context.Context, seg listing.Segment, span listing.Span) ([]listing.Entry, error) {
	if seg.Kind == listing.SegmentNamed {
		return s.namedEntries(ctx, seg.Name, span)
	}
	w := window{span: span}
	var err error
	locked := s.locked(ctx, func(job.Instant) {
		switch seg.Kind {
		case listing.SegmentLane:
			if l, ok := s.lanes.Get(seg.Name); ok {
				err = s.laneEntries(&w, l)
			}
		case listing.SegmentDead:
			err = s.timedEntries(&w, prefix(famLetter, seg.Name), 0, func([]byte) job.State { return job.Dead }, nil)
		default:
			err = s.timedEntries(&w, prefix(famTopic, seg.Name), 0, func(v []byte) job.State { return job.State(v[0]) }, nil)
		}
	})
	return w.entries, errors.Join(locked, err)
}

// window collects the entries of a span.
type window struct {
	span    listing.Span
	entries []listing.Entry
}

func (w *window) full() bool { return len(w.entries) >= w.span.N }

// add adds an entry that comes in the order of the span, if it is behind the start. It
// reports whether the window takes more.
func (w *window) add(at float64, id string, state job.State) bool {
	p := listing.Position{Score: at, ID: id}
	if a := w.span.After; a == nil || w.span.Back && p.Before(*a) || !w.span.Back && a.Before(p) {
		w.entries = append(w.entries, listing.Entry{Position: p, State: state})
	}
	return !w.full()
}

// laneEntries reads the parts of a lane in the order of the span: jobs in flight, due ones
// and parked ones.
func (s source) laneEntries(w *window, l *lane) error {
	state := func(v []byte) job.State { return job.State(v[0]) }
	flies := func(id string) bool { return s.flights[job.Key{Topic: l.Topic, ID: id}] != nil }
	var err error
	parts := []func(){
		func() { l.flightEntries(w) },
		func() { err = errors.Join(err, s.timedEntries(w, bucketPrefix(l.name, secDue), 0, state, flies)) },
		func() {
			err = errors.Join(err, s.timedEntries(w, bucketPrefix(l.name, secParked), parkedShift, state, nil))
		},
	}
	if w.span.Back {
		slices.Reverse(parts)
	}
	for _, part := range parts {
		if !w.full() {
			part()
		}
	}
	return err
}

func (l *lane) flightEntries(w *window) {
	add := func(f *flight) bool { return w.add(float64(f.until-flightShift), f.key.ID, f.state()) }
	a := w.span.After
	switch {
	case w.span.Back && (a == nil || a.Score >= 0):
		l.flights.Reverse(add)
	case w.span.Back:
		l.flights.Descend(pivot(a), add)
	case a == nil:
		l.flights.Scan(add)
	case a.Score < 0:
		l.flights.Ascend(pivot(a), add)
	}
}

// pivot is a flight at a position.
func pivot(p *listing.Position) *flight {
	return &flight{until: job.Instant(p.Score) + flightShift, key: job.Key{ID: p.ID}}
}

// timedEntries reads rows that are sorted by time and id behind a prefix. Their scores are
// shifted.
func (s source) timedEntries(w *window, prefix []byte, shift job.Instant, state func(value []byte) job.State, skip func(id string) bool) error {
	from, to := prefix, end(prefix)
	if a := w.span.After; a != nil {
		at := append(appendTime(slices.Clone(prefix), job.Instant(a.Score)-shift), a.ID...)
		switch {
		case w.span.Back:
			to = at
		default:
			from = past(at)
		}
	}
	visit := func(key, value []byte) bool {
		at, id := cutTimed(key, len(prefix))
		if skip != nil && skip(id) {
			return true
		}
		return w.add(float64(at+shift), id, state(value))
	}
	if w.span.Back {
		return scanBack(s.db, from, to, visit)
	}
	return scan(s.db, from, to, visit)
}

// namedEntries are the jobs of a biz_key or of a group id by their keys.
func (s source) namedEntries(ctx context.Context, name string, span listing.Span) (entries []listing.Entry, err error) {
	p := prefix(famBiz, name)
	if groupID, ok := listing.CutGroupIndex(name); ok {
		p = prefix(famGroup, groupID)
	}
	from := p
	if span.After != nil {
		from = past(append(slices.Clone(p), span.After.ID...))
	}
	locked := s.locked(ctx, func(job.Instant) {
		err = scan(s.db, from, end(p), func(key, _ []byte) bool {
			entries = append(entries, listing.Entry{Position: listing.Position{ID: string(key[len(p):])}})
			return len(entries) < span.N
		})
	})
	return entries, errors.Join(locked, err)
}

// keysOf are the keys of the jobs of entries.
func keysOf(seg listing.Segment, entries []listing.Entry) ([]job.Key, error) {
	keys, topic := make([]job.Key, len(entries)), job.TopicOfLane(seg.Name)
	for i, e := range entries {
		keys[i] = job.Key{Topic: topic, ID: e.ID}
		if seg.Kind == listing.SegmentNamed {
			var err error
			if keys[i], err = job.ParseKey(e.ID); err != nil {
				return nil, err
			}
		}
	}
	return keys, nil
}

// Jobs reads the jobs of entries.
func (s source) Jobs(ctx context.Context, seg listing.Segment, entries []listing.Entry) ([]*job.Job, error) {
	keys, err := keysOf(seg, entries)
	if err != nil {
		return nil, err
	}
	v, err := s.view(ctx, keys...)
	if err != nil {
		return nil, err
	}
	defer v.close()
	jobs, bytes := make([]*job.Job, 0, len(keys)), 0
	for _, key := range keys {
		if bytes >= store.BatchBytes {
			break
		}
		j, size, err := v.job(key)
		if err != nil {
			return nil, err
		}
		jobs, bytes = append(jobs, j), bytes+size
	}
	return jobs, nil
}

// job decodes a job, nil if it is gone. size is about what its record takes.
func (v *view) job(key job.Key) (found *job.Job, size int, err error) {
	rec, err := v.load(key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	j, err := rec.job()
	return &j, rec.size(), err
}

// FindUID finds the job with a uid at once.
func (s source) FindUID(ctx context.Context, uid, _ string) (*job.Job, string, error) {
	var key job.Key
	v, err := s.viewWith(ctx, func(v *view) {
		var name []byte
		if name, _ = get(s.db, row(famUID, uid)); name != nil {
			key, _ = job.ParseKey(string(name))
			v.copy(key)
		}
	})
	if err != nil {
		return nil, "", err
	}
	defer v.close()
	if key == (job.Key{}) {
		return nil, "", nil
	}
	j, _, err := v.job(key)
	return j, "", err
}

// maxTimesBytes bounds the records that one call reads for their times, but for the last one.
const maxTimesBytes = 32 << 20

// Times reads the times of the jobs of the first entries.
func (s source) Times(ctx context.Context, seg listing.Segment, entries []listing.Entry) (times []store.Times, bytes int, err error) {
	keys, err := keysOf(seg, entries)
	if err != nil {
		return nil, 0, err
	}
	v, err := s.view(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer v.close()
	times = make([]store.Times, len(keys))
	for i, key := range keys {
		rec, err := loadRecord(v.snap, key)
		if err != nil {
			return nil, 0, err
		}
		if rec == nil {
			continue
		}
		times[i] = store.TimesOf(&rec.Job)
		if bytes += rec.size(); bytes > maxTimesBytes {
			return times[:i+1], bytes, nil
		}
	}
	return times, bytes, nil
}
