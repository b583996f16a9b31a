package diskstore

import (
	"context"
	"errors"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Figures returns figures of the store.
func (s *Store) Figures(ctx context.Context, q store.FigureQuery) (f store.Figures, err error) {
	var failed error
	if len(q.Lanes) == 0 {
		err = s.locked(ctx, func(now job.Instant) { failed = s.gather(&f, &q, now) })
		return f, errors.Join(err, failed)
	}
	t := s.begin(0)
	buckets := make([]bucket, len(q.Lanes))
	v, err := s.viewWith(ctx, func(v *view) {
		t.now = v.now
		failed = s.gather(&f, &q, v.now)
		for i, name := range q.Lanes {
			buckets[i].name = name
			if l, ok := s.lanes.Get(name); ok {
				buckets[i] = bucketOf(l)
				if e, ok := l.first(t); ok && q.Due.First {
					buckets[i].first = e.at
				}
			}
		}
	})
	if err != nil {
		return f, err
	}
	defer v.close()
	if t.err != nil {
		failed = errors.Join(failed, unavailable(t.err))
	}
	c := counting{v: v, left: q.Due.Most}
	for i := range buckets {
		f.Lanes = append(f.Lanes, c.lane(&buckets[i], &q.Due, len(buckets)-i))
	}
	f.Cost = len(buckets) + q.Due.Most - c.left
	return f, errors.Join(failed, c.err)
}

// gather reads what is in memory, and the ends of groups.
func (s *Store) gather(f *store.Figures, q *store.FigureQuery, now job.Instant) (err error) {
	f.Now = now
	if q.Depth {
		f.Depth = s.depth(now)
	}
	if q.Circuits {
		f.Circuits = map[string]store.Circuit{}
		for e := range s.notClosed {
			if c := e.circuitAt(now); c != (store.Circuit{}) {
				f.Circuits[e.name] = c
			}
		}
	}
	if q.Limits {
		f.Limits = map[string]store.Limits{}
		for topic, l := range s.limits {
			f.Limits[topic] = l.Limits
		}
	}
	for _, name := range q.Topics {
		var of counts
		if t, ok := s.topics.Get(name); ok {
			of = t.counts
		}
		f.Topics = append(f.Topics, of.byState())
	}
	for _, name := range q.Endpoints {
		of := map[job.State]int64{}
		if e, ok := s.endpoints.Get(name); ok {
			for state, n := range e.jobs {
				of[job.State(state)] = n
			}
		}
		f.Endpoints = append(f.Endpoints, of)
	}
	for _, name := range q.Groups {
		var g store.DeadFigures
		p := prefix(famLetter, name)
		g.Count, _ = s.dead.Get(name)
		err = errors.Join(err,
			scan(s.db, p, end(p), func(key, _ []byte) bool { g.Oldest, _ = cutTimed(key, len(p)); return false }),
			scanBack(s.db, p, end(p), func(key, _ []byte) bool { g.Newest, _ = cutTimed(key, len(p)); return false }))
		f.Groups = append(f.Groups, g)
	}
	return err
}

func (s *Store) depth(now job.Instant) store.Depth {
	d := store.Depth{
		States:    s.counts.byState(),
		OrderKeys: s.meta.orderKeys, Behind: s.meta.behind, Now: now,
	}
	if l, ok := s.line.Min(); ok && l.wake < parkedAt {
		d.OldestDue = l.wake
	}
	for e := range s.notClosed {
		if e.circuit.OpenUntil > now {
			d.OpenCircuits++
		}
	}
	return d
}

// bucket is a lane at one moment, for counting without the lock.
type bucket struct {
	name    string
	first   job.Instant   // when its first waiting job is due, if that was asked for
	next    job.Instant   // no entry before is that of a waiting job
	waiting int64         // jobs that wait
	parked  int64         // of these, those that wait for another job of their order key
	flying  []job.Instant // when the jobs in flight were due, from next on
}

// bucketOf copies what is in memory of a lane.
func bucketOf(l *lane) bucket {
	b := bucket{name: l.name, next: l.next.at, waiting: l.held() - int64(l.flights.Len()), parked: l.parked}
	l.flights.Scan(func(f *flight) bool {
		if f.entry.at >= b.next {
			b.flying = append(b.flying, f.entry.at)
		}
		return true
	})
	return b
}

// maxCounted is how many entries an outlook counts. Figures beyond it are lower bounds.
const maxCounted = 250_000

// counting counts entries up to a bound.
type counting struct {
	v    *view
	left int
	err  error
}

// between counts the entries of a section from one time to before another, without those
// in flight.
func (c *counting) between(b *bucket, section byte, from, to job.Instant) int64 {
	f := store.LaneFigures{Due: make([]int64, 1)}
	c.count(b, section, []job.Instant{from, to}, max(c.left, 0), &f)
	return f.Due[0]
}

// lane counts the waiting jobs of a lane. It is one of the last lanes, which share what is left.
func (c *counting) lane(b *bucket, q *store.DueQuery, lanes int) store.LaneFigures {
	ranges := len(q.Bounds) - 1
	f := store.LaneFigures{Due: make([]int64, ranges), First: b.first}
	waiting, parked := b.waiting-b.parked, int64(0)
	if q.Behind {
		waiting, parked = b.waiting, b.parked
	}
	if waiting == 0 {
		return f
	}
	// What is in none of the other ranges is in a last one without an end.
	bounds := q.Bounds
	open := bounds[0] <= 0 && bounds[ranges] == store.EndOfTime
	if open {
		bounds = bounds[:ranges]
	}
	share := max(c.left/lanes, 1)
	c.count(b, secDue, bounds, share, &f)
	if parked > 0 {
		c.count(b, secParked, bounds, share, &f)
	}
	if open && f.PartialFrom == 0 {
		for _, n := range f.Due {
			waiting -= n
		}
		f.Due[ranges-1] += waiting
	}
	return f
}

// count adds the entries of a section in the ranges between bounds, up to most, without those
// in flight.
func (c *counting) count(b *bucket, section byte, bounds []job.Instant, most int, f *store.LaneFigures) {
	if c.err != nil || len(bounds) < 2 {
		return
	}
	p := bucketPrefix(b.name, section)
	first, last := bounds[0], bounds[len(bounds)-1]
	if section == secDue {
		first = max(first, b.next)
	}
	if first >= last {
		return
	}
	in := 0 // the range
	end := last
	c.err = scan(c.v.snap, appendTime(slices.Clone(p), first), appendTime(slices.Clone(p), last), func(key, _ []byte) bool {
		at, _ := cutTimed(key, len(p))
		if most == 0 {
			end = at
			if f.PartialFrom == 0 || at < f.PartialFrom {
				f.PartialFrom = max(at, 1)
			}
			return false
		}
		for bounds[in+1] <= at {
			in++
		}
		f.Due[in]++
		most--
		c.left--
		return true
	})
	if section == secDue {
		for _, at := range b.flying {
			if first <= at && at < end {
				in, _ := slices.BinarySearch(bounds, at+1)
				f.Due[in-1]--
			}
		}
	}
}
