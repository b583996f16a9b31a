package diskstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// maxCounted is how many entries one call counts. Figures beyond it are lower bounds.
const maxCounted = 250_000

// bucket is a lane at one moment, for counting without the lock.
type bucket struct {
	name    string
	topic   string
	first   job.Instant   // when its first waiting job is due
	waiting int64         // jobs that wait
	parked  int64         // of these, those that wait for another job of their order key
	flying  []job.Instant // when the jobs in flight were due
}

// bucketOf copies what is in memory of a lane. It may read its first entry.
func (t *txn) bucketOf(l *lane) bucket {
	b := bucket{name: l.name, topic: l.Topic, first: parkedAt, waiting: l.held() - int64(l.flights.Len()), parked: l.parked}
	if e, ok := l.first(t); ok {
		b.first = e.at
	}
	l.flights.Scan(func(f *flight) bool { b.flying = append(b.flying, f.entry.at); return true })
	return b
}

// viewBuckets returns a view, with the lanes that are wanted in the order of their first
// jobs.
func (s *Store) viewBuckets(ctx context.Context, each func(t *txn, add func(*lane))) (*view, []bucket, error) {
	var all []bucket
	t := &txn{s: s}
	v, err := s.viewWith(ctx, func(v *view) {
		t.now = v.now
		each(t, func(l *lane) { all = append(all, t.bucketOf(l)) })
	})
	if err != nil {
		return nil, nil, err
	}
	if t.err != nil {
		v.close()
		return nil, nil, unavailable(t.err)
	}
	slices.SortStableFunc(all, func(a, b bucket) int { return cmp.Compare(a.first, b.first) })
	return v, all, nil
}

// counting counts entries up to a bound.
type counting struct {
	v    *view
	left int
	err  error
}

// between counts the entries of a section from one time to before another, without those
// in flight.
func (c *counting) between(b *bucket, section byte, from, to job.Instant) (n int64) {
	p := bucketPrefix(b.name, section)
	lower, upper := appendTime(slices.Clone(p), from), appendTime(slices.Clone(p), to)
	if c.err == nil {
		c.err = scan(c.v.snap, lower, upper, func([]byte, []byte) bool {
			n++
			c.left--
			return c.left > 0
		})
	}
	if section == secDue {
		for _, at := range b.flying {
			if from <= at && at < to {
				n--
			}
		}
	}
	return max(n, 0)
}

// Bounds of all times.
const (
	firstTime = -job.Instant(1) << 62
	lastTime  = job.Instant(1) << 62
)

// DueCounts counts waiting jobs.
func (s *Store) DueCounts(ctx context.Context, of store.DueOf, bounds []job.Instant) (store.DueCounts, error) {
	v, lanes, err := s.viewBuckets(ctx, func(_ *txn, add func(*lane)) { s.lanesFor(of, add) })
	if err != nil {
		return store.DueCounts{}, err
	}
	defer v.close()
	d := store.DueCounts{Counts: make([]int64, len(bounds)+1)}
	var total int64
	for i := range lanes {
		total += lanes[i].waiting
	}
	c := counting{v: v, left: maxCounted}
	if total <= maxCounted { // each lane in one pass
		for i := range lanes {
			c.spread(&lanes[i], bounds, d.Counts)
		}
		return d, c.err
	}
	from, left := firstTime, total
	for i, to := range bounds {
		for n := range lanes {
			if lanes[n].first >= to && lanes[n].parked == 0 {
				continue
			}
			count := c.between(&lanes[n], secDue, from, to) + c.between(&lanes[n], secParked, from, to)
			d.Counts[i] += count
			left -= count
		}
		if c.left <= 0 || c.err != nil {
			d.PartialFrom = max(from, lanes[0].first, 1)
			return d, c.err
		}
		from = to
	}
	d.Counts[len(bounds)] = left
	return d, nil
}

// lanesFor visits the lanes of a topic, an endpoint, or all.
func (s *Store) lanesFor(of store.DueOf, visit func(*lane)) {
	if of.Endpoint == "" {
		s.lanesOf(of.Topic, visit)
		return
	}
	if e, ok := s.endpoints.Get(of.Endpoint); ok {
		for l := range e.lanes {
			if of.Topic == "" || of.Topic == l.Topic {
				visit(l)
			}
		}
	}
}

// spread adds the waiting jobs of a lane to counts.
func (c *counting) spread(b *bucket, bounds []job.Instant, counts []int64) {
	left := b.waiting
	add := func(at job.Instant, n int64) {
		i, _ := slices.BinarySearch(bounds, at+1) // the first bound after at; bounds may be equal
		if i < len(bounds) {
			counts[i] += n
			left -= n
		}
	}
	for _, section := range []byte{secDue, secParked} {
		if len(bounds) == 0 || section == secParked && b.parked == 0 || c.err != nil {
			continue
		}
		p := bucketPrefix(b.name, section)
		c.err = scan(c.v.snap, p, appendTime(slices.Clone(p), bounds[len(bounds)-1]), func(key, _ []byte) bool {
			at, _ := cutTimed(key, len(p))
			add(at, 1)
			return true
		})
	}
	for _, at := range b.flying {
		add(at, -1)
	}
	counts[len(bounds)] += left
}

// Backlogs counts the jobs that are due and wait.
func (s *Store) Backlogs(ctx context.Context) (store.Backlogs, error) {
	v, lanes, err := s.viewBuckets(ctx, func(t *txn, add func(*lane)) {
		s.lanesOf("", func(l *lane) {
			if e, ok := l.first(t); ok && e.at <= t.now {
				add(l)
			}
		})
	})
	if err != nil {
		return store.Backlogs{}, err
	}
	defer v.close()
	b := store.Backlogs{Now: v.now}
	c := counting{v: v, left: maxCounted}
	at := map[string]int{}
	for i := range lanes {
		l := &lanes[i]
		n, known := at[l.topic]
		if !known {
			n, at[l.topic] = len(b.Topics), len(b.Topics)
			b.Topics = append(b.Topics, store.Backlog{Topic: l.topic, Oldest: l.first})
		}
		b.Topics[n].Oldest = min(b.Topics[n].Oldest, l.first)
		if c.left <= 0 {
			b.Topics[n].Jobs++ // there is one at least
			continue
		}
		b.Topics[n].Jobs += c.between(l, secDue, l.first, v.now+1)
	}
	b.Partial = c.left <= 0
	slices.SortFunc(b.Topics, func(a, b store.Backlog) int { return cmp.Compare(a.Topic, b.Topic) })
	return b, c.err
}
