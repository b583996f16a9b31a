package redisstore

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Bounds on reading the times of jobs, for which Redis handles whole records.
const (
	timesRecords = 500     // of one script
	timesBytes   = 1 << 20 // of one script, but for its last record
	// maxLargeReads is how many scripts of a page may end early because of timesBytes.
	maxLargeReads = 64
)

// Times reads the times of the jobs of entries.
func (s source) Times(ctx context.Context, seg listing.Segment, entries []listing.Entry) ([]store.Times, error) {
	sh := s.shards[seg.Shard]
	out := make([]store.Times, 0, len(entries))
	for len(out) < len(entries) {
		keys, err := keysOf(seg, entries[len(out):min(len(entries), len(out)+timesRecords)])
		if err != nil {
			return nil, err
		}
		heads, _, err := s.readRaw(ctx, sh, keys, timesBytes, headsOnly)
		if err != nil {
			return nil, err
		}
		for _, w := range heads {
			out = append(out, timesOf(w))
		}
		if len(heads) == len(keys) {
			continue
		}
		if *s.largeReads--; *s.largeReads < 0 {
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
