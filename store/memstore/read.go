package memstore

import (
	"context"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Now returns the time.
func (s *Store) Now(ctx context.Context) (job.Instant, error) {
	now, err := s.enter(ctx)
	if err == nil {
		s.leave()
	}
	return now, err
}

// Get reads a job.
func (s *Store) Get(ctx context.Context, key job.Key) (job.Job, error) {
	_, found, _, err := s.read(ctx, key)
	if err != nil {
		return job.Job{}, err
	}
	return found.job()
}

// Attempts reads the log of a job's attempts.
func (s *Store) Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	switch rec := s.find(key); {
	case rec == nil:
		return nil, store.ErrNotFound
	case rec.extra == nil:
		return nil, nil
	default:
		return slices.Clone(rec.extra.log), nil
	}
}

// Topics pages through the topics.
func (s *Store) Topics(ctx context.Context, q store.TopicQuery) (store.TopicPage, error) {
	if q.Busiest {
		busy, err := s.busiest(ctx, q.Limit)
		return store.TopicPage{Topics: busy}, err
	}
	names, next, err := listing.Topics(ctx, &q, s.nextTopics)
	if err != nil {
		return store.TopicPage{}, err
	}
	if _, err := s.enter(ctx); err != nil {
		return store.TopicPage{}, err
	}
	defer s.leave()
	page := store.TopicPage{Next: next}
	for _, name := range names {
		if t, ok := s.topics.Get(name); ok {
			page.Topics = append(page.Topics, store.TopicStats{Topic: name, States: t.counts.byState()})
		} else if slices.Contains(q.Also, name) {
			page.Topics = append(page.Topics, store.TopicStats{Topic: name, States: map[job.State]int64{}})
		}
	}
	return page, nil
}

// nextTopics is a listing.NextNames.
func (s *Store) nextTopics(ctx context.Context, from string, n int) ([]string, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return nextNames(&s.topics, from, n, func(*topic) bool { return true }), nil
}

// nextNames returns the first n wanted names of a map from one on.
func nextNames[T any](of *btree.Map[string, T], from string, n int, wanted func(T) bool) []string {
	var names []string
	of.Ascend(from, func(name string, v T) bool {
		if wanted(v) {
			names = append(names, name)
		}
		return len(names) < n
	})
	return names
}

// topicsAtOnce is how many topics are read under one lock.
const topicsAtOnce = 1_000

// busiest returns the n topics with the most unfinished jobs. It reads all topics, in
// parts, because no index has this order.
func (s *Store) busiest(ctx context.Context, n int) ([]store.TopicStats, error) {
	type busy struct {
		store.TopicStats
		jobs int64
	}
	var most []busy
	for from, left := "", 0; left == 0; {
		if _, err := s.enter(ctx); err != nil {
			return nil, err
		}
		left = topicsAtOnce
		s.topics.Ascend(from, func(name string, t *topic) bool {
			var jobs int64
			for _, held := range t.counts[:job.Delivered] {
				jobs += held
			}
			if jobs > 0 && (len(most) < n || jobs > most[n-1].jobs) {
				at, _ := slices.BinarySearchFunc(most, jobs, func(b busy, jobs int64) int {
					if b.jobs >= jobs { // of an earlier name
						return -1
					}
					return 1
				})
				most = slices.Insert(most, at, busy{store.TopicStats{Topic: name, States: t.counts.byState()}, jobs})
				most = most[:min(n, len(most))]
			}
			from = name + "\x00"
			left--
			return left > 0
		})
		s.leave()
	}
	topics := make([]store.TopicStats, len(most))
	for i := range most {
		topics[i] = most[i].TopicStats
	}
	return topics, nil
}

// prefixOf is the prefix of the names of a topic's lanes; empty for all topics.
func prefixOf(topic string) string {
	if topic == "" {
		return ""
	}
	return job.LanePrefix(topic)
}

// lanesOf visits the lanes of a topic by name, or all when the topic is empty.
func (s *Store) lanesOf(topic string, visit func(*lane)) {
	prefix := prefixOf(topic)
	s.lanes.Ascend(prefix, func(name string, l *lane) bool {
		if !strings.HasPrefix(name, prefix) {
			return false
		}
		visit(l)
		return true
	})
}

