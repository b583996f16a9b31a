package listing

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

const (
	// lanesAtOnce is how many lanes one call counts.
	lanesAtOnce = 100
	// maxDue bounds what a call examines in each shard: entries and lanes.
	maxDue = 150_000
)

// DueCounts counts waiting jobs, neither carried nor claimed, by when they need attention: of
// one topic, of one endpoint, or of all. Jobs that wait for another job of their order key count
// by when they are due. Bounds ascend. Lanes are counted in turn, the earliest first, so a job
// that moves concurrently may be missed or counted twice. The work is bounded; with many lanes
// the last ones are left out.
func DueCounts(ctx context.Context, src store.Reader, of store.DueOf, bounds []job.Instant) (store.DueCounts, error) {
	if !of.Within {
		bounds = slices.Concat([]job.Instant{0}, bounds, []job.Instant{store.EndOfTime})
	}
	perShard, err := batch.Gather(ctx, src.Shards(), func(ctx context.Context, shard int) (store.DueCounts, error) {
		lanes := earliest(src, shard)
		if of.Topic != "" || of.Endpoint != "" {
			lanes = namedLanes(src, store.NameQuery{Kind: store.LaneNames, Shard: shard, Topic: of.Topic, Endpoint: of.Endpoint, N: nameChunk})
		}
		return dueIn(ctx, src, shard, lanes, bounds, cmp.Or(of.Most, maxDue))
	})
	d := store.DueCounts{Counts: make([]int64, len(bounds)-1)}
	for _, part := range perShard {
		for i, n := range part.Counts {
			d.Counts[i] += n
		}
		leaveOut(&d, part.PartialFrom)
	}
	return d, err
}

// leaveOut notes that lanes or jobs from a time on were not counted; zero: all were.
func leaveOut(d *store.DueCounts, from job.Instant) {
	if d.PartialFrom == 0 || from != 0 && from < d.PartialFrom {
		d.PartialFrom = from
	}
}

// someLanes returns the next lanes, up to lanesAtOnce and none at the end, and when the first
// needs attention.
type someLanes func(ctx context.Context) (lanes []string, first job.Instant, err error)

// earliest returns the lanes of a shard, the earliest first.
func earliest(src store.Reader, shard int) someLanes {
	var after *store.Position
	return func(ctx context.Context) ([]string, job.Instant, error) {
		entries, _, err := src.Entries(ctx, store.Index{Kind: store.IndexVisits, Shard: shard}, store.Span{After: after, N: lanesAtOnce})
		if err != nil || len(entries) == 0 {
			return nil, 0, err
		}
		lanes := make([]string, len(entries))
		for i, e := range entries {
			lanes[i] = e.ID
		}
		after = &entries[len(entries)-1].Position
		return lanes, job.Instant(entries[0].Score), nil
	}
}

// namedLanes returns the lanes of a topic or endpoint, which may all need attention now.
func namedLanes(src store.Reader, q store.NameQuery) someLanes {
	var names []string
	more := true
	return func(ctx context.Context) (lanes []string, first job.Instant, err error) {
		if len(names) == 0 && more {
			if names, err = src.Names(ctx, q); err != nil {
				return nil, 0, err
			}
			if more = len(names) == q.N; more {
				q.From = behind(names[len(names)-1])
			}
		}
		lanes = names[:min(lanesAtOnce, len(names))]
		names = names[len(lanes):]
		return lanes, 0, nil
	}
}

// dueIn counts the jobs of lanes of one shard.
func dueIn(ctx context.Context, src store.Reader, shard int, lanes someLanes, bounds []job.Instant, left int) (store.DueCounts, error) {
	d := store.DueCounts{Counts: make([]int64, len(bounds)-1)}
	q := store.FigureQuery{Shard: shard, Due: store.DueQuery{Behind: true, Bounds: bounds}}
	for {
		names, first, err := lanes(ctx)
		if err != nil || len(names) == 0 {
			return d, err
		}
		if left <= 0 {
			leaveOut(&d, max(1, first))
			return d, nil
		}
		q.Lanes, q.Due.Most = names, left
		f, err := src.Figures(ctx, q)
		if err != nil {
			return d, err
		}
		left -= f.Cost
		for i := range f.Lanes {
			for at, n := range f.Lanes[i].Due {
				d.Counts[at] += n
			}
			leaveOut(&d, f.Lanes[i].PartialFrom)
		}
	}
}

