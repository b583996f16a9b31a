package redisstore

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Bounds on reading the times of jobs, for which Redis handles whole records: of one
// script, and how many scripts of a page may end early for their bytes.
const (
	timesRecords  = 500
	timesBytes    = 1 << 20
	maxTimesReads = 64
)

// Times reads the times of the jobs of entries.
func (s source) Times(ctx context.Context, seg listing.Segment, entries []listing.Entry) ([]store.Times, error) {
	sh := s.shards[seg.Shard]
	out := make([]store.Times, 0, len(entries))
	large := 0 // reads that ended early
	for len(out) < len(entries) {
		batch := entries[len(out):min(len(entries), len(out)+timesRecords)]
		keys := make([]job.Key, len(batch))
		for i, e := range batch {
			var err error
			if keys[i], err = keyOf(seg, e); err != nil {
				return nil, fmt.Errorf("redisstore: entry %q of %s: %w", e.ID, seg.Name, err)
			}
		}
		heads, _, err := s.readRaw(ctx, sh, keys, timesBytes, true)
		if err != nil {
			return nil, err
		}
		for _, w := range heads {
			out = append(out, timesOf(w))
		}
		if len(heads) < len(batch) {
			large++
		}
		if large > maxTimesReads {
			return nil, fmt.Errorf("%w: their records are large", store.ErrTooManyToSort)
		}
	}
	return out, nil
}

// timesOf reads the heads of a record; zero for one that cannot be read.
func timesOf(w raw) store.Times {
	h, err := decodeRegisteredHead(w.registration)
	if err != nil {
		return store.Times{}
	}
	due := job.Instant(h.created + h.due)
	r := record{Job: job.Job{CreatedAt: job.Instant(h.created), DueAt: due, NextAt: due}}
	if w.progress != "" {
		if err := r.proceed(decodeProgressHead(w.progress)); err != nil {
			return store.Times{}
		}
	}
	return store.TimesOf(&r.Job)
}
