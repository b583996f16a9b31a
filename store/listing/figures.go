package listing

import (
	"context"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
)

// ask asks every shard for figures.
func ask(ctx context.Context, src store.Figuring, q store.FigureQuery) ([]store.Figures, error) {
	return batch.Gather(ctx, src.Shards(), func(ctx context.Context, shard int) (store.Figures, error) {
		q := q
		q.Shard = shard
		return src.Figures(ctx, q)
	})
}

// Depth returns the figures of the whole store.
func Depth(ctx context.Context, src store.Figuring) (store.Depth, error) {
	perShard, err := ask(ctx, src, store.FigureQuery{Depth: true})
	d := store.Depth{States: map[job.State]int64{}}
	for i := range perShard {
		of := &perShard[i].Depth
		for state, n := range of.States {
			d.States[state] += n
		}
		d.ReadyList += of.ReadyList
		d.OrderKeys, d.Behind = d.OrderKeys+of.OrderKeys, d.Behind+of.Behind
		d.Now, d.OpenCircuits = max(d.Now, of.Now), max(d.OpenCircuits, of.OpenCircuits)
		if d.OldestDue == 0 || of.OldestDue != 0 && of.OldestDue < d.OldestDue {
			d.OldestDue = of.OldestDue
		}
	}
	return d, err
}

// Limits returns the limits of all topics that have limits. They are zero for a topic whose
// limits differ between shards, because SetLimits failed in some.
func Limits(ctx context.Context, src store.Figuring) (map[string]store.Limits, error) {
	perShard, err := ask(ctx, src, store.FigureQuery{Limits: true})
	if err != nil {
		return nil, err
	}
	all := map[string]store.Limits{}
	for i := range perShard {
		for topic := range perShard[i].Limits {
			all[topic] = perShard[0].Limits[topic]
		}
	}
	for topic, limits := range all {
		if slices.ContainsFunc(perShard, func(f store.Figures) bool { return f.Limits[topic] != limits }) {
			all[topic] = store.Limits{}
		}
	}
	return all, nil
}

// circuitsOf returns the circuits that are not closed, by endpoint, and the latest time of a
// shard. Shards differ only for the moment in which a circuit changes.
func circuitsOf(ctx context.Context, src store.Figuring) (map[string]store.Circuit, job.Instant, error) {
	perShard, err := ask(ctx, src, store.FigureQuery{Circuits: true})
	all, now := map[string]store.Circuit{}, job.Instant(0)
	for i := range perShard {
		now = max(now, perShard[i].Now)
		for endpoint, c := range perShard[i].Circuits {
			m := all[endpoint]
			all[endpoint] = store.Circuit{
				OpenUntil: max(c.OpenUntil, m.OpenUntil), HalfOpenUntil: max(c.HalfOpenUntil, m.HalfOpenUntil), RampFrom: max(c.RampFrom, m.RampFrom),
			}
		}
	}
	return all, now, err
}

// counts are jobs by state.
type counts map[job.State]int64

func (c counts) sum() (n int64) {
	for _, held := range c {
		n += held
	}
	return n
}

func topicCounts(ctx context.Context, src store.Figuring, topics []string) ([]counts, error) {
	return sums(ctx, src, len(topics), store.FigureQuery{Topics: topics}, func(f *store.Figures) []map[job.State]int64 { return f.Topics })
}

func endpointCounts(ctx context.Context, src store.Figuring, endpoints []string) ([]counts, error) {
	return sums(ctx, src, len(endpoints), store.FigureQuery{Endpoints: endpoints}, func(f *store.Figures) []map[job.State]int64 { return f.Endpoints })
}

// sums adds the counts of n names over all shards.
func sums(ctx context.Context, src store.Figuring, n int, q store.FigureQuery, of func(*store.Figures) []map[job.State]int64) ([]counts, error) {
	if n == 0 {
		return nil, nil
	}
	perShard, err := ask(ctx, src, q)
	if err != nil {
		return nil, err
	}
	all := make([]counts, n)
	for i := range all {
		all[i] = counts{}
		for shard := range perShard {
			for state, held := range of(&perShard[shard])[i] {
				all[i][state] += held
			}
		}
	}
	return all, nil
}
