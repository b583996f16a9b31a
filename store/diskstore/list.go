package diskstore

import (
	"context"
	"errors"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Scores of entries: the time, with shifts that put jobs in flight before the others of
// their lane and parked ones behind them. A float64 holds them exactly.
const (
	flightShift = 1 << 51
	parkedShift = 1 << 51
)

// Entries reads entries of an index.
func (s *Store) Entries(ctx context.Context, of store.Index, span store.Span) ([]store.Entry, *store.Position, error) {
	w := window{span: span}
	var err error
	locked := s.locked(ctx, func(job.Instant) {
		switch of.Kind {
		case store.IndexLane:
			if l, ok := s.lanes.Get(of.Name); ok {
				err = s.laneEntries(&w, l)
			}
		case store.IndexDead:
			err = s.timedEntries(&w, prefix(famLetter, of.Name), 0, func([]byte) job.State { return job.Dead }, nil)
		case store.IndexEnded:
			err = s.timedEntries(&w, prefix(famTopic, of.Name), 0, func(v []byte) job.State { return job.State(v[0]) }, nil)
		case store.IndexNamed:
			err = s.namedEntries(&w, of.Name)
		case store.IndexUID:
			var name []byte
			if name, err = get(s.db, row(famUID, of.Name)); name != nil {
				w.add(0, string(name), 0)
			}
		case store.IndexVisits:
			s.visits(&w)
		}
	})
	return w.entries, nil, errors.Join(locked, err)
}

// visits reads lanes by their times in the line, and by name.
func (s *Store) visits(w *window) {
	from := &lane{}
	if a := w.span.After; a != nil {
		from.wake = job.Instant(a.Score)
	}
	var same []string // of one time
	var at job.Instant
	flush := func() bool {
		slices.Sort(same)
		for _, name := range same {
			if !w.add(float64(at), name, 0) {
				return false
			}
		}
		same = same[:0]
		return true
	}
	s.line.Ascend(from, func(l *lane) bool {
		if l.wake != at && !flush() {
			return false
		}
		at, same = l.wake, append(same, l.name)
		return true
	})
	if !w.full() {
		flush()
	}
}

// window collects the entries of a span.
type window struct {
	span    store.Span
	entries []store.Entry
}

func (w *window) full() bool { return len(w.entries) >= w.span.N }

// add adds an entry that comes in the order of the span, if it is behind the start. It
// reports whether the window takes more.
func (w *window) add(at float64, id string, state job.State) bool {
	p := store.Position{Score: at, ID: id}
	if a := w.span.After; a == nil || w.span.Back && p.Compare(*a) < 0 || !w.span.Back && a.Compare(p) < 0 {
		w.entries = append(w.entries, store.Entry{Position: p, State: state})
	}
	return !w.full()
}

// laneEntries reads the parts of a lane in the order of the span: jobs in flight, due ones
// and parked ones.
func (s *Store) laneEntries(w *window, l *lane) error {
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
func pivot(p *store.Position) *flight {
	return &flight{until: job.Instant(p.Score) + flightShift, key: job.Key{ID: p.ID}}
}

// timedEntries reads rows that are sorted by time and id behind a prefix. Their scores are
// shifted.
func (s *Store) timedEntries(w *window, prefix []byte, shift job.Instant, state func(value []byte) job.State, skip func(id string) bool) error {
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
func (s *Store) namedEntries(w *window, name string) error {
	p := prefix(famBiz, name)
	if groupID, ok := listing.CutGroupIndex(name); ok {
		p = prefix(famGroup, groupID)
	}
	from := p
	if a := w.span.After; a != nil {
		from = past(append(slices.Clone(p), a.ID...))
	}
	return scan(s.db, from, end(p), func(key, _ []byte) bool { return w.add(0, string(key[len(p):]), 0) })
}