// Depth returns the figures of the store.
func (s *Store) Depth(ctx context.Context) (store.Depth, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return store.Depth{}, err
	}
	defer s.leave()
	d := store.Depth{
		States: s.counts.byState(), ReadyList: int64(len(s.ready)),
		OrderKeys: int64(len(s.orders)), Behind: s.behind, Now: now,
	}
	if l, ok := s.line.Min(); ok {
		d.OldestDue = l.wake
	}
	for e := range s.notClosed {
		if e.circuit.OpenUntil > now {
			d.OpenCircuits++
		}
	}
	return d, nil
}

// List pages through jobs.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	return listing.List(ctx, source{s}, q)
}

// source is the store as store.List sees it.
type source struct{ *Store }

var _ listing.Source = source{}

func (s source) Segments(ctx context.Context, q listing.SegmentQuery, n int) ([]listing.Segment, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var names []string
	add := func(name string) bool { names = append(names, name); return len(names) <= n }
	prefix := prefixOf(q.Topic)
	switch {
	case q.Kind == listing.SegmentNamed:
		add(q.Named)
	case q.Kind == listing.SegmentLane:
		s.lanes.Ascend(max(prefix, q.From.Name), func(name string, _ *lane) bool {
			return strings.HasPrefix(name, prefix) && add(name)
		})
	case q.Kind == listing.SegmentDead:
		s.dead.Ascend(max(prefix, q.From.Name), func(name string, _ *deadGroup) bool {
			return strings.HasPrefix(name, prefix) && add(name)
		})
	case q.Topic != "":
		add(q.Topic)
	default:
		s.topics.Ascend(q.From.Name, func(name string, t *topic) bool { return t.ended.Len() == 0 || add(name) })
	}
	return q.FirstSegments([][]string{names}, n), nil
}

// DeadGroups pages through the groups of dead letters.
func (s *Store) DeadGroups(ctx context.Context, topic string, limit int, cursor string) (store.DeadPage, error) {
	after, err := listing.ParseDeadCursor(topic, cursor)
	if err != nil {
		return store.DeadPage{}, err
	}
	if _, err := s.enter(ctx); err != nil {
		return store.DeadPage{}, err
	}
	defer s.leave()
	var page store.DeadPage
	last, prefix := after, prefixOf(topic)
	s.dead.Ascend(max(prefix, after), func(name string, g *deadGroup) bool {
		switch {
		case !strings.HasPrefix(name, prefix):
			return false
		case name == after:
		case len(page.Groups) == limit:
			page.Next = listing.DeadCursor(last)
			return false
		default:
			page.Groups, last = append(page.Groups, g.stats()), name
		}
		return true
	})
	return page, nil
}

func (g *deadGroup) stats() store.DeadGroup {
	lane, reason, _ := listing.ParseDeadName(g.name) // it was made by DeadName
	oldest, _ := g.jobs.Min()
	newest, _ := g.jobs.Max()
	return store.DeadGroup{
		Lane: lane, Reason: reason, Count: int64(g.jobs.Len()), Oldest: oldest.score.at(), Newest: newest.score.at(),
	}
}

func (s source) Entries(ctx context.Context, seg listing.Segment, span listing.Span) ([]listing.Entry, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if seg.Kind == listing.SegmentNamed {
		return s.namedEntries(seg.Name, span.After, span.N), nil
	}
	list := s.listOf(seg)
	if list == nil {
		return nil, nil
	}
	var entries []listing.Entry
	add := func(e entry) bool {
		if span.After != nil && float64(e.score) == span.After.Score && e.rec.id == span.After.ID {
			return true
		}
		entries = append(entries, listing.Entry{
			Position: listing.Position{Score: float64(e.score), ID: e.rec.id}, State: e.rec.shown(),
		})
		return len(entries) < span.N
	}
	switch {
	case span.After == nil && span.Back:
		list.Reverse(add)
	case span.After == nil:
		list.Scan(add)
	case span.Back:
		list.Descend(entry{score(span.After.Score), &record{id: span.After.ID}}, add)
	default:
		list.Ascend(entry{score(span.After.Score), &record{id: span.After.ID}}, add)
	}
	return entries, nil
}