// Backlogs returns the topics that have due jobs waiting. Its work grows with the number of
// lanes that have such jobs or may be put off; store.MaxLanes bounds it.
func Backlogs(ctx context.Context, src store.Reader) (store.Backlogs, error) {
	perShard, err := batch.Gather(ctx, src.Shards(), func(ctx context.Context, shard int) (backlogs, error) { return backlogsOf(ctx, src, shard) })
	var b store.Backlogs
	all := map[string]store.Backlog{}
	for _, of := range perShard {
		b.Now, b.Partial = max(b.Now, of.now), b.Partial || of.partial
		for _, t := range of.topics {
			addBacklog(all, t)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(all)) {
		b.Topics = append(b.Topics, all[topic])
	}
	return b, err
}

// backlogs are those of a shard.
type backlogs struct {
	now     job.Instant
	topics  map[string]store.Backlog
	partial bool
}

func backlogsOf(ctx context.Context, src store.Reader, shard int) (b backlogs, err error) {
	asked, err := src.Figures(ctx, store.FigureQuery{Shard: shard, Now: true})
	if err != nil {
		return b, err
	}
	b.now, b.topics = asked.Now, map[string]store.Backlog{}
	lanes, err := src.Names(ctx, store.NameQuery{Kind: store.DueNames, Shard: shard, Before: b.now + 1, N: store.MaxLanes + 1})
	b.partial = len(lanes) > store.MaxLanes
	left := maxDue
	for some := range slices.Chunk(lanes[:min(len(lanes), store.MaxLanes)], lanesAtOnce) {
		q := store.FigureQuery{Shard: shard, Lanes: some, Due: store.DueQuery{Bounds: []job.Instant{0, b.now + 1}, First: true, Most: max(left, len(some))}}
		f, err := src.Figures(ctx, q)
		if err != nil {
			return b, err
		}
		left -= f.Cost
		for i, l := range f.Lanes {
			b.partial = b.partial || l.PartialFrom != 0
			if l.Due[0] > 0 {
				addBacklog(b.topics, store.Backlog{Topic: job.TopicOfLane(some[i]), Jobs: l.Due[0], Oldest: l.First})
			}
		}
	}
	return b, err
}

func addBacklog(all map[string]store.Backlog, b store.Backlog) {
	if known, ok := all[b.Topic]; ok {
		b.Jobs, b.Oldest = b.Jobs+known.Jobs, min(b.Oldest, known.Oldest)
	}
	all[b.Topic] = b
}

// Outlook returns what delays the job's next attempt. Errors are those of Get. With
// ErrNotFound, Outlook.Now is set.
func Outlook(ctx context.Context, src store.Reader, key job.Key) (store.Outlook, error) {
	o, err := src.Outlook(ctx, key)
	waits := o.At != 0 && o.Job.State == o.Job.Pending()
	paced := o.Limits.Rate > 0 && o.At <= o.Now
	if err != nil || !waits || !o.Ranked && !paced {
		return o, err
	}
	// These figures are a moment younger.
	own := o.Job.Lane()
	higher, beside, err := rivals(ctx, src, o.Shard, own, paced)
	if err != nil || len(higher)+len(beside) == 0 {
		return o, err
	}
	f, err := src.Figures(ctx, store.FigureQuery{
		Shard: o.Shard, Circuits: len(beside) > 0, At: o.Now, Lanes: slices.Concat(higher, beside),
		Due: store.DueQuery{Bounds: []job.Instant{0, o.Now + 1}, Most: maxDue},
	})
	if err != nil {
		return o, err
	}
	var turns []int64
	for i, l := range f.Lanes {
		if i < len(higher) {
			o.Higher += l.Due[0]
		} else if lane, err := job.ParseLane(beside[i-len(higher)]); err == nil && f.Circuits[lane.Endpoint].OpenUntil == 0 {
			turns = append(turns, l.Due[0])
		}
	}
	if len(turns) > 0 {
		o.Beside = rules.TurnsBefore(o.Ahead, turns)
	}
	return o, nil
}

// rivals returns the lanes of the topic with a higher priority, and if the topic has a rate
// those of the same priority for other endpoints.
func rivals(ctx context.Context, src store.Reader, shard int, own job.Lane, paced bool) (higher, beside []string, err error) {
	names := namedLanes(src, store.NameQuery{Kind: store.LaneNames, Shard: shard, Topic: own.Topic, N: nameChunk})
	for read := 0; read < store.MaxLanes; {
		some, _, err := names(ctx)
		if err != nil || len(some) == 0 {
			return higher, beside, err
		}
		read += len(some)
		for _, name := range some {
			lane, err := job.ParseLane(name)
			switch {
			case err != nil:
			case lane.Priority.Number() > own.Priority.Number():
				higher = append(higher, name)
			case paced && lane.Endpoint != own.Endpoint && lane.Priority == own.Priority:
				beside = append(beside, name)
			}
		}
	}
	return higher, beside, nil
}
