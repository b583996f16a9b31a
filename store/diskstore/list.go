package diskstore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/duehook/duehook/internal/job"
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
			err = s.timedEntries(&w, prefix(famLetter, of.Name), 0, nil, nil)
		case store.IndexEnded:
			err = s.timedEntries(&w, prefix(famTopic, of.Name), 0, nil, nil)
		case store.IndexNamed:
			err = s.namedEntries(&w, of.Name)
		case store.IndexUID:
			var name []byte
			if name, err = get(s.db, row(famUID, of.Name)); name != nil {
				w.add(store.Entry{Position: store.Position{ID: string(name)}})
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
			if !w.add(store.Entry{Position: store.Position{Score: float64(at), ID: name}}) {
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
func (w *window) add(e store.Entry) bool {
	if a := w.span.After; a == nil || w.span.Back && e.Compare(*a) < 0 || !w.span.Back && a.Compare(e.Position) < 0 {
		w.entries = append(w.entries, e)
	}
	return !w.full()
}

// laneEntries reads the parts of a lane in the order of the span: jobs in flight, due ones
// and parked ones.
func (s *Store) laneEntries(w *window, l *lane) error {
	flies := func(id string) bool { return s.flights[job.Key{Topic: l.Topic, ID: id}] != nil }
	var err error
	parts := []func(){
		func() { l.flightEntries(w) },
		func() {
			err = errors.Join(err, s.timedEntries(w, bucketPrefix(l.name, secDue), 0, bucketRow(l.name, secDue, l.next.at, l.next.id), flies))
		},
		func() {
			err = errors.Join(err, s.timedEntries(w, bucketPrefix(l.name, secParked), parkedShift, nil, nil))
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
	add := func(f *flight) bool {
		p := store.Position{Score: float64(f.until - flightShift), ID: f.key.ID}
		return w.add(store.Entry{Position: p, State: job.Running, Place: string(f.entry.place.key())})
	}
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

// timedEntries reads rows that are sorted by time and id behind a prefix, none before first. Their
// scores are shifted.
func (s *Store) timedEntries(w *window, prefix []byte, shift job.Instant, first []byte, skip func(id string) bool) error {
	from, to := slices.MaxFunc([][]byte{prefix, first}, bytes.Compare), end(prefix)
	if a := w.span.After; a != nil {
		at := append(appendTime(slices.Clone(prefix), job.Instant(a.Score)-shift), a.ID...)
		switch {
		case w.span.Back:
			to = at
		default:
			from = slices.MaxFunc([][]byte{from, past(at)}, bytes.Compare)
		}
	}
	visit := func(key, value []byte) bool {
		at, id := cutTimed(key, len(prefix))
		if skip != nil && skip(id) {
			return true
		}
		p := store.Position{Score: float64(at + shift), ID: id}
		return w.add(store.Entry{Position: p, State: job.State(value[0]), Place: string(value[1 : 1+placeSize])})
	}
	switch {
	case bytes.Compare(from, to) >= 0:
		return nil
	case w.span.Back:
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
	return scan(s.db, from, end(p), func(key, _ []byte) bool {
		return w.add(store.Entry{Position: store.Position{ID: string(key[len(p):])}})
	})
}
