package redisstore

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Bounds on reading the times of jobs, for which Redis handles whole records: of one
// script, and of a page in bytes.
const (
	timesRecords  = 500
	timesBytes    = 1 << 20
	maxTimesBytes = 64 << 20
)

// Times reads the times of the jobs of entries.
func (s source) Times(ctx context.Context, seg listing.Segment, entries []listing.Entry) ([]store.Times, error) {
	sh := s.shards[seg.Shard]
	out := make([]store.Times, 0, len(entries))
	left := int64(maxTimesBytes)
	for len(out) < len(entries) {
		batch := entries[len(out):min(len(entries), len(out)+timesRecords)]
		times, bytes, err := s.someTimes(ctx, sh, seg, batch)
		if err != nil {
			return nil, err
		}
		if left -= bytes; left < 0 {
			return nil, fmt.Errorf("%w: their records are large", store.ErrTooManyToSort)
		}
		out = append(out, times...)
	}
	return out, nil
}

// someTimes reads the times of at least one of a batch, and tells what was handled.
func (s source) someTimes(ctx context.Context, sh *shard, seg listing.Segment, batch []listing.Entry) ([]store.Times, int64, error) {
	keys, args := make([]string, len(batch)), []any{timesBytes}
	for i, e := range batch {
		key, err := keyOf(seg, e)
		if err != nil {
			return nil, 0, fmt.Errorf("redisstore: entry %q of %s: %w", e.ID, seg.Name, err)
		}
		keys[i], args = sh.page(key), append(args, key.String())
	}
	reply, err := timesScript.Run(ctx, s.db, keys, args...).Slice()
	if err != nil {
		return nil, 0, s.wrap(err)
	}
	if n := len(reply); n < 3 || n > 1+2*len(batch) || n%2 == 0 {
		return nil, 0, fmt.Errorf("redisstore: times answered %d values for %d jobs", n, len(batch))
	}
	bytes, _ := reply[0].(int64)
	var out []store.Times
	for heads := reply[1:]; len(heads) > 0; heads = heads[2:] {
		registered, _ := heads[0].(string)
		since, _ := heads[1].(string)
		out = append(out, timesOf(registered, since))
	}
	return out, bytes, nil
}

// timesOf reads the heads of a record; zero for one that cannot be read.
func timesOf(registered, since string) store.Times {
	h, err := decodeRegisteredHead(registered)
	if err != nil {
		return store.Times{}
	}
	due := job.Instant(h.created + h.due)
	r := record{Job: job.Job{CreatedAt: job.Instant(h.created), DueAt: due, NextAt: due}}
	if since != "" {
		if err := r.proceed(decodeProgressHead(since)); err != nil {
			return store.Times{}
		}
	}
	return store.TimesOf(&r.Job)
}