// listOf is the index that a segment names; nil when it is gone.
func (s source) listOf(seg listing.Segment) *index {
	switch seg.Kind {
	case listing.SegmentLane:
		if l, ok := s.lanes.Get(seg.Name); ok {
			return l.bucket
		}
	case listing.SegmentDead:
		if g, ok := s.dead.Get(seg.Name); ok {
			return g.jobs
		}
	default:
		if t, ok := s.topics.Get(seg.Name); ok {
			return t.ended
		}
	}
	return nil
}

// namedEntries are the jobs of a biz_key or of a group id by their keys.
func (s source) namedEntries(name string, after *listing.Position, n int) []listing.Entry {
	index, pivot := s.bizKeys, &record{bizKey: name, topic: &topic{}}
	has := func(rec *record) bool { return rec.bizKey == name }
	if groupID, ok := listing.CutGroupIndex(name); ok {
		index, pivot.id = s.groupIDs, job.MemberID(groupID, "")
		has = func(rec *record) bool { return job.GroupIDOf(rec.id) == groupID }
	}
	if after != nil {
		key, err := job.ParseKey(after.ID)
		if err != nil {
			return nil
		}
		pivot.topic.name, pivot.id = key.Topic, key.ID
	}
	var entries []listing.Entry
	index.Ascend(pivot, func(rec *record) bool {
		if !has(rec) {
			return false
		}
		id := job.Key{Topic: rec.topic.name, ID: rec.id}.String()
		if after == nil || id != after.ID {
			entries = append(entries, listing.Entry{Position: listing.Position{ID: id}})
		}
		return len(entries) < n
	})
	return entries
}

func (s source) Jobs(ctx context.Context, seg listing.Segment, entries []listing.Entry) ([]*job.Job, error) {
	found, err := s.snapshots(ctx, seg, entries)
	if err != nil {
		return nil, err
	}
	jobs := make([]*job.Job, len(found))
	for i, snap := range found {
		if snap == nil {
			continue
		}
		if err := decode(&snap.Job, snap.spec); err != nil {
			return nil, err
		}
		jobs[i] = &snap.Job
	}
	return jobs, nil
}

// snapshots copies the first entries, as Source.Jobs wants them.
func (s source) snapshots(ctx context.Context, seg listing.Segment, entries []listing.Entry) ([]*snapshot, error) {
	topic := job.TopicOfLane(seg.Name)
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	found, bytes := make([]*snapshot, 0, len(entries)), 0
	for _, e := range entries {
		if bytes >= store.BatchBytes {
			break
		}
		key := job.Key{Topic: topic, ID: e.ID}
		if seg.Kind == listing.SegmentNamed {
			var err error
			if key, err = job.ParseKey(e.ID); err != nil {
				return nil, err
			}
		}
		var snap *snapshot
		if rec := s.find(key); rec != nil {
			is := rec.snapshot()
			snap, bytes = &is, bytes+len(is.spec)
		}
		found = append(found, snap)
	}
	return found, nil
}

// FindUID finds the job with a uid at once.
func (s source) FindUID(ctx context.Context, uid, _ string) (*job.Job, string, error) {
	snap, err := s.byUID(ctx, uid)
	if snap == nil || err != nil {
		return nil, "", err
	}
	j, err := snap.job()
	return &j, "", err
}

func (s source) byUID(ctx context.Context, uid string) (found *snapshot, err error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	s.uids.Ascend(&record{uid: uid, topic: &topic{}}, func(rec *record) bool {
		if rec.uid == uid {
			snap := rec.snapshot()
			found = &snap
		}
		return false
	})
	return found, nil
}

// Times reads the times of the jobs of entries.
func (s source) Times(ctx context.Context, seg listing.Segment, entries []listing.Entry) ([]store.Times, int, error) {
	topic := job.TopicOfLane(seg.Name)
	if _, err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.leave()
	times := make([]store.Times, len(entries))
	for i, e := range entries {
		if rec := s.find(job.Key{Topic: topic, ID: e.ID}); rec != nil {
			times[i] = store.TimesOf(&job.Job{State: rec.state, CreatedAt: rec.createdAt, DueAt: rec.dueAt, NextAt: rec.nextAt})
		}
	}
	return times, 0, nil
}
